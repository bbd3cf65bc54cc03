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
from pathlib import Path
from typing import Any

from bullpen.agent.config import Config, load
from bullpen.agent.link import Link
from bullpen.agent.loop import Agent
from bullpen.engines.sqlite.wake import Listener, socket_directory


def log(line: str) -> None:
    """One line per landed change; a disk that is full costs the line, not the agent."""
    line = line.replace("\n", " | ")  # what a script printed has several
    moment = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    with suppress(OSError):
        os.write(2, f"{stamp}.{int(moment * 1000) % 1000:03d}Z {line}\n".encode(errors="replace"))


def _connected(config: Config) -> tuple[Any, Any]:
    """The way to the store, and what wakes us: over HTTP where we are told of a service, else on this machine."""
    if config.serve_url:
        from bullpen.agent.link_http import Bell, HttpLink

        bell = Bell()
        return HttpLink(config, bell), bell
    return Link(config), Listener(socket_directory(config.home), config.instance_id)


def main(arguments: list[str]) -> int:
    os.umask(0o077)
    try:
        (path,) = arguments
        config = load(Path(path))
        os.chdir(config.directory)
        link, listener = _connected(config)
    except Exception as exc:
        log(f"cannot start: {exc}")
        return 2
    return 0 if Agent(config, link, listener, log).run() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
