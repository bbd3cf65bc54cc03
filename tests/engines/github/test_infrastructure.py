"""The infrastructure of a pool on GitHub: a token in the vault that never expires, and what `doctor` finds."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from bullpen.config import Agent, ScaleSetSettings, Settings
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.infrastructure import ROTATE, SECRET, GithubInfrastructure
from bullpen.engines.github.releases import Releases
from bullpen.engines.github.scale_sets.doctor import SetChecks
from bullpen.engines.memory import Memory
from bullpen.errors import PermissionDenied
from bullpen.ports import Gap, Infrastructure, NoInfrastructure, Vault
from bullpen.ports.health import Finding, Health
from engines.github.places import SERVED, ClockAhead, settings_of
from fakes.github.hub import FakeGithub

pytestmark = pytest.mark.real_loop

DIRECT = Agent()


class Ground(NoInfrastructure):
    """The pool's own ground: one thing is missing."""

    def __init__(self, blocks: bool = False) -> None:
        self.missing = [Gap("make table", "bullpen", "it does not exist", blocks)]
        self.mended: list[Gap] = []

    async def gaps(self) -> list[Gap]:
        return self.missing

    async def mend(self, gap: Gap) -> None:
        self.mended.append(gap)

    async def examine(self) -> list[Finding]:
        return [Finding("table", Health.OK, "there")]


class NoTableYet:
    async def read(self, name: str) -> None:
        raise AssertionError("there is nothing to look into")


def vault_of(clock: ClockAhead) -> Vault:
    return Memory().ports(clock).vault


@asynccontextmanager
async def an_infrastructure(
    settings: Settings, *, vault: Any = None, ground: Infrastructure | None = None, clock: ClockAhead | None = None
) -> AsyncIterator[GithubInfrastructure]:
    clock = clock or ClockAhead()
    async with aclosing(GithubClient(settings.github, clock)) as hub:
        kept = vault or vault_of(clock)
        yield GithubInfrastructure(ground or NoInfrastructure(), hub, settings, kept, clock, Releases(hub, clock))


async def mend_all(infrastructure: GithubInfrastructure) -> list[Gap]:
    found = await infrastructure.gaps()
    for gap in found:
        await infrastructure.mend(gap)
    return found


async def test_agents_that_use_the_store_are_given_a_token_there(github: FakeGithub) -> None:
    github.release("2.336.0")
    settings, clock = settings_of(github, agent=DIRECT, scope="acme", runner_group="builders"), ClockAhead()
    vault = vault_of(clock)
    async with an_infrastructure(settings, vault=vault, clock=clock) as infrastructure:
        assert await mend_all(infrastructure) == [Gap(ROTATE, "acme", "agents have none")]
        assert await infrastructure.gaps() == []
    kept = await vault.read(SECRET)
    assert kept is not None
    told = json.loads(kept.content)
    assert told.pop("registration") != told.pop("removal")
    assert told == {"url": f"{github.url}/acme", "group": "builders", "pool": "bullpen", "oldest": "2.336.0"}
    assert timedelta(minutes=59) < kept.expires - clock.now() <= timedelta(hours=1)


async def test_the_token_is_replaced_long_before_it_ends(github: FakeGithub) -> None:
    clock = ClockAhead()
    vault = vault_of(clock)
    async with an_infrastructure(settings_of(github, agent=DIRECT), vault=vault, clock=clock) as infrastructure:
        await mend_all(infrastructure)
        clock.ahead = timedelta(minutes=29)
        assert await infrastructure.gaps() == []
        clock.ahead = timedelta(minutes=31)
        assert [gap.what for gap in await infrastructure.gaps()] == [ROTATE]


async def test_the_token_is_replaced_when_the_settings_say_otherwise(github: FakeGithub) -> None:
    clock = ClockAhead()
    vault = vault_of(clock)
    async with an_infrastructure(settings_of(github, agent=DIRECT), vault=vault, clock=clock) as infrastructure:
        await mend_all(infrastructure)
    async with an_infrastructure(
        settings_of(github, agent=DIRECT, pool="other"), vault=vault, clock=clock
    ) as infrastructure:
        assert await mend_all(infrastructure) == [Gap(ROTATE, "acme/widgets", "the settings have changed")]
        assert await infrastructure.gaps() == []


async def test_two_refreshes_at_once_replace_it_once(github: FakeGithub) -> None:
    async with an_infrastructure(settings_of(github, agent=DIRECT)) as infrastructure:
        (gap,) = await infrastructure.gaps()
        await infrastructure.mend(gap)
        asked = len(github.calls)
        await infrastructure.mend(gap)
    assert len(github.calls) == asked


async def test_agents_that_are_served_need_none(github: FakeGithub) -> None:
    async with an_infrastructure(settings_of(github, agent=SERVED), vault=NoTableYet()) as infrastructure:
        assert await infrastructure.gaps() == []
    assert github.calls == []


async def test_the_pools_own_ground_comes_first_and_is_mended_by_its_owner(github: FakeGithub) -> None:
    ground = Ground()
    async with an_infrastructure(settings_of(github, agent=DIRECT), ground=ground) as infrastructure:
        found = await mend_all(infrastructure)
    assert [gap.what for gap in found] == ["make table", ROTATE]
    assert ground.mended == ground.missing


async def test_without_a_table_the_vault_is_not_read(github: FakeGithub) -> None:
    settings = settings_of(github, agent=DIRECT)
    async with an_infrastructure(settings, ground=Ground(blocks=True), vault=NoTableYet()) as infrastructure:
        assert [gap.what for gap in await infrastructure.gaps()] == ["make table", ROTATE]


async def test_a_failure_to_make_tokens_names_the_missing_permission(github: FakeGithub) -> None:
    settings = settings_of(github, agent=DIRECT, token=github.token({"administration": "read"}))
    async with an_infrastructure(settings) as infrastructure:
        with pytest.raises(PermissionDenied, match="Administration: write"):
            await mend_all(infrastructure)


# ---- what doctor finds


async def findings(settings: Settings, ground: Infrastructure | None = None) -> dict[str, Finding]:
    async with an_infrastructure(settings, ground=ground) as infrastructure:
        return {one.name: one for one in await infrastructure.examine()}


async def test_all_is_well(github: FakeGithub) -> None:
    github.release("2.336.0", days_ago=3)
    app_id, key = github.app()
    found = await findings(
        settings_of(github, app_id=app_id, private_key=key, webhook_secret="s", rescue=("*",)), Ground()
    )
    assert {one.health for one in found.values()} == {Health.OK}, found
    assert found["github"].found == f"App {app_id} at {github.url}"
    assert "core: " in found["github rate limits"].found
    assert found["table"].found == "there"


async def test_with_invalid_credentials_nothing_else_is_examined(github: FakeGithub) -> None:
    found = await findings(settings_of(github, token="ghp_wrong"))
    assert list(found) == ["github"]
    assert found["github"].health is Health.FAILED
    assert "github.token is invalid" in found["github"].found


async def test_a_secret_that_cannot_be_read_is_found(github: FakeGithub) -> None:
    found = await findings(settings_of(github, token="file:/does/not/exist"))
    assert "github.token: /does/not/exist cannot be read" in found["github"].found


async def test_a_wrong_scope_is_found(github: FakeGithub) -> None:
    found = await findings(settings_of(github, scope="acme/gadgets"))
    assert found["github scope"].health is Health.FAILED
    assert "does not exist, or github.token may not see it" in found["github scope"].found


async def test_permissions_that_an_app_lacks_are_found(github: FakeGithub) -> None:
    app_id, key = github.app({"administration": "write", "actions": "read"})
    found = await findings(settings_of(github, app_id=app_id, private_key=key, rescue=("acme/widgets",)))
    assert found["github permissions"].health is Health.FAILED
    assert "Actions: write" in found["github permissions"].found
    assert "Deployments: read" in found["github permissions"].found


async def test_a_token_that_may_not_register_runners_is_found(github: FakeGithub) -> None:
    found = await findings(settings_of(github, token=github.token({"administration": "read"})))
    assert found["github scope"].health is Health.OK
    assert found["github permissions"].health is Health.FAILED
    assert "Administration: write" in found["github permissions"].found


async def test_a_runner_group_that_is_missing_is_found(github: FakeGithub) -> None:
    github.add_group("acme", "builders")
    assert (await findings(settings_of(github, scope="acme", runner_group="builders")))[
        "github runner group"
    ].health is Health.OK
    found = await findings(settings_of(github, scope="acme", runner_group="testers"))
    assert found["github runner group"].health is Health.FAILED
    assert "no group 'testers'; there are Default, builders" in found["github runner group"].found


def a_set(**changed: Any) -> dict[str, ScaleSetSettings]:
    fields = {"events": "trusted", "trust_domain": "acme", "repositories": ("acme/widgets",), **changed}
    return {"medium": ScaleSetSettings(**fields)}


async def of_sets(github: FakeGithub, **changed: Any) -> Finding:
    settings = settings_of(github, scope="acme", scale_sets=a_set(**changed))
    return (await findings(settings))["github scale sets"]


async def test_the_service_of_scale_sets_accepts_the_credentials(github: FakeGithub) -> None:
    assert await of_sets(github) == Finding(
        "github scale sets", Health.OK, "the credentials are accepted; bullpen-medium"
    )


async def test_without_scale_sets_their_service_is_not_asked(github: FakeGithub) -> None:
    assert "github scale sets" not in await findings(settings_of(github))


async def test_the_group_of_a_scale_set_that_is_missing_is_found(github: FakeGithub) -> None:
    found = await of_sets(github, runner_group="testers")
    assert found.health is Health.FAILED
    assert "github.scale-sets.medium.runner-group ('testers'): there is no such runner group" in found.found


async def test_a_group_that_is_closed_to_a_repository_of_its_scale_set_is_found(github: FakeGithub) -> None:
    github.add_repository("acme/gadgets")
    github.add_group("acme", "builders", ["acme/gadgets"])
    found = await of_sets(github, runner_group="builders", repositories=("acme/gadgets", "acme/widgets"))
    assert found.health is Health.FAILED
    closed = "github.scale-sets.medium.runner-group: the group 'builders' is closed to acme/widgets"
    assert (found.found, found.remedy[:10]) == (closed, "Admit them")
    assert 'organisation permission "Self-hosted runners: write"' in found.remedy
    assert "set github.scale-sets.medium.runner-group to a group that admits them" in found.remedy
    assert (await of_sets(github, runner_group="builders", repositories=("acme/gadgets",))).health is Health.OK


async def test_a_group_for_private_repositories_that_has_a_public_one_in_its_scale_set_is_found(
    github: FakeGithub,
) -> None:
    github.add_repository("acme/website", private=False)
    found = await of_sets(github, repositories=("acme/widgets", "acme/website/77"))
    assert found.health is Health.FAILED
    assert "is closed to public repositories, and acme/website is public" in found.found
    assert 'organisation permission "Self-hosted runners: write"' in found.remedy
    assert "set github.runner-group to a group that allows them" in found.remedy


@pytest.mark.parametrize("path", ["GET */actions/runner-groups?*", "GET */runner-groups/*/repositories*"])
async def test_a_check_of_a_group_that_is_not_allowed_is_a_warning_that_names_the_permission(
    github: FakeGithub, path: str
) -> None:
    github.add_group("acme", "builders", ["acme/gone"])
    github.fail(path, 403, times=None)
    found = await of_sets(github, runner_group="builders")
    assert found.health is Health.WARNING
    assert "whether their runner groups admit their repositories was not checked: " in found.found
    assert 'Grant the organisation permission "Self-hosted runners: read"' in found.remedy
    assert "github.scale-sets.medium.runner-group" in found.remedy


async def test_a_group_that_github_does_not_list_is_a_warning(
    github: FakeGithub, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(*_: object) -> list[dict[str, Any]]:
        return []

    github.add_group("acme", "builders", ["acme/widgets"])
    monkeypatch.setattr(SetChecks, "_listed", none)
    found = await of_sets(github, runner_group="builders")
    assert found.health is Health.WARNING
    assert "was not checked: GitHub does not list the runner group 'builders'" in found.found


async def test_runners_that_github_refuses_soon_are_found(github: FakeGithub) -> None:
    github.release("2.335.0", days_ago=60)
    github.release("2.336.0", days_ago=29)
    github.add_runner("acme/widgets", "bullpen.i-1.aaaaaaaa", version="2.335.0")
    found = await findings(settings_of(github))
    assert found["github versions"].health is Health.WARNING
    assert "GitHub refuses 2.335.0 from" in found["github versions"].found


async def test_releases_that_are_unknown_are_a_warning(github: FakeGithub) -> None:
    github.fail("GET */releases*", 404, times=None)
    assert (await findings(settings_of(github)))["github versions"].health is Health.WARNING


async def test_little_left_of_a_limit_is_a_warning(github: FakeGithub) -> None:
    token = github.token()
    github.rate_limit(token, remaining=100)
    found = await findings(settings_of(github, token=token))
    assert found["github rate limits"].health is Health.WARNING
    assert "little left of core" in found["github rate limits"].found


async def test_a_webhook_without_a_secret_is_a_warning(github: FakeGithub) -> None:
    found = await findings(settings_of(github))
    assert found["github webhook"].health is Health.WARNING
    assert "every 60 s" in found["github webhook"].found
