"""What every store of tokens promises."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from bullpen.errors import Conflict
from bullpen.ports import Ports, StoredToken, TokenBook, Tokens

HOUR = timedelta(hours=1)


def a_token(ports: Ports, name: str = "deploys", id: str = "00aa") -> StoredToken:
    now = ports.clock.now().replace(microsecond=123456)
    return StoredToken(name, id, "operate", "ab" * 32, now)


async def test_without_any_token_none_is_required(tokens: Tokens) -> None:
    assert await tokens.read() == TokenBook()


async def test_a_token_is_read_as_it_was_added(ports: Ports, tokens: Tokens) -> None:
    first = a_token(ports, "b", "1")
    second = replace(a_token(ports, "a", "2"), scope="read", expires=first.created + HOUR)
    await tokens.add(first)
    await tokens.add(second)
    assert await tokens.read() == TokenBook(True, (second, first))


async def test_a_name_is_given_once(ports: Ports, tokens: Tokens) -> None:
    await tokens.add(a_token(ports))
    with pytest.raises(Conflict, match="deploys"):
        await tokens.add(a_token(ports, id="other"))
    assert [one.id for one in (await tokens.read()).tokens] == ["00aa"]


async def test_of_many_tokens_with_one_name_one_is_added(ports: Ports, tokens: Tokens) -> None:
    wanted = [tokens.add(a_token(ports, id=str(n))) for n in range(8)]
    outcomes = await asyncio.gather(*wanted, return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 7
    assert len((await tokens.read()).tokens) == 1


async def test_adding_a_token_again_changes_nothing_even_if_it_was_revoked(ports: Ports, tokens: Tokens) -> None:
    token = a_token(ports)
    await tokens.add(token)
    await tokens.add(replace(token, scope="admin"))
    assert (await tokens.read()).tokens == (token,)
    assert await tokens.revoke("deploys", token.created + HOUR)
    await tokens.add(token)
    assert (await tokens.read()).tokens == (replace(token, revoked=token.created + HOUR),)


async def test_a_revoked_token_stays_revoked_and_its_name_taken(ports: Ports, tokens: Tokens) -> None:
    token = a_token(ports)
    await tokens.add(token)
    for hours in (1, 2):
        assert await tokens.revoke("deploys", token.created + hours * HOUR)
    (found,) = (await tokens.read()).tokens
    assert found.revoked == token.created + HOUR
    assert not found.is_valid(token.created)
    with pytest.raises(Conflict):
        await tokens.add(a_token(ports, id="other"))
    assert (await tokens.read()).required


async def test_what_is_not_there_cannot_be_revoked(ports: Ports, tokens: Tokens) -> None:
    assert not await tokens.revoke("nothing", ports.clock.now())
    assert await tokens.read() == TokenBook()


async def test_tokens_can_be_required_before_there_is_one(tokens: Tokens) -> None:
    await tokens.require()
    assert await tokens.read() == TokenBook(required=True)


async def test_of_many_secrets_the_first_is_everybodys(tokens: Tokens) -> None:
    drafts = [bytes([n]) * 32 for n in range(1, 9)]
    found = await asyncio.gather(*(tokens.secret(draft) for draft in drafts))
    assert len(set(found)) == 1
    assert found[0] in drafts
    assert await tokens.secret(b"\xff" * 32) == found[0]


def test_no_hash_is_shown() -> None:
    assert "abab" not in repr(StoredToken("a", "b", "read", "abab", created=None))  # type: ignore[arg-type]


# ---- sessions that were ended


async def test_an_ended_session_is_known_to_every_reader(ports: Ports, tokens: Tokens) -> None:
    now = ports.clock.now()
    await tokens.end_session("00bb", now + 2 * HOUR, now)
    await tokens.end_session("00aa", now + HOUR, now)
    await tokens.end_session("00aa", now + HOUR, now)
    assert (await tokens.read()).ended == ("00aa", "00bb")


async def test_an_ended_session_requires_no_token_and_is_none(ports: Ports, tokens: Tokens) -> None:
    now = ports.clock.now()
    await tokens.end_session("00aa", now + HOUR, now)
    assert await tokens.read() == TokenBook(ended=("00aa",))


async def test_an_ended_session_is_noted_until_its_time_has_passed(ports: Ports, tokens: Tokens) -> None:
    now = ports.clock.now()
    await tokens.end_session("00aa", now + HOUR, now)
    await tokens.end_session("00bb", now + 3 * HOUR, now + 2 * HOUR)
    assert "00bb" in (await tokens.read()).ended
    await tokens.end_session("00cc", now + 3 * HOUR, now)
    assert {"00bb", "00cc"} <= set((await tokens.read()).ended)
