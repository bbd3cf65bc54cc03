"""The published state diagrams are the ones that the code has."""

from pathlib import Path
from types import ModuleType

import pytest

from bullpen.model import (
    control,
    instance,
    job,
    pause,
    provision,
    repository,
    rotation,
    scale_set,
    set_member,
    set_session,
    worker,
)
from diagrams import machines, render

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/state-machines.md"
MODULES = (instance, provision, worker, job, control, scale_set, set_member, set_session, repository, pause, rotation)


def test_the_published_page_is_what_the_transitions_render() -> None:
    assert PAGE.read_text() == render(), "stale: run `python tools/diagrams.py > docs/state-machines.md`"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_step_is_drawn_from_each_state_in_which_it_may_be_taken(module: ModuleType) -> None:
    part = machines()[module.__name__]
    arrows = [line for line in part.splitlines() if " --> " in line]
    assert len(arrows) == sum(len(step.sources) for step in module.STEPS)
    for step in module.STEPS:
        name = step.step.rstrip("_").replace("_", " ")
        assert sum(line.endswith(f": {name}") for line in arrows) == len(step.sources)


def test_no_machine_is_left_out_of_the_page() -> None:
    have_steps = [path.stem for path in (ROOT / "src/bullpen/model").glob("*.py") if "\nSTEPS = " in path.read_text()]
    assert sorted(name.rpartition(".")[2] for name in machines()) == sorted(have_steps)
