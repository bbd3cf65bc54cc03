"""What a step leaves behind: outputs for other jobs, a summary for people, and an annotation if it failed."""

import json
from collections.abc import Iterable, Mapping, Sequence

from bullpen.action import workflow_commands
from bullpen.action.result import CREATED, HELD, SELECTED, StepResult
from bullpen.action.saved import saved
from bullpen.errors import Interrupted
from bullpen.model.progress import WorkPhase

LISTED = 200  # rows of a table: more is read by nobody
ORIGINS = {SELECTED: "reused", CREATED: "created", HELD: "had already"}
_SPECIAL = {
    "\\": "\\\\",
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "|": "\\|",
    "`": "'",
    "[": "\\[",
    "*": "\\*",
    "_": "\\_",
}
MARKUP = str.maketrans(_SPECIAL)
PHASES = {
    WorkPhase.SELECT: "looking for a warm runner",
    WorkPhase.CREATE: "asking for new machines",
    WorkPhase.REGISTER: "booting and registering",
}


def outputs(result: StepResult) -> dict[str, str]:
    """Of a provision that was met; of a release, its label."""
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
        reused = f"{result.selected} reused, {result.created} created" + (f", {had} held already" if had else "")
        return f"{_plural(len(result.runners), 'runner')} ready in {result.duration:.1f} s: {reused}"
    if result.mode == "release":
        held = (*result.offered, *result.terminated, *result.pending, *result.busy)
        if not held:
            return f"{result.label} holds no runners: nothing to release"
        return f"{_plural(len(result.offered), 'runner')} of {result.label} back in the pool in {result.duration:.1f} s"
    done = "dry run: refresh would take" if result.dry_run else "refreshed:"
    none = "dry run: refresh would have nothing to do" if result.dry_run else "refreshed: nothing to do"
    return f"{done} {_plural(len(result.actions), 'action')}" if result.actions else none


def summary(result: StepResult) -> str:
    """Markdown for the run's page."""
    parts = [f"### {'✅' if result.succeeded else '❌'} Bullpen: {_cell(headline(result))}"]
    if not result.succeeded:
        parts += _failure(result)
    elif result.mode == "provision":
        parts += [f"`runs-on: {result.label}`", _runners(result), _seconds(result), saved(result)]
    parts += [_given(result), _fates(result), _actions(result)]
    return "\n\n".join(part for part in parts if part) + "\n\n"


def refused(result: StepResult) -> str:
    """Of what did not begin: there is nothing else to tell."""
    lines = (f"### ❌ Bullpen: {result.mode} did not begin, and nothing was done", *_failure(result)[:2])
    return "\n\n".join(line for line in lines if line) + "\n\n"


def leftovers(result: StepResult) -> str:
    """What is left of a failed step: only what the outcome says, and nothing where it does not."""
    if not result.told:
        return "What is left running is not known here: `bullpen status`, or the run's release, tells."
    if result.mode != "provision" or result.exit_code == Interrupted.exit_code:
        return ""  # cancelled, not everything may be given back yet: the remedy says what becomes of it
    if not result.requested:
        return "Nothing was acquired."
    if result.unsettled:
        ids = ", ".join(result.unsettled[:LISTED])
        return f"Being given back right now, written down and not yet certain: {ids}.{_held(result)}"
    return f"Nothing of this provision is left running.{_held(result)}"


def _held(result: StepResult) -> str:
    ids = ", ".join(result.held[:LISTED])
    return f" The run still holds what it had before: {ids}." if ids else ""


def finish(result: StepResult, environ: Mapping[str, str]) -> int:
    """Write it all; the exit code."""
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
    return _table(("runner", "class", "type", "bought as", "how"), rows)


def _seconds(result: StepResult) -> str:
    if not result.timings:
        return ""
    rows = [(words, f"{result.timings[phase]:.1f} s") for phase, words in PHASES.items() if phase in result.timings]
    rest = result.duration - result.timings.get(WorkPhase.ACQUIRE, result.duration)
    rows.append(("looking at the run before, deciding after", f"{max(0.0, rest):.1f} s"))
    rows.append(("**in all**; runners are waited for side by side", f"**{result.duration:.1f} s**"))
    return _table(("where the time went", "seconds"), rows)


def _given(result: StepResult) -> str:
    rows = [(f"`{one.id}`", one.fate, _cell(one.reason)) for one in result.discarded]
    return _table(("not kept", "became", "why"), rows)


def _fates(result: StepResult) -> str:
    fates = (
        ("back in the pool", result.offered),
        ("ended", result.terminated),
        ("still cleaning; goes on offer by itself", result.pending),
        ("busy with a job; goes back when it ends", result.busy),
        ("kept besides: a job of the run had begun on it", result.kept),
    )
    return _table(("runner", "became"), [(f"`{id}`", fate) for fate, ids in fates for id in ids])


def _actions(result: StepResult) -> str:
    return _table(("what", "whom", "why"), [tuple(map(_cell, action)) for action in result.actions])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rows = list(rows)
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows[:LISTED]]
    more = f"\n\n… and {len(rows) - LISTED} more" if len(rows) > LISTED else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + more


def _cell(text: str) -> str:
    """Text from elsewhere inside of a table or a line: no markup, no line break, no screenful."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())[:1000]
    return flat.translate(MARKUP)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
