"""The report of a step: outputs for other jobs, a summary on the page of the run, and an annotation if it failed."""

import json
from collections.abc import Iterable, Mapping, Sequence

from bullpen.action import workflow_commands
from bullpen.action.result import HELD, StepResult
from bullpen.cli.text import plural
from bullpen.errors import Interrupted
from bullpen.model.progress import WorkPhase

LISTED = 200  # rows of a table; longer tables are cut
ORIGINS = {"selected": "reused", "created": "created", HELD: "already held"}
_NAMED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "'"}
MARKUP = str.maketrans(_NAMED | {char: f"\\{char}" for char in "\\|[*_"})
PHASES = {
    WorkPhase.SELECT: "searching the pool for warm runners",
    WorkPhase.CREATE: "requesting new machines",
    WorkPhase.REGISTER: "booting and registering",
}
COLD = (WorkPhase.CREATE, WorkPhase.REGISTER)
"""The steps of a cold start, by which the savings of reuse are computed."""


def outputs(result: StepResult) -> dict[str, str]:
    """All outputs of a provision that succeeded; otherwise only the label."""
    if result.mode != "provision" or not result.succeeded:
        return {"label": result.label} if result.label else {}
    ids = [runner.id for runner in result.runners]
    listed, first = json.dumps(ids), ids[0] if ids else ""
    return {
        "label": result.label,
        "instance-ids": listed,
        "selected": str(result.selected),
        "created": str(result.created),
        "duration": f"{result.duration:.3f}",
        "ids": listed,
        "id": first,
        "ec2-instance-ids": listed,
        "ec2-instance-id": first,
    }


def headline(result: StepResult) -> str:
    if not result.succeeded:
        of = f" of {result.label}" if result.label else ""
        return f"{result.mode}{of} failed: {result.reason}"
    if result.mode == "provision":
        had = sum(runner.origin == HELD for runner in result.runners)
        reused = f"{result.selected} reused, {result.created} created" + (f", {had} already held" if had else "")
        return f"{plural(len(result.runners), 'runner')} ready in {result.duration:.1f} s: {reused}"
    if result.mode == "release":
        held = (*result.offered, *result.terminated, *result.pending, *result.busy)
        if not held:
            return f"{result.label} holds no runners: nothing to release"
        return f"{plural(len(result.offered), 'runner')} of {result.label} back in the pool in {result.duration:.1f} s"
    done = "dry run: refresh would take" if result.dry_run else "refreshed:"
    none = "dry run: refresh would have nothing to do" if result.dry_run else "refreshed: nothing to do"
    return f"{done} {plural(len(result.actions), 'action')}" if result.actions else none


def summary(result: StepResult) -> str:
    """Markdown for the page of the run."""
    parts = [f"### {'✅' if result.succeeded else '❌'} Bullpen: {_cell(headline(result))}"]
    if not result.succeeded:
        parts += _failure(result)
    elif result.mode == "provision":
        parts += [f"`runs-on: {result.label}`", _runners(result), _seconds(result), saved(result)]
    parts += [_given(result), _fates(result), _actions(result)]
    return "\n\n".join(part for part in parts if part) + "\n\n"


def refused(result: StepResult) -> str:
    """The summary of a step that was refused before the work began."""
    lines = (f"### ❌ Bullpen: {result.mode} did not begin, and nothing was done", *_failure(result)[:2])
    return "\n\n".join(line for line in lines if line) + "\n\n"


def saved(result: StepResult) -> str:
    """What reuse saved, with the calculation, from the times of this provision; empty if nothing was reused.

    Without a cold start in the same provision there is no number: it would be a guess.
    """
    if not result.selected:
        return ""
    runners = "1 runner was" if result.selected == 1 else f"{result.selected} runners were"
    cold = sum(result.timings.get(step, 0.0) for step in COLD)
    if not result.created or not cold:
        return (
            f"**Reuse:** {runners} taken warm from the pool. This provision started no machine, so the duration of a"
            " cold start was not measured."
        )
    return (
        f"**Reuse:** {runners} taken warm from the pool, {result.created} started in {cold:.1f} s. Starting the reused"
        f" ones as well would have cost {result.selected} × {cold:.1f} s = {result.selected * cold:.1f} s more of"
        " machine time. That is the measured time from the request of new machines to the last registration, for each"
        " reused runner. The step waited for the started runners, so reuse saved no waiting time."
    )


def leftovers(result: StepResult) -> str:
    """What a failed step leaves running, as far as the outcome is known."""
    if not result.is_known:
        return "Whether runners are left is not known. `bullpen status` lists them, and a release gives them back."
    if result.mode != "provision" or result.exit_code == Interrupted.exit_code:
        return ""  # if cancelled, runners may still be on their way back: the remedy says so
    if not result.requested:
        return "Nothing was acquired."
    if result.unsettled:
        ids = ", ".join(result.unsettled[:LISTED])
        return f"Still being given back, recorded as owed: {ids}.{_held(result)}"
    return f"Nothing of this provision is left running.{_held(result)}"


def _held(result: StepResult) -> str:
    ids = ", ".join(result.held[:LISTED])
    return f" The run still holds the runners that it had before: {ids}." if ids else ""


def finish(result: StepResult, environ: Mapping[str, str]) -> int:
    """Write outputs, summary and log; return the exit code."""
    workflow_commands.put_out(environ, outputs(result))
    workflow_commands.summarise(environ, summary(result))
    if result.succeeded:
        workflow_commands.say(headline(result))
        for runner in result.runners[:LISTED]:
            kind = " ".join(part for part in (runner.resource_class, runner.instance_type, runner.usage_class) if part)
            workflow_commands.say(f"  {runner.id}  {ORIGINS.get(runner.origin, runner.origin)}  {kind}")
    else:
        lines = (headline(result), result.remedy, leftovers(result))
        workflow_commands.error("Bullpen", "\n".join(line for line in lines if line))
    return result.exit_code


def _failure(result: StepResult) -> list[str]:
    return [
        f"**Cause:** {_cell(result.reason)}",
        f"**What to do:** {_cell(result.remedy)}" if result.remedy else "",
        leftovers(result),
    ]


def _runners(result: StepResult) -> str:
    rows = [
        (f"`{one.id}`", one.resource_class, one.instance_type, one.usage_class, ORIGINS.get(one.origin, one.origin))
        for one in result.runners
    ]
    return _table(("runner", "class", "type", "usage", "origin"), rows)


def _seconds(result: StepResult) -> str:
    if not result.timings:
        return ""
    rows = [(words, f"{result.timings[phase]:.1f} s") for phase, words in PHASES.items() if phase in result.timings]
    rest = result.duration - result.timings.get(WorkPhase.ACQUIRE, result.duration)
    rows.append(("checking the run before, committing after", f"{max(0.0, rest):.1f} s"))
    rows.append(("**total**; runners are awaited in parallel", f"**{result.duration:.1f} s**"))
    return _table(("step", "time"), rows)


def _given(result: StepResult) -> str:
    rows = [(f"`{one.id}`", one.fate, _cell(one.reason)) for one in result.discarded]
    return _table(("not kept", "outcome", "reason"), rows)


def _fates(result: StepResult) -> str:
    fates = (
        ("back in the pool", result.offered),
        ("ended", result.terminated),
        ("still cleaning; goes back to the pool by itself", result.pending),
        ("busy with a job; goes back after it", result.busy),
        ("also kept: a job of the run has started on it", result.kept),
    )
    return _table(("runner", "outcome"), [(f"`{id}`", fate) for fate, ids in fates for id in ids])


def _actions(result: StepResult) -> str:
    return _table(("action", "subject", "reason"), [tuple(map(_cell, action)) for action in result.actions])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rows = list(rows)
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows[:LISTED]]
    more = f"\n\n… and {len(rows) - LISTED} more" if len(rows) > LISTED else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + more


def _cell(text: str) -> str:
    """Text from outside for a table cell or a line: without markup and line breaks, and not too long."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())[:1000]
    return flat.translate(MARKUP)
