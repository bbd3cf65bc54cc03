"""Users for jobs to run as, lent to tests."""

from __future__ import annotations

import pytest

import users

EITHER = pytest.fail.Exception, pytest.skip.Exception


@pytest.mark.parametrize(("required", "outcome"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_enough_of_them_a_test_is_skipped_but_fails_where_all_must_be_tested(
    monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("BULLPEN_REQUIRE_ENGINES", required)
    monkeypatch.setattr("users.os.geteuid", lambda: 0)
    monkeypatch.setattr(users, "_taken", lambda *_: ())
    monkeypatch.setattr(users, "PATIENCE", 0.0)
    with pytest.raises(EITHER, match="needed that no other test uses, and there are 0") as raised, users.lent(1):
        pass
    assert raised.type is outcome
