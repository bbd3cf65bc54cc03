"""The agent as a process: `python -I -S …/bullpen/agent/__main__.py <instance directory>/agent.json`.

Started by path and without site-packages: it needs only Python, and every module it does not load is time that a cold
start does not take. Its log is wherever standard error leads.
"""

import os
import sys
import time

if not __package__:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bullpen.agent.config import Config, load
from bullpen.agent.loop import AgentLoop
from bullpen.agent.store.sqlite import SqliteStore
from bullpen.agent.wakeup import ThreadWakeup
from bullpen.engines.sqlite.notify import Listener, socket_directory


def log(line: str) -> None:
    """One line per landed change; a disk that is full costs the line, not the agent."""
    line = line.replace("\n", " | ")  # what a script printed has several
    moment = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    with suppress(OSError):
        os.write(2, f"{stamp}.{int(moment * 1000) % 1000:03d}Z {line}\n".encode(errors="replace"))


def _agent(config: Config) -> AgentLoop:
    """Raise ValueError where the configuration leaves no way to the store."""
    if not (config.serve_url or config.table):
        bell = Listener(socket_directory(config.home), config.instance_id)
        return AgentLoop(config, SqliteStore(config), bell, log)
    wakeup, notices, metadata = ThreadWakeup(), None, None
    if config.imds:
        from bullpen.agent.aws.imds import Metadata
        from bullpen.agent.aws.interruption import Notices

        metadata = Metadata()
        found = metadata.identity()
        config = replace(
            config,
            instance_id=config.instance_id or found.instance_id,
            region=config.region or found.region,
            domain=config.domain or found.zone,
        )
        notices = Notices(Metadata(), wakeup)
        notices.start()
    if config.serve_url:
        from bullpen.agent.store.http import HttpStore

        return AgentLoop(config, HttpStore(config, wakeup), wakeup, log, notices)
    if metadata is None:
        raise ValueError(f"table {config.table} cannot be reached without the metadata service's credentials")
    from bullpen.agent.store.dynamodb import connect

    return AgentLoop(config, connect(config, metadata), wakeup, log, notices)


def _shut_down(command: tuple[str, ...]) -> None:
    """End the machine, whatever ended the agent: nothing else would, and it costs money."""
    if not command:
        return
    import subprocess

    try:
        # Not awaited: it may end this process first.
        subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as exc:
        log(f"cannot end the machine: {exc}")


def main(arguments: list[str]) -> int:
    os.umask(0o077)
    config, status = None, 2
    try:
        (path,) = arguments
        config = load(Path(path))
        os.chdir(config.directory)
        agent = _agent(config)
        status = 1
        if agent.run():
            status = 0
    except Exception as exc:
        log(f"cannot {'start' if status == 2 else 'go on'}: {exc}")
    _shut_down(config.shutdown if config is not None else ())
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
