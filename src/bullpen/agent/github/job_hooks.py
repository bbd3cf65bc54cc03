"""Hears GitHub's runner ask about a job, and answers.

<instance>/hooks/
    started.sh  completed.sh    what the runner executes: see `hook`
    ask                         a pipe that the jobs' user may write to, another one for every registration
    answers/<id>                empty: the job may run; else why it may not
<instance>/runner/.env          tells the runner of the scripts

Only the pipe is open to jobs. One that writes to it can ask, and be refused; the answer is not theirs to write. A job
can pass its descriptor of the pipe to a process of another instance, which no cleaning of this one ends: so the next
run has another pipe.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.agent.github.admission import AdmissionRequest
from bullpen.agent.github.hook_scripts import script

if TYPE_CHECKING:
    from bullpen.agent.account import Account

EVENTS = ("started", "completed")
AT_ONCE = 64 * 1024  # bytes: a pipe holds no more, unless whoever writes to it has made it larger
LONGEST = 4096  # bytes that a pipe takes whole, and far more than a question has
QUESTION = re.compile(
    r"([0-9]{1,10}-[0-9]{1,12})\t(started|completed)\t([0-9]{1,20})\t([0-9]{1,4})"  # id, event, run, attempt
    r"\t([A-Za-z0-9._-]{1,99}/[A-Za-z0-9._-]{1,100})\t([^\t]{0,64})\t([^\t]{0,200})"  # repository, runner, job
)


class Hooks:
    def __init__(self, directory: Path, account: Account | None) -> None:
        """Lay everything out but the pipe. Raise OSError."""
        self._directory, self._account = directory, account
        self._pipe = directory / "ask"
        self._ask = -1
        self._heard = b""
        self._answers = directory / "answers"
        for made in (directory, self._answers):
            made.mkdir()
            made.chmod(0o755)
            if account is not None:  # and nobody else, not even by the open directory that a job passes on
                os.chown(made, -1, account.group)
                made.chmod(0o750)
        for event in EVENTS:
            path = self.path(event)
            path.write_text(script(event, shlex.quote(str(directory))), encoding="utf-8")
            path.chmod(0o755)

    def open(self) -> None:
        """Hear questions, by a pipe that no job has seen yet. Raise OSError."""
        self.close()
        os.mkfifo(self._pipe, 0o600)
        if self._account is not None:
            os.chown(self._pipe, -1, self._account.group)
            os.chmod(self._pipe, 0o620)
        # For writing too: so there is always a reader, and never an end.
        self._ask = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """Hear nothing any more: whoever has the pipe still open writes in vain. A pipe that resists is found by the
        cleaning."""
        self._heard = b""
        if self._ask >= 0:
            os.close(self._ask)
            self._ask = -1
        with suppress(OSError):
            self._pipe.unlink(missing_ok=True)

    def path(self, event: str) -> Path:
        return self._directory / f"{event}.sh"

    @property
    def variables(self) -> dict[str, str]:
        """What the runner has to find in its environment."""
        return {f"ACTIONS_RUNNER_HOOK_JOB_{event.upper()}": str(self.path(event)) for event in EVENTS}

    def pin(self, runner: Path) -> None:
        """Say so in the file whose word the runner takes before that of its environment. It is ours, as the programs
        beside it: a job cannot write another, nor does config.sh add to it. Raise OSError."""
        path = runner / ".env"
        path.write_text("".join(f"{name}={value}\n" for name, value in self.variables.items()), encoding="utf-8")
        path.chmod(0o444)

    def fileno(self) -> int:
        return self._ask

    def asked(self) -> list[AdmissionRequest]:
        """The questions about jobs that are about to begin, and notes that one is over, since the last time. Never
        waits."""
        if self._ask < 0:
            return []
        with suppress(BlockingIOError):
            self._heard += os.read(self._ask, AT_ONCE)
        *lines, rest = self._heard.split(b"\n")
        self._heard = rest[-LONGEST:]
        return [asked for line in lines if (asked := _parsed(line)) is not None]

    def answer(self, asked: AdmissionRequest, refusal: str) -> None:
        """Tell whoever asks; empty: the job may run. Earlier answers go: their askers have read them, or are gone."""
        with suppress(OSError):
            for name in os.listdir(self._answers):
                os.unlink(self._answers / name)
        draft = self._directory / "draft"
        with suppress(OSError):  # without an answer the job fails by itself, and says so
            draft.write_text(refusal, encoding="utf-8")
            draft.chmod(0o644)
            draft.rename(self._answers / asked.id)


def _parsed(line: bytes) -> AdmissionRequest | None:
    """None for what is no question: a job may write anything."""
    found = QUESTION.fullmatch(line.decode(errors="replace"))
    if found is None:
        return None
    id_, event, run, attempt, repository, runner, job = found.groups()
    return AdmissionRequest(id_, run, attempt, repository, runner, job, is_over=event == "completed")
