"""Versions of the runner: each is accepted until 30 days after the next release."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import NOW
from bullpen.engines.github.releases import Release, oldest_accepted, order, refused_at, released

DAY = timedelta(days=1)
RELEASES = [Release("2.336.0", NOW - 5 * DAY), Release("2.335.0", NOW - 29 * DAY), Release("2.334.0", NOW - 60 * DAY)]


def listed(tag: str, published: str | None = "2029-12-01T00:00:00Z", **changed: Any) -> dict[str, Any]:
    return {"tag_name": tag, "published_at": published, "draft": False, "prerelease": False, **changed}


def test_the_newest_version_is_not_refused() -> None:
    assert refused_at("2.336.0", RELEASES) is None


def test_a_version_is_refused_30_days_after_the_next_release() -> None:
    assert refused_at("2.335.0", RELEASES) == NOW + 25 * DAY
    assert refused_at("2.334.0", RELEASES) == NOW + 1 * DAY


def test_a_version_older_than_all_that_are_listed_is_refused_already() -> None:
    end = refused_at("2.300.0", RELEASES)
    assert end is not None
    assert end < NOW


@pytest.mark.parametrize(
    ("at", "oldest"),
    [(NOW, "2.334.0"), (NOW + 1 * DAY, "2.335.0"), (NOW + 25 * DAY, "2.336.0"), (NOW + 999 * DAY, "2.336.0")],
)
def test_the_oldest_version_is_the_last_one_that_is_accepted_then(at: datetime, oldest: str) -> None:
    assert oldest_accepted(RELEASES, at) == oldest


def test_without_releases_no_version_is_refused_and_no_oldest_is_known() -> None:
    assert oldest_accepted([], NOW) == ""
    assert refused_at("2.336.0", []) is None


def test_drafts_and_releases_on_trial_do_not_count_and_the_newest_comes_first() -> None:
    found = released(
        [
            listed("v2.9.0"),
            listed("v2.10.0"),
            listed("v2.11.0", prerelease=True),
            listed("v2.12.0", draft=True),
            listed("v2.13.0", None),
            listed("nightly"),
        ]
    )
    assert [one.version for one in found] == ["2.10.0", "2.9.0"]


def test_versions_are_compared_as_numbers() -> None:
    assert order("2.10.0") > order("2.9.1")
    assert order("two") == ()
