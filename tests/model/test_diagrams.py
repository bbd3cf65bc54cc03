"""The published state diagrams are the ones that the code has."""

from pathlib import Path

from bullpen.model import instance, provision
from diagrams import render

PAGE = Path(__file__).parents[2] / "docs/state-machines.md"


def test_the_published_page_is_what_the_transitions_render() -> None:
    assert PAGE.read_text() == render(), "stale: run `python tests/diagrams.py > docs/state-machines.md`"


def test_every_step_is_drawn() -> None:
    page = render()
    for step in (*instance.STEPS, *provision.STEPS):
        assert f": {step.step.rstrip('_').replace('_', ' ')}\n" in page
