"""Keys of an earlier version, in files of a home, come into the store once."""

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bullpen.auth.token_files import IMPORTED, SECRET, TOKENS, import_files
from bullpen.auth.tokens import AgentIdentity, Keys, Operator, Scope, drawn
from bullpen.engines.memory import Memory
from bullpen.errors import ConfigError
from bullpen.ports import Tokens

pytestmark = pytest.mark.real_loop
NOW = datetime(2026, 1, 1, tzinfo=UTC)
OLD_SECRET = bytes(range(32))


def old_files(home: Path) -> str:
    """As an earlier version wrote them; the token."""
    stored, token = drawn(Scope.OPERATE, NOW, None)
    line = {"id": stored.id, "scope": "operate", "sha256": stored.sha256, "expires": None}
    (home / TOKENS).write_text(json.dumps(line) + "\n")
    (home / SECRET).write_bytes(OLD_SECRET)
    return token


def a_store() -> Tokens:
    return Memory().ports().tokens


async def test_old_tokens_and_running_agents_keep_working(tmp_path: Path) -> None:
    token, tokens = old_files(tmp_path), a_store()
    of_agent = Keys(tokens, OLD_SECRET).agent_token("i-1", 0)
    await import_files(tmp_path, tokens)
    keys = await Keys.opened(tokens)
    operator = keys.bearer(token, 0)
    assert isinstance(operator, Operator)
    assert operator.scope is Scope.OPERATE
    assert keys.bearer(of_agent, 1) == AgentIdentity("i-1")
    assert sorted(os.listdir(tmp_path)) == [SECRET + IMPORTED, TOKENS + IMPORTED]


async def test_many_processes_import_at_once(tmp_path: Path) -> None:
    old_files(tmp_path)
    tokens = a_store()
    await asyncio.gather(*(import_files(tmp_path, tokens) for _ in range(8)))
    assert len((await tokens.read()).tokens) == 1
    assert await tokens.secret(b"x" * 32) == OLD_SECRET


async def test_a_file_that_stays_brings_no_revoked_token_back(tmp_path: Path) -> None:
    token, tokens = old_files(tmp_path), a_store()
    content = (tmp_path / TOKENS).read_text()
    await import_files(tmp_path, tokens)
    (name,) = [one.name for one in (await tokens.read()).tokens]
    assert await tokens.revoke(name, NOW)
    (tmp_path / TOKENS).write_text(content)  # as after a crash before the rename, or on a read-only mount
    await import_files(tmp_path, tokens)
    assert (await Keys.opened(tokens)).bearer(token, 0) is None


async def test_an_empty_file_of_tokens_means_that_tokens_are_required(tmp_path: Path) -> None:
    (tmp_path / TOKENS).touch()
    tokens = a_store()
    await import_files(tmp_path, tokens)
    assert (await Keys.opened(tokens)).has_tokens(0)


async def test_a_store_that_has_a_secret_keeps_it_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old_files(tmp_path)
    tokens = a_store()
    first = await tokens.secret(b"first" * 8)
    await import_files(tmp_path, tokens)
    assert await tokens.secret(b"x" * 32) == first
    assert "another secret" in caplog.text


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        (TOKENS, b"{}\n", "line 1"),
        (TOKENS, b"garbage\n", "line 1"),
        (SECRET, b"", "too few for a secret"),
        (SECRET, bytes(31), "too few for a secret"),
    ],
)
async def test_a_file_of_another_format_is_an_error_and_stays(
    tmp_path: Path, name: str, content: bytes, match: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=match):
        await import_files(tmp_path, a_store())
    assert (tmp_path / name).read_bytes() == content
