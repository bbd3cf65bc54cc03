"""The real command line, with its imports done once: each command is forked off and runs as a process of its own.

A command that starts in a millisecond can be killed in the middle of its work and not of its imports, and two of them
really race. With the argument `aws` or `github` it has those engines at hand as well. One JSON object per line on
stdin, one answer per line on stdout:

    {"start": [ARGUMENTS], "out": FILE, "err": FILE, "cwd": DIR, "environ": {NAME: VALUE}, "ahead": SECONDS}
                                                                                    →  {"pid": N}, once it hears signals
    {"wait": PID}                                                                   →  {"code": N}

`environ` is added to the command's environment. `ahead` lets so much time pass for the command: a deadline passes
without a caller that waits for it. `skewed` puts its clock so far ahead that it is wrong, and nothing else. If
`environ` has SQLITE_WORK, the command writes into that file how many tens of instructions SQLite carried out for it.
"""

import asyncio
import functools
import gc
import importlib
import json
import os
import signal
import sqlite3
import sys
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import bullpen.cli.down
import bullpen.cli.job
import bullpen.cli.program
import bullpen.cli.provision
import bullpen.cli.refresh
import bullpen.cli.release
import bullpen.cli.run
import bullpen.cli.status
import bullpen.cli.why
import bullpen.down
import bullpen.engines.local
import bullpen.engines.sqlite.ci
import bullpen.engines.sqlite.observations
import bullpen.engines.sqlite.queue
import bullpen.engines.sqlite.records
import bullpen.engines.sqlite.signals
import bullpen.inventory
import bullpen.pool.clock_skew
import bullpen.provision
import bullpen.refresh
import bullpen.release
import bullpen.wiring
from bullpen.cli import leave, main
from bullpen.cli.unix_signals import SIGNALS
from bullpen.engines.system import SystemClock

__all__ = ["asyncio", "bullpen", "sqlite3"]  # imported to be there

PATIENCE = 120.0  # seconds; an engine answers within milliseconds, on a busy machine within seconds


def prepare_aws() -> None:
    """The engines, AWS's descriptions of its services, and the agent's archive, which each command would make again."""
    import botocore.session

    from bullpen.config import Settings
    from bullpen.engines.aws.boot.userdata import own_user_data

    own_user_data(Settings())
    be_patient()

    store = ("ci", "jobs", "logs", "observations", "records", "signals", "workers")
    for name in (*(f"dynamodb.{port}" for port in store), "sqs.queue", "ec2.compute", "infrastructure.setup"):
        importlib.import_module(f"bullpen.engines.aws.{name}")
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)
    session = botocore.session.get_session()
    for service in ("dynamodb", "sqs", "ec2"):
        session.create_client(service, region_name="us-east-1").close()


def be_patient() -> None:
    """Let no call to AWS time out: it would be repeated, and on a busy machine a test would count one request more."""
    from aiobotocore.config import AioConfig

    from bullpen.engines.aws import session

    usual = session._config

    def patient(service: str, attempts: int) -> AioConfig:
        return usual(service, attempts).merge(AioConfig(connect_timeout=PATIENCE, read_timeout=PATIENCE))

    session._config = patient


def prepare_github() -> None:
    """The engine, what it calls GitHub with, and `serve`."""
    engine = ("infrastructure", "runners", "workflows", "oidc", "webhooks")
    for name in ("httpx", "jwt", "uvloop", "bullpen.cli.doctor", "bullpen.cli.serve", "bullpen.server.serve"):
        importlib.import_module(name)
    for name in engine:
        importlib.import_module(f"bullpen.engines.github.{name}")


def serve() -> None:
    gc.freeze()  # what is imported stays shared: a collection in a child would copy all of it
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            _, status = os.waitpid(asked["wait"], 0)
            answer = {"code": os.waitstatus_to_exitcode(status)}
        else:
            answer = {"pid": start(asked)}
        print(json.dumps(answer), flush=True)


def start(asked: dict[str, Any]) -> int:
    """Fork the command off and return its pid. A signal may be sent to it at once: it has handlers for it."""
    told, telling = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        become(asked, telling)
    os.close(telling)
    os.read(told, 1)  # a byte, or the end of a child that died of something else
    os.close(told)
    return pid


def put_ahead(ahead: timedelta) -> None:
    SystemClock.now = lambda self: datetime.now(UTC) + ahead  # type: ignore[method-assign]


async def trusted(ports: Any, settings: Any) -> str:
    return ""


def count_work() -> list[None]:
    """One entry for every ten instructions of SQLite's, on any connection that is opened from now on."""
    done: list[None] = []
    connect = sqlite3.connect

    def counted(*where: Any, **how: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*where, **how)
        connection.set_progress_handler(lambda: done.append(None), 10)
        return connection

    sqlite3.connect = counted  # type: ignore[assignment]
    return done


def become(asked: dict[str, Any], telling: int) -> NoReturn:
    """Turn this process into the command."""
    for number, (name, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), (asked["out"], os.O_WRONLY | os.O_CREAT), (asked["err"], os.O_WRONLY | os.O_CREAT)]
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    os.chdir(asked["cwd"])
    os.environ |= asked["environ"]
    if asked["ahead"]:
        put_ahead(timedelta(seconds=asked["ahead"]))
        bullpen.pool.clock_skew.doubt = trusted  # it is the time that is later: no clock is wrong
        if (aws := sys.modules.get("bullpen.engines.aws.clock")) is not None:
            aws.DateClock.learn = lambda *answer: None
    elif asked.get("skewed"):
        put_ahead(timedelta(seconds=asked["skewed"]))
    sys.argv = ["bullpen", *asked["start"]]
    for number in SIGNALS:
        signal.signal(number, leave)  # as main() does first of all, and no test can wait for that
    os.write(telling, b".")
    os.close(telling)
    work = count_work() if "SQLITE_WORK" in os.environ else []
    code = main()
    sys.stdout.flush()
    if "SQLITE_WORK" in os.environ:
        with open(os.environ["SQLITE_WORK"], "w") as file:
            file.write(str(len(work)))
    os._exit(code)  # taking the interpreter apart costs more than the command, and shows nothing about it


if __name__ == "__main__":
    if "aws" in sys.argv[1:]:
        prepare_aws()
    if "github" in sys.argv[1:]:
        prepare_github()
    serve()
