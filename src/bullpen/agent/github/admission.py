"""Decides whether a job of GitHub may run here. Pure.

GitHub gives a runner any job that asks for its label, of every repository that the runner may serve. A user who can
start a workflow there can ask for the label of another run, so the agent checks each job before its first step.
"""

from __future__ import annotations

from dataclasses import dataclass

from bullpen.agent.progress import SERVING, InstanceRecord
from bullpen.model.activity import Activity
from bullpen.model.label import parse


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A job that is about to begin, or whose last step is over, as GitHub's runner names it. `id` tells the asking from
    others."""

    id: str
    run: str
    attempt: str
    repository: str
    runner: str
    job: str
    is_over: bool = False


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


def activity_of(asked: AdmissionRequest, record: InstanceRecord, runner: str) -> Activity:
    """What an admitted job is to the control plane; `runner` is the name that we registered under."""
    return Activity(asked.repository, asked.run, int(asked.attempt), record.run_id, runner, asked.job)
