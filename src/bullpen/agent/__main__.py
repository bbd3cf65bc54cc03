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

from bullpen.agent.config import load
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


def main(arguments: list[str]) -> int:
    os.umask(0o077)
    try:
        (path,) = arguments
        config = load(Path(path))
        os.chdir(config.directory)
        listener = Listener(socket_directory(config.home), config.instance_id)
        link = Link(config.home, config.instance_id)
    except Exception as exc:
        log(f"cannot start: {exc}")
        return 2
    Agent(config, link, listener, log).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
