"""Homes whose database exists already.

To make a database, Bullpen executes every migration and sets pages aside, which takes 40 ms of processor time. Hundreds
of tests need a database of the current version, and promise nothing about its making. The first of them in a process
makes one; the others get a copy. Tests of opening and of migrations make their own.
"""

import os
import tempfile
from functools import cache
from pathlib import Path

from bullpen.engines.sqlite.migrations import FILE, load_scripts, open_home
from bullpen.engines.sqlite.turnstile import Turnstile


def with_database(home: Path) -> Path:
    """The home, with an empty database of the current version unless it has one."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (home / FILE).exists():
        with open(os.open(home / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(_new_database())
    return home


@cache
def _new_database() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        open_home(home, Turnstile(home), load_scripts()).close()  # the last connection writes the log back to the file
        return (home / FILE).read_bytes()
