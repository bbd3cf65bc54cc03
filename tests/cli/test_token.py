"""`bullpen token create` and what `bullpen serve` refuses before it listens."""

import builtins
from typing import Any

import pytest

from bullpen.engines.keys import Keys, Operator, Scope
from command_line import CommandLine


@pytest.mark.parametrize("scope", [scope.value for scope in Scope])
def test_a_token_is_printed_once_and_known_from_then_on(bullpen: CommandLine, scope: str) -> None:
    token = bullpen("token", "create", "--scope", scope).out.strip()
    found = Keys(bullpen.folder / ".bullpen").bearer(token, 0)
    assert isinstance(found, Operator)
    assert found.scope == scope


def test_a_token_may_expire(bullpen: CommandLine) -> None:
    answer = bullpen("token", "create", "--scope", "read", "--expires", "2h", "--json").answer
    keys = Keys(bullpen.folder / ".bullpen")
    assert answer["expires"] is not None
    assert keys.bearer(answer["token"], 0) is not None
    assert keys.bearer(answer["token"], 10**10) is None


@pytest.mark.parametrize("text", ["", "h", "0d", "-1h", "1.5h", "forever", "99999d", "5"])
def test_an_expiry_that_cannot_be_meant_is_refused(bullpen: CommandLine, text: str) -> None:
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
    assert "bullpen[serve]" in ran.err
    assert bullpen.left_behind == []
