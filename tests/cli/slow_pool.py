"""The real command line on a pool in memory whose use cases wait: for tests that send it signals.

python slow_pool.py MODE ARGUMENTS...      MODE: obedient (ends when asked to stop) | deaf | loading | answering
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import bullpen.cli.options
import bullpen.cli.provision
import bullpen.inventory
import bullpen.provision
import bullpen.wiring
from bullpen.cli import main
from bullpen.cli.output import say
from bullpen.config import Settings
from bullpen.engines.memory import Memory
from bullpen.errors import FailureCause
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.ports import Ports
from bullpen.provision.outcome import Outcome, Request
from bullpen.schema.provision import ProvisionAnswer

MODE = sys.argv.pop(1)


@asynccontextmanager
async def embedded(home: Path, settings: Settings) -> AsyncIterator[Ports]:
    yield Memory().ports()


def is_unused(home: Path, settings: Settings) -> bool:
    return False


async def provision(ports: Ports, settings: Settings, request: Request, *, stop: asyncio.Event, tell: Tell) -> Outcome:
    if MODE == "answering":
        return Outcome(request.run_id, "p-1", request.count, reason="asked to stop")
    tell(ProgressReport(WorkPhase.ACQUIRE, "waiting"))
    await (stop if MODE == "obedient" else asyncio.Event()).wait()
    return Outcome(request.run_id, "p-1", request.count, reason="asked to stop", cause=FailureCause.INTERRUPTED)


async def status(ports: Ports, settings: Settings) -> Any:
    print("waiting", file=sys.stderr, flush=True)
    await asyncio.Event().wait()


def load(*arguments: Any, **options: Any) -> Any:
    print("waiting", file=sys.stderr, flush=True)
    sys.stdin.read()


def print_json(answer: ProvisionAnswer) -> None:
    print("waiting", file=sys.stderr, flush=True)
    sys.stdin.read()
    say(json.dumps({"reason": answer.reason}))


put_in_place: list[tuple[Any, Any]] = [
    (bullpen.wiring, embedded),
    (bullpen.wiring, is_unused),
    (bullpen.provision, provision),
    (bullpen.inventory, status),
]
if MODE == "loading":
    put_in_place.append((bullpen.cli.options, load))
if MODE == "answering":
    put_in_place.append((bullpen.cli.provision, print_json))
for module, stand_in in put_in_place:
    setattr(module, stand_in.__name__, stand_in)
sys.exit(main())
