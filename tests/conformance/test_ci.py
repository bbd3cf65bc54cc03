"""What every CI promises."""

from bullpen.ports import CI, Removal
from conformance.engines import Opened


async def listed(ci: CI) -> list[tuple[str, str, bool]]:
    """What every CI knows of a runner; some know more."""
    return sorted((found.name, found.label, found.busy) for found in await ci.registrations())


async def test_registered_runners_are_listed_with_label_and_whether_they_are_busy(opened: Opened, ci: CI) -> None:
    await opened.hire("i-1", "run-1", False)
    await opened.hire("i-2", "run-2", True)
    assert await listed(ci) == [("i-1", "run-1", False), ("i-2", "run-2", True)]


async def test_a_removed_runner_is_no_longer_listed(opened: Opened, ci: CI) -> None:
    await opened.hire("i-1", "run-1", False)
    await opened.hire("i-2", "run-1", False)
    assert await ci.remove("i-1") is Removal.REMOVED
    assert [name for name, _, _ in await listed(ci)] == ["i-2"]


async def test_a_runner_is_removed_by_what_the_ci_calls_it(opened: Opened, ci: CI) -> None:
    await opened.hire("i-1", "run-1", False)
    (found,) = await ci.registrations()
    assert await ci.remove(found.handle) is Removal.REMOVED
    assert await ci.registrations() == []


async def test_the_name_of_a_runner_says_to_which_instance_it_belongs(opened: Opened, ci: CI) -> None:
    await opened.hire("i-1", "run-1", False)
    (found,) = await ci.registrations()
    assert ci.instance_of(found.handle) == "i-1"
    assert ci.instance_of("runner-of-another-pool") != "i-1"


async def test_a_busy_runner_is_never_removed(opened: Opened, ci: CI) -> None:
    await opened.hire("i-1", "run-1", True)
    assert await ci.remove("i-1") is Removal.BUSY
    assert await listed(ci) == [("i-1", "run-1", True)]


async def test_to_remove_a_runner_that_is_not_there_is_success(ci: CI) -> None:
    assert await ci.remove("i-1") is Removal.REMOVED
