"""What every CI promises."""

from bullpen.ports import CI, Registration, Removal
from conformance.engines import Opened


async def test_registered_runners_are_listed_with_label_and_whether_they_are_busy(opened: Opened, ci: CI) -> None:
    await opened.hire("i-1", "run-1", False)
    await opened.hire("i-2", "run-2", True)
    found = sorted(await ci.registrations(), key=lambda registration: registration.name)
    assert found == [Registration("i-1", "run-1", busy=False), Registration("i-2", "run-2", busy=True)]


async def test_a_removed_runner_is_no_longer_listed(opened: Opened, ci: CI) -> None:
    await opened.hire("i-1", "run-1", False)
    await opened.hire("i-2", "run-1", False)
    assert await ci.remove("i-1") is Removal.REMOVED
    assert [registration.name for registration in await ci.registrations()] == ["i-2"]


async def test_a_busy_runner_is_never_removed(opened: Opened, ci: CI) -> None:
    await opened.hire("i-1", "run-1", True)
    assert await ci.remove("i-1") is Removal.BUSY
    assert await ci.registrations() == [Registration("i-1", "run-1", busy=True)]


async def test_to_remove_a_runner_that_is_not_there_is_success(ci: CI) -> None:
    assert await ci.remove("i-1") is Removal.REMOVED
