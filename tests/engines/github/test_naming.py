"""Names of runners: found again by pool and instance, never longer than GitHub allows, and no other program's."""

import pytest

from bullpen.engines.github.naming import LONGEST, instance_of, runner_name

ROUND = "0123456789abcdef"


def test_a_name_contains_pool_instance_and_round() -> None:
    assert runner_name("bullpen", "i-1", ROUND) == "bullpen.i-1.01234567"
    assert runner_name("bullpen", "i-1", ROUND, 7) == "bullpen.i-1.01234567.7"


@pytest.mark.parametrize("n", [0, 1, 99, 999_999])
@pytest.mark.parametrize("instance", ["i-1", "i-0123456789abcdef0"])
@pytest.mark.parametrize("pool", ["b", "bullpen", "p" * 32])
def test_every_name_fits_and_leads_back_to_its_instance(pool: str, instance: str, n: int) -> None:
    name = runner_name(pool, instance, ROUND, n)
    assert len(name) <= LONGEST
    assert instance_of(pool, name) == instance


def test_rounds_and_numbers_make_different_names() -> None:
    names = {
        runner_name("p" * 32, "i-0123456789abcdef0", round, n) for round in ("a" * 16, "b" * 16) for n in (0, 1, 2)
    }
    assert len(names) == 6


@pytest.mark.parametrize(
    "runner",
    [
        "",
        "bullpen",
        "bullpen.i-1",
        "bullpen-2.i-1.01234567",
        "Xbullpen.i-1.01234567",
        "bullpen.server-1.01234567",
        "bullpen.i-1.0123456789",
        "bullpen.i-1.01234567.x",
        "bullpen.i-1.01234567.1.2",
        "bullpenXi-1.01234567",
        "bullpen.i-1.01234567\n",
    ],
)
def test_a_name_of_another_form_belongs_to_no_instance(runner: str) -> None:
    assert instance_of("bullpen", runner) is None
