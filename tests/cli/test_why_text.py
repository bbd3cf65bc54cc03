"""How `why` and `plan` look: within the width of the terminal, and without characters that it cannot show."""

import msgspec
import pytest

from bullpen.cli.output import ASCII
from bullpen.cli.plan_text import plan_text
from bullpen.cli.why_text import why_text
from bullpen.model.wait import WaitCause
from bullpen.schema.plan import PlanAnswer, PlanObstacle
from bullpen.schema.why import CandidateAnswer, WhyAnswer
from bullpen.server.openapi.examples import EXAMPLES
from bullpen.server.openapi.examples.explained import WAIT

WHY: WhyAnswer = EXAMPLES["explainSubject"].answer
PLAN: PlanAnswer = EXAMPLES["planProvision"].answer


def longest(text: str) -> int:
    return max(map(len, text.splitlines()))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_answer_of_why_fits_the_terminal(width: int) -> None:
    assert longest(why_text(WHY, width)) <= width


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_plan_fits_the_terminal(width: int) -> None:
    obstacle = PlanObstacle(WaitCause.CAP, "limits.max-instances is 2; the total would be 3", "It would fail at once.")
    blocked = msgspec.structs.replace(PLAN, blocked_by=obstacle)
    for answer in (PLAN, blocked):
        assert longest(plan_text(answer, width)) <= width


def test_a_wait_shows_its_cause_its_sentence_what_comes_next_and_each_candidate_with_its_rule() -> None:
    lines = why_text(WHY, 0).splitlines()
    assert lines[0] == "run 4711 waits: cap, since 2026-11-16T16:01:34Z"
    assert lines[1].strip() == WAIT.because
    assert lines[2].strip().startswith("Next: It goes on as soon as")
    assert any(line.split()[:3] == ["i-0f3c7a1b5d9e2468", "running", "taken"] for line in lines)


def test_a_waterfall_begins_each_stage_where_the_one_before_ended() -> None:
    lines = [line for line in why_text(WHY, 80).splitlines() if "█" in line]
    assert [line.split()[0] for line in lines] == ["picked", "claimed", "seen", "registered"]
    ends = [line.rindex("█") for line in lines]
    assert ends == sorted(ends)


def test_many_candidates_are_cut_and_many_waits_are_counted() -> None:
    many = [msgspec.structs.replace(WHY.waits[0].candidates[0], instance_id=f"i-{n:016x}") for n in range(30)]
    first = msgspec.structs.replace(WHY.waits[0], candidates=many)
    assert all(isinstance(one, CandidateAnswer) for one in first.candidates)
    others = [msgspec.structs.replace(WHY.waits[0], subject=f"j-{n}", because="the same") for n in range(50)]
    text = why_text(msgspec.structs.replace(WHY, waits=[first, *others]), 80)
    assert "and 10 more, see --json" in text
    assert "48 more runs wait: cap: the same" in text


def test_every_character_of_an_answer_has_one_for_ascii_terminals() -> None:
    for text in (why_text(WHY, 80), plan_text(PLAN, 80)):
        assert text.translate(ASCII).isascii()
