"""`bullpen token` and what `bullpen serve` refuses before it listens."""

import asyncio
import builtins
import json
import re
from typing import Any

import pytest

from bullpen.auth.tokens import Keys, Operator, Scope
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.tokens import SqliteTokens
from command_line import CommandLine
from made_homes import with_database


def keys_of(bullpen: CommandLine) -> Keys:
    async def read() -> Keys:
        async with Database.open(with_database(bullpen.folder / ".bullpen")) as database:
            return await Keys.opened(SqliteTokens(database))

    return asyncio.run(read())


@pytest.mark.parametrize("scope", [scope.value for scope in Scope])
def test_a_token_is_printed_once_and_accepted_from_then_on(bullpen: CommandLine, scope: str) -> None:
    token = bullpen("token", "create", "--scope", scope).out.strip()
    found = keys_of(bullpen).bearer(token, 0)
    assert isinstance(found, Operator)
    assert found.scope == scope
    assert token.encode() not in (bullpen.folder / ".bullpen" / "bullpen.db").read_bytes()


def test_a_token_may_expire(bullpen: CommandLine) -> None:
    answer = bullpen("token", "create", "--scope", "read", "--expires", "2h", "--json").answer
    keys = keys_of(bullpen)
    assert answer["expires"] is not None
    assert keys.bearer(answer["token"], 0) is not None
    assert keys.bearer(answer["token"], 10**10) is None


def test_tokens_are_listed_by_name_and_never_shown_again(bullpen: CommandLine) -> None:
    token = bullpen("token", "create", "--scope", "read", "--name", "dashboard").out.strip()
    bullpen("token", "create", "--scope", "admin", "--name", "alice", "--expires", "1h")
    ran = bullpen("token", "list", "--json")
    assert [(one["name"], one["scope"], one["state"]) for one in ran.answer["tokens"]] == [
        ("alice", "admin", "valid"),
        ("dashboard", "read", "valid"),
    ]
    shown = bullpen("token", "list").out
    assert "dashboard" in shown
    assert "never" in shown
    for part in token.split("_")[1:]:
        assert part not in shown + ran.out


def test_a_revoked_token_is_refused_and_its_name_not_given_again(bullpen: CommandLine) -> None:
    token = bullpen("token", "create", "--scope", "read", "--name", "dashboard").out.strip()
    assert bullpen("token", "revoke", "dashboard").out == "revoked dashboard\n"
    assert bullpen("token", "revoke", "dashboard", "--json").answer == {"name": "dashboard", "state": "revoked"}
    keys = keys_of(bullpen)
    assert keys.bearer(token, 0) is None
    assert keys.has_tokens(0)
    assert bullpen("token", "list", "--json").answer["tokens"][0]["state"] == "revoked"
    ran = bullpen("token", "create", "--scope", "read", "--name", "dashboard")
    assert ran.code == 2
    assert "--name 'dashboard'" in ran.err


def test_an_unknown_token_cannot_be_revoked(bullpen: CommandLine) -> None:
    bullpen.make_pool()
    for _ in range(2):
        ran = bullpen("token", "revoke", "nothing")
        assert ran.code != 0
        assert "'nothing'" in ran.err
        assert "Traceback" not in ran.err
    assert bullpen("token", "list").out == "no tokens\n"


def test_an_invalid_name_of_a_token_is_refused(bullpen: CommandLine) -> None:
    ran = bullpen("token", "create", "--scope", "read", "--name", "a b")
    assert ran.code == 2
    assert "--name 'a b'" in ran.err
    assert bullpen.left_behind == []


def test_tokens_of_an_earlier_version_are_listed_and_revoked(bullpen: CommandLine) -> None:
    home = bullpen.folder / ".bullpen"
    home.mkdir()
    line = {"id": "0011223344556677", "scope": "admin", "sha256": "ab" * 32, "expires": None}
    (home / "tokens").write_text(json.dumps(line) + "\n")
    (found,) = bullpen("token", "list", "--json").answer["tokens"]
    assert found["name"] == "imported-0011223344556677"
    assert bullpen("token", "revoke", found["name"]).code == 0
    assert (home / "tokens.imported").exists()


@pytest.mark.parametrize("text", ["", "h", "0d", "-1h", "1.5h", "forever", "99999d", "5"])
def test_an_invalid_expiry_is_refused(bullpen: CommandLine, text: str) -> None:
    ran = bullpen("token", "create", "--scope", "read", "--expires", text)
    assert ran.code == 2
    assert "--expires" in ran.err
    assert bullpen.left_behind == []


def test_an_unknown_scope_is_refused(bullpen: CommandLine) -> None:
    assert bullpen("token", "create", "--scope", "root").code == 2
    assert bullpen.left_behind == []


def test_serve_without_its_extra_says_what_to_install(bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *more: Any) -> Any:
        if name == "uvloop":
            raise ImportError("No module named 'uvloop'", name="uvloop")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", missing)
    ran = bullpen("serve")
    assert ran.code == 2
    assert "uvloop is not installed" in ran.err
    assert "-m pip install 'bullpen-ci[serve]'" in ran.err
    assert bullpen.left_behind == []


def test_the_times_of_tokens_are_written_as_all_others(bullpen: CommandLine) -> None:
    assert bullpen("token", "create", "--scope", "read", "--expires", "1d").code == 0
    pattern = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert len(re.findall(pattern, bullpen("token", "list").out)) == 2
    (token,) = bullpen("token", "list", "--json").answer["tokens"]
    assert re.fullmatch(pattern, token["created"])
    assert re.fullmatch(pattern, token["expires"])
