"""Lets GitHub's runner ask the agent before each job whether the job may run here, and decides that.

GitHub gives a runner any job that asks for its label, of every repository that the runner may serve. A user who can
start a workflow there can ask for the label of another run, so the agent checks each job before its first step.

<instance>/hooks/
    started.sh  completed.sh    what the runner executes, with `bash -e` and as the user of the jobs
    ask                         a pipe that the jobs' user may write to, another one for every registration
    answers/<id>                empty: the job may run; else why it may not
<instance>/runner/.env          tells the runner of the scripts

Only the pipe is open to jobs. A job that writes to it can ask, and is refused; it cannot write the answer. A job can
pass its descriptor of the pipe to a process of another instance, which no cleaning of this one ends: so the next run
has another pipe.

The scripts need bash and coreutils, as the runner does itself; the user may not be able to reach the agent's Python. A
question is one line into a pipe, the answer is a file. A pipe without a reader does not take the line, so a script that
asks a dead agent notices it in seconds. The question goes to its writer by the environment, never as an argument: all
users of a machine can see arguments, and one of them could ask first in its name.

A hook that fails stops no job: steps with `if: always()` run all the same. So the script that refuses a job ends the
worker that would run its steps, which is its parent, and never returns to it. The listener above them notices, reports
to GitHub that the job has failed, and waits for the next one. A job that is cancelled while it waits for the answer
would come to those steps as well, and ends in the same way.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.agent.progress import SERVING, InstanceRecord
from bullpen.agent.store.base import RunnerCredentials
from bullpen.lazy_dataclass import dataclass
from bullpen.model.activity import Activity
from bullpen.model.label import parse

if TYPE_CHECKING:
    from bullpen.agent.account import Account

EVENTS = ("started", "completed")
QUESTION_WITHIN = 2  # seconds to pass the question on
ANSWER_WITHIN = 30  # seconds until there must be an answer: the agent reports to the control plane first
LOGGED_WITHIN = 2  # seconds for the worker to send the reason; one that is cancelled waits for more than 7
AT_ONCE = 64 * 1024  # bytes: a pipe holds no more, unless its writer has made it larger
LONGEST = 4096  # bytes that a pipe takes whole, and far more than a question has
ABOUT = ("repository_id", "event", "ref", "actor")
"""What a question also says of a job since there are scale sets: the last fields, in this order."""
QUESTION = re.compile(
    r"([0-9]{1,10}-[0-9]{1,12})\t(started|completed)\t([0-9]{1,20})\t([0-9]{1,4})"  # id, event, run, attempt
    r"\t([A-Za-z0-9._-]{1,99}/[A-Za-z0-9._-]{1,100})\t([^\t]{0,64})\t([^\t]{0,200})"  # repository, runner, job
    r"(?:\t([0-9]{0,20})\t([a-z_]{0,64})\t([^\x00-\x1f\x7f]{0,300})\t([A-Za-z0-9._\[\]-]{0,100}))?"  # see ABOUT
)


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A job that is about to begin, or whose last step is over, as GitHub's runner names it. `id` is that
    of the question."""

    id: str
    run: str
    attempt: str
    repository: str
    runner: str
    job: str
    is_over: bool = False
    repository_id: str = ""
    event: str = ""  # what triggered the run
    ref: str = ""
    actor: str = ""


def refusal(asked: AdmissionRequest, record: InstanceRecord | None, registered_for: str) -> str:
    """Why the job must not run here, for the job's log; empty if it may."""
    if record is None or record.state not in SERVING or record.round != registered_for:
        return "This runner was given back before the job began. Run the job again."
    label = parse(record.run_id)
    if label is None or not asked.attempt.isdecimal():
        return f"This runner serves {record.run_id}, which is not a run of GitHub."
    if not label.admits(asked.run, int(asked.attempt)):
        return f"This runner serves label {label}, not run {asked.run}, attempt {asked.attempt}."
    if record.repository and record.repository.casefold() != asked.repository.casefold():
        return f"This runner serves {record.repository}, not {asked.repository}."
    return ""


def set_refusal(asked: AdmissionRequest, record: InstanceRecord | None, given: RunnerCredentials) -> str:
    """The same for a registration of a scale set.

    The record may say already that the instance is given back, or registers again: its agent has not attested yet, so
    no other owner can have it, and the job has nowhere else to go.
    """
    from bullpen.model.served_set import SetJob

    served = given.serves
    if served is None or record is None or record.run_id not in ("", served.run_id):
        return "This runner was given back before the job began. Run the job again."
    if not asked.attempt.isdecimal():
        return f"This runner serves the scale set {served.name}, and this is not a job of GitHub."
    about = (asked.repository, asked.repository_id, asked.event, asked.ref, asked.actor, asked.runner)
    return served.refusal(SetJob(*about), given.runner)


def activity_of(asked: AdmissionRequest, label: str, runner: str) -> Activity:
    """What an admitted job is to the control plane; `label` is the run id that its runner serves, `runner` the name of
    the registration."""
    return Activity(asked.repository, asked.run, int(asked.attempt), label, runner, asked.job)


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
            if account is not None:  # no other user, not even through an open directory that a job passes on
                os.chown(made, -1, account.group)
                made.chmod(0o750)
        for event in EVENTS:
            path = self.path(event)
            path.write_text(_script(event, shlex.quote(str(directory))), encoding="utf-8")
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
        """Stop reading questions: a process that still has the pipe open writes in vain. A pipe that cannot be removed
        is found by the cleaning."""
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
        """Answer a question; empty: the job may run. Earlier answers are removed: they were read, or in vain."""
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
    id_, event, run, attempt, repository, runner, job, *about = found.groups(default="")
    known = dict(zip(ABOUT, about, strict=True))
    return AdmissionRequest(id_, run, attempt, repository, runner, job, is_over=event == "completed", **known)


ASK = """
here={here}
id=$$-$RANDOM$RANDOM
question=$(printf '%s\\t' "$id" {event} "$GITHUB_RUN_ID" "$GITHUB_RUN_ATTEMPT" "$GITHUB_REPOSITORY" "$RUNNER_NAME" \\
  "$GITHUB_JOB" "${{GITHUB_REPOSITORY_ID:0:20}}" "${{GITHUB_EVENT_NAME:0:64}}" "${{GITHUB_REF:0:300}}")
question=$question${{GITHUB_ACTOR:0:100}}
ask() {{
  [[ -p $here/ask ]] &&
    QUESTION=$question timeout {patience} bash -c 'printf "%s\\n" "$QUESTION" >"$1"' ask "$here/ask"
}}
"""
STARTED = """#!/bin/bash
# Asks the agent of this machine whether the job may run here. If it may not, it says so in the job's log and ends the
# job's worker, so that no step runs: not even one that always does.
refuse() {{
  trap '' INT TERM HUP
  echo "::error title=Bullpen::$1"
  sleep {logged}
  # Only while it is the parent: once it has died, another process may have its number.
  while read -r _ _ _ parent _ </proc/$$/stat && [[ $parent == "$PPID" ]]; do kill -KILL $PPID || true; sleep 0.05; done
  exit 1
}}
trap 'refuse "The job was cancelled before it was admitted."' INT TERM HUP
{ask}
ask 2>/dev/null || refuse 'The agent of this machine is gone: the job cannot be admitted. Run the job again.'
for ((tick = 0; tick < {ticks}; tick++)); do
  if [[ -e $here/answers/$id ]]; then
    answer=$(<"$here/answers/$id")
    if [[ -z $answer ]]; then exit 0; fi
    refuse "$answer"
  fi
  sleep 0.05
done
refuse 'The agent of this machine did not answer: the job cannot be admitted. Run the job again.'
"""
COMPLETED = """#!/bin/bash
# Notes that the last step is over. GitHub does not know it yet, so nothing ends here, and nothing can fail here.
{ask}
ask 2>/dev/null || true
"""


def _script(event: str, here: str) -> str:
    """For `started` or `completed`; `here` is the directory of the agent's ears, quoted for a shell."""
    ask = ASK.format(here=here, event=event, patience=QUESTION_WITHIN).strip()
    text = {"started": STARTED, "completed": COMPLETED}[event]
    return text.format(ask=ask, ticks=ANSWER_WITHIN * 20, logged=LOGGED_WITHIN)
