"""The state machines as a page, drawn from the transitions: `python tests/diagrams.py > docs/state-machines.md`."""

from collections.abc import Iterable, Sequence
from typing import Any

import builders
from bullpen.model import instance, provision
from bullpen.model.transition import Change, Guard, Transition

Step = Transition[Any, Any]

OPENING = """\
# State machines

Drawn from the transitions in `src/bullpen/model/`; a test fails when this page and the code disagree. To draw it again:
`python tests/diagrams.py > docs/state-machines.md`.

Every step also requires that the stored record still has the version and the state that the writer saw. What stands
under *needs* is checked beyond that, by the store, on what is really stored. A step marked ↻ changes the owner and
draws a new round.
"""

INSTANCES = """
## Instance

An idle instance is on offer while it is *attested*: clean, by the word of its own agent in the present round. Given
back, it is idle and not attested; from there only `offer` and `expire` lead on.
"""

PROVISIONS = """
## Provision

One write decides: with `commit` all members run, with `abort` everything acquired is given back. What follows carries
the decision out, and anybody may do it.
"""

WORDS = {
    ("attested", "is", True): "it is attested",
    ("attested", "is", False): "it is not attested",
    ("image_generation", "is", None): "its image generation is the current one",
    ("provision_id", "is", None): "it was acquired for this provision",
    ("round", "is", None): "its round is the one seen",
    ("run_id", "is", ""): "it has no run",
    ("run_id", "is", None): "it belongs to this run",
    ("threshold", "after", None): "its threshold has not passed",
    ("trust_domain", "in", None): "its trust domain may be inherited by this run",
}
"""What a guard demands, by field, test and value; None: whatever the event says."""


def render() -> str:
    return "".join(
        [
            OPENING,
            INSTANCES,
            *_machine(instance.STEPS, _instance_samples()),
            PROVISIONS,
            *_machine(provision.STEPS, _provision_samples()),
        ]
    )


def _instance_samples() -> list[Change[Any]]:
    """Each step once, for its guards."""
    offered = builders.used_and_on_offer()
    return [
        *offered,
        builders.keep(offered[-1].after),
        builders.roll_back(builders.claimed()[-1].after),
        *builders.buried()[-2:],
    ]


def _provision_samples() -> list[Change[Any]]:
    opened = builders.open_provision()
    planned = provision.FleetPlanned(at=builders.NOW, by=builders.BY, client_token="token", count=1)
    answered = provision.FleetAnswered(at=builders.NOW, by=builders.BY, client_token="token")
    fleet = provision.plan_fleet(opened.after, planned)
    decided, aborted = builders.decide(opened.after), builders.abort(opened.after)
    ended = [builders.conclude(decided.after), builders.settle(decided.after), builders.settle(aborted.after)]
    return [opened, fleet, provision.answer_fleet(fleet.after, answered), decided, aborted, *ended]


def _machine(steps: Sequence[Step], samples: Iterable[Change[Any]]) -> Iterable[str]:
    guards = {sample.step: sample.guards for sample in samples}
    yield "\n```mermaid\nstateDiagram-v2\n"
    for step in steps:
        for source in step.sources:
            yield f"    {_node(source)} --> {_node(step.target)}: {_name(step)}\n"
    yield "```\n\n| step | from → to | needs | what it is |\n|---|---|---|---|\n"
    for step in steps:
        needs = "; ".join(_in_words(guard) for guard in guards[step.step]) or "–"
        path = f"{', '.join(_plain(source) for source in step.sources)} → {_plain(step.target)}"
        yield f"| {_name(step)}{' ↻' if step.draws_round else ''} | {path} | {needs} | {' '.join(step.doc.split())} |\n"


def _name(step: Step) -> str:
    return step.step.rstrip("_").replace("_", " ")


def _node(state: str) -> str:
    return "[*]" if state == "absent" else str(state)


def _plain(state: str) -> str:
    return "–" if state == "absent" else str(state)


def _in_words(guard: Guard) -> str:
    for (field, test, value), words in WORDS.items():
        if (field, test) == (guard.field, guard.test) and value in (None, guard.value):
            return words
    raise LookupError(f"{guard}: say in WORDS what it demands")


if __name__ == "__main__":
    print(render(), end="")
