"""Hears GitHub's runner ask about a job, and answers.

<instance>/hooks/
    started.sh  completed.sh    what the runner executes: see `hook`
    ask                         a pipe that the jobs' user may write to
    answers/<id>                empty: the job may run; else why it may not

Only the pipe is open to jobs. One that writes to it can ask, and be refused; the answer is not theirs to write.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.agent.actions.admission import Asked
from bullpen.agent.actions.hook import script

if TYPE_CHECKING:
    from bullpen.agent.account import Account

EVENTS = ("started", "completed")
AT_ONCE = 4096  # bytes: what a pipe takes whole, and far more than a question has
ID = re.compile(r"[0-9]{1,10}-[0-9]{1,12}", re.ASCII)


class Hooks:
    def __init__(self, directory: Path, account: Account | None) -> None:
        """Lay everything out. Raise OSError."""
        self._directory = directory
        self._answers = directory / "answers"
        for made in (directory, self._answers):
            made.mkdir()
            made.chmod(0o755)
        for event in EVENTS:
            path = self.path(event)
            path.write_text(script(event, shlex.quote(str(directory))), encoding="utf-8")
            path.chmod(0o755)
        os.mkfifo(directory / "ask", 0o600)
        if account is not None:
            os.chown(directory / "ask", -1, account.group)
            os.chmod(directory / "ask", 0o620)
        # For writing too: so there is always a reader, and never an end.
        self._ask = os.open(directory / "ask", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._heard = b""

    def path(self, event: str) -> Path:
        return self._directory / f"{event}.sh"

    def fileno(self) -> int:
        return self._ask

    def asked(self) -> Asked | None:
        """The next question about a job that is about to begin, or note that one is over; None if there is none. Never
        waits."""
        with suppress(BlockingIOError):
            self._heard += os.read(self._ask, AT_ONCE)
        while b"\n" in self._heard:
            line, _, self._heard = self._heard.partition(b"\n")
            if (asked := _parsed(line.decode(errors="replace"))) is not None:
                return asked
        self._heard = self._heard[-AT_ONCE:]
        return None

    def answer(self, asked: Asked, refusal: str) -> None:
        """Tell whoever asks; empty: the job may run. Earlier answers go: their askers have read them, or are gone."""
        with suppress(OSError):
            for name in os.listdir(self._answers):
                os.unlink(self._answers / name)
        draft = self._directory / "draft"
        with suppress(OSError):  # without an answer the job fails by itself, and says so
            draft.write_text(refusal, encoding="utf-8")
            draft.chmod(0o644)
            draft.rename(self._answers / asked.id)

    def close(self) -> None:
        os.close(self._ask)


def _parsed(line: str) -> Asked | None:
    """None for what is no question: a job may write anything."""
    parts = line.split("\t")
    if len(parts) != 7 or parts[1] not in EVENTS or not ID.fullmatch(parts[0]):
        return None
    id_, event, run, attempt, repository, runner, job = parts
    return Asked(id_, run, attempt, repository, runner, job, is_over=event == "completed")
