"""No secret is in any error, representation or log, whatever goes wrong."""

import json
import logging
from datetime import timedelta
from traceback import format_exception
from typing import Any

import pytest

from builders import claimed, open_provision
from bullpen.config import Agent
from bullpen.engines.github import client
from bullpen.engines.github.answers import GithubCall
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.credentials import AppCredentials
from bullpen.engines.github.infrastructure import SECRET, GithubInfrastructure
from bullpen.engines.github.releases import Releases
from bullpen.engines.github.runners import GithubCI, make_token
from bullpen.engines.memory import Memory
from bullpen.errors import BullpenError
from bullpen.ports import NoInfrastructure, Secret
from engines.github.places import ClockAhead, settings_of
from fakes.github.hub import FakeGithub

pytestmark = pytest.mark.real_loop


async def told(awaitable: Any) -> str:
    """What a failing call tells, with all its causes; or how its result shows itself."""
    try:
        return repr(await awaitable)
    except BullpenError as exc:
        return "".join(format_exception(exc)) + repr(exc) + exc.remedy


@pytest.mark.parametrize("registration", ["persistent", "jit"])
@pytest.mark.parametrize("as_app", [True, False])
async def test_no_secret_is_shown_anywhere(
    github: FakeGithub,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    as_app: bool,
    registration: str,
) -> None:
    monkeypatch.setattr(client, "PATIENCE", 0.0)
    caplog.set_level(logging.DEBUG)
    token = github.token()
    app_id, key = github.app()
    given_as = {"app_id": app_id, "private_key": key} if as_app else {"token": token}
    settings = settings_of(github, agent=Agent(), registration=registration, webhook_secret="h00k-s3cret", **given_as)
    clock = ClockAhead()
    ports = Memory().ports(clock)
    hub = GithubClient(settings.github, clock)
    releases = Releases(hub, clock)
    ci = GithubCI(hub, settings, ports.records, clock, releases)
    infrastructure = GithubInfrastructure(NoInfrastructure(), hub, settings, ports.vault, clock, releases)
    await ports.records.apply(open_provision())
    walk = claimed(run_id="4711")
    for change in walk:
        await ports.records.apply(change)
    runners = GithubCall("GET", f"{hub.scope_path}/actions/runners")

    given = await ci.register("i-1", "4711", walk[-1].after.round)
    made = await make_token(hub, "registration")
    for gap in await infrastructure.gaps():
        await infrastructure.mend(gap)
    kept = await ports.vault.read(SECRET)
    assert given is not None
    assert kept is not None
    credentials = hub._opened()[1]
    bearer = await credentials.bearer()
    secrets = {key, key.splitlines()[1], token, bearer, given.token or given.jit, made.value, "h00k-s3cret"}
    secrets |= {json.loads(kept.content)[name] for name in ("registration", "removal")}

    shown = [
        repr(one)
        for one in (hub, ci, infrastructure, credentials, given, made, kept, releases, Secret("x", clock.now()))
    ]
    shown += [str(one) for one in (hub, ci, credentials, given, made, kept)]
    for status in (400, 401, 403, 404, 409, 422, 429, 500):
        github.fail("*", status, times=None, message="as told")
        shown.append(await told(ci.register("i-1", "4711", walk[-1].after.round)))
        shown.append(await told(make_token(hub, "remove")))
        shown.append(await told(hub.ask(runners)))
        shown += [repr(one) for one in await infrastructure.examine()]
        clock.ahead += timedelta(hours=2)  # every token is fetched again
        github.heal()
        hub._rate_limits._closed.clear()
    github.lose_answer("POST *", times=None)
    shown.append(await told(make_token(hub, "remove")))
    if isinstance(credentials, AppCredentials):
        shown.append(await told(credentials.bearer()))
    await hub.aclose()

    everything = "\n".join([*shown, caplog.text, *(repr(record.__dict__) for record in caplog.records)])
    assert caplog.records  # httpx tells of its calls
    assert [secret for secret in secrets if secret in everything] == []
