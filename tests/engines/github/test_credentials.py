"""Credentials for GitHub: a token, or an App; and the errors for those that cannot be used."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bullpen.config import Github
from bullpen.engines.github import single_flight
from bullpen.engines.github.answers import GithubCall
from bullpen.engines.github.client import GithubClient
from bullpen.engines.system import SystemClock
from bullpen.errors import ConfigError, PermissionDenied, Refused
from engines.github.places import ClockAhead, a_hub
from fakes.github.hub import FakeGithub

pytestmark = pytest.mark.real_loop

RUNNERS = GithubCall("GET", "/repos/acme/widgets/actions/runners")
BUY = "POST /app/installations/*/access_tokens"


def bought(github: FakeGithub) -> int:
    return sum(call.endswith("/access_tokens") for call in github.calls)


async def test_a_token_is_let_in(github: FakeGithub) -> None:
    async with a_hub(github) as hub:
        assert (await hub.ask(RUNNERS)).status == 200


async def test_an_app_finds_its_installation_and_buys_a_token(github: FakeGithub) -> None:
    app_id, key = github.app()
    async with a_hub(github, app_id=app_id, private_key=key) as hub:
        assert (await hub.ask(RUNNERS)).status == 200
        granted = await hub.granted()
        assert granted is not None
        assert granted["administration"] == "write"
    assert github.calls[0] == "GET /repos/acme/widgets/installation"


async def test_an_app_whose_installation_is_named_does_not_ask_for_it(github: FakeGithub) -> None:
    app_id, key = github.app()
    id = github.installation_id(app_id)
    async with a_hub(github, app_id=app_id, private_key=key, installation_id=id) as hub:
        await hub.ask(RUNNERS)
    assert not any(call.endswith("/installation") for call in github.calls)


async def test_an_app_of_an_organisation_is_let_in(github: FakeGithub) -> None:
    app_id, key = github.app()
    async with a_hub(github, scope="acme", app_id=app_id, private_key=key) as hub:
        assert (await hub.ask(GithubCall("GET", "/orgs/acme/actions/runners"))).status == 200


async def test_a_key_that_was_replaced_signs_the_next_token(
    github: FakeGithub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_flight, "QUIET", 0.0)  # seconds for which the failure is remembered
    (_, worn), (app_id, key) = github.app(), github.app()
    file = tmp_path / "key.pem"
    file.write_text(worn)
    async with a_hub(github, app_id=app_id, private_key=f"file:{file}") as hub:
        with pytest.raises(PermissionDenied):
            await hub.ask(RUNNERS)
        file.write_text(key)
        assert (await hub.ask(RUNNERS)).status == 200


async def test_of_many_calls_at_once_one_buys_the_token(github: FakeGithub) -> None:
    app_id, key = github.app()
    github.slow(BUY, 0.05)
    async with a_hub(github, app_id=app_id, private_key=key) as hub:
        await asyncio.gather(*(hub.ask(RUNNERS) for _ in range(12)))
    assert bought(github) == 1


async def test_a_token_that_ends_soon_is_replaced_before_it_does(github: FakeGithub) -> None:
    app_id, key = github.app()
    clock = ClockAhead()
    async with a_hub(github, clock, app_id=app_id, private_key=key) as hub:
        await hub.ask(RUNNERS)
        clock.ahead = timedelta(minutes=44)
        github.advance(44 * 60)
        await hub.ask(RUNNERS)
        assert bought(github) == 1
        clock.ahead = timedelta(minutes=56)
        github.advance(12 * 60)
        await hub.ask(RUNNERS)
        assert bought(github) == 2


async def test_a_token_that_is_refused_before_its_time_is_replaced_once(github: FakeGithub) -> None:
    app_id, key = github.app()
    async with a_hub(github, app_id=app_id, private_key=key) as hub:
        await hub.ask(RUNNERS)
        github.fail("GET */actions/runners", 401, times=4, message="Bad credentials")
        answers = await asyncio.gather(*(hub.ask(RUNNERS) for _ in range(4)))
        assert [answer.status for answer in answers] == [200] * 4
        assert bought(github) == 2


async def test_a_token_that_is_refused_and_refused_again_is_given_up(github: FakeGithub) -> None:
    app_id, key = github.app()
    github.fail("GET */actions/runners", 401, times=None, message="Bad credentials")
    async with a_hub(github, app_id=app_id, private_key=key) as hub:
        with pytest.raises(PermissionDenied, match=r"the App \d+ is invalid, has expired, or was revoked"):
            await hub.ask(RUNNERS)
    assert bought(github) == 2


async def test_a_key_that_was_replaced_is_named(github: FakeGithub) -> None:
    app_id, key = github.app()
    github.replace_app_key(app_id)
    async with a_hub(github, app_id=app_id, private_key=key) as hub:
        with pytest.raises(PermissionDenied, match=rf"github.private-key of the App {app_id} is invalid, has expired"):
            await hub.ask(RUNNERS)


async def test_an_app_that_does_not_exist_is_named(github: FakeGithub) -> None:
    _, key = github.app()
    async with a_hub(github, app_id="999", private_key=key) as hub:
        with pytest.raises(PermissionDenied, match=r"github.private-key of the App 999"):
            await hub.ask(RUNNERS)


async def test_an_app_that_is_not_installed_there_is_reported_as_such(github: FakeGithub) -> None:
    github.add_repository("other/things")
    app_id, key = github.app(scope="other")
    async with a_hub(github, app_id=app_id, private_key=key) as hub:
        with pytest.raises(Refused, match=r"/repos/acme/widgets/installation: the App \d+ is not installed there"):
            await hub.ask(RUNNERS)


async def test_a_wrong_clock_is_reported_to_an_app(github: FakeGithub) -> None:
    app_id, key = github.app()
    clock = ClockAhead()
    clock.ahead = timedelta(minutes=20)
    async with a_hub(github, clock, app_id=app_id, private_key=key) as hub:
        with pytest.raises(PermissionDenied) as caught:
            await hub.ask(RUNNERS)
    assert "clock" in caught.value.remedy


async def test_a_token_that_has_expired_is_said_to_be_invalid(github: FakeGithub) -> None:
    async with a_hub(github, token=github.token(expires_in=-1)) as hub:
        with pytest.raises(PermissionDenied, match=r"github.token is invalid, has expired, or was revoked"):
            await hub.ask(RUNNERS)
    assert len(github.calls) == 1


async def test_secrets_may_be_in_files(github: FakeGithub, tmp_path: Path) -> None:
    app_id, key = github.app()
    (tmp_path / "key.pem").write_text(key)
    (tmp_path / "token").write_text(github.token() + "\n")
    async with a_hub(github, app_id=app_id, private_key=f"file:{tmp_path}/key.pem") as hub:
        assert (await hub.ask(RUNNERS)).status == 200
    async with a_hub(github, token=f"file:{tmp_path}/token") as hub:
        assert (await hub.ask(RUNNERS)).status == 200


async def test_line_breaks_of_a_key_may_be_spelt_out(github: FakeGithub) -> None:
    app_id, key = github.app()
    async with a_hub(github, app_id=app_id, private_key=key.replace("\n", "\\n")) as hub:
        assert (await hub.ask(RUNNERS)).status == 200


def of_another_kind() -> str:
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(*form).decode()


def with_a_password() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    locked = serialization.BestAvailableEncryption(b"locked")
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked).decode()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"token": "file:/does/not/exist"}, "github.token: /does/not/exist cannot be read"),
        ({"app_id": "1", "private_key": "file:/does/not/exist"}, "github.private-key: /does/not/exist cannot be read"),
        ({"app_id": "1", "private_key": "no key at all"}, "github.private-key: not an RSA private key"),
        ({"app_id": "1", "private_key": of_another_kind()}, "github.private-key: not an RSA private key"),
        ({"app_id": "1", "private_key": with_a_password()}, "github.private-key: not an RSA private key"),
        ({"token": "two words"}, "github.token: it has characters that a token cannot have"),
        ({"token": "a\nb"}, "github.token: it has characters that a token cannot have"),
    ],
)
async def test_secrets_that_cannot_be_used_are_named_by_their_setting(changes: dict[str, Any], named: str) -> None:
    hub = GithubClient(Github(scope="acme", **changes), SystemClock())
    with pytest.raises(ConfigError) as caught:
        await hub.ask(RUNNERS)
    assert named in str(caught.value)
    assert not [
        value for value in changes.values() if len(value) > 10 and "file:" not in value and value in str(caught)
    ]
