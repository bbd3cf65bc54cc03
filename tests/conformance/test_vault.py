"""What every Vault promises."""

from datetime import timedelta

from bullpen.ports import Ports, Secret, Vault

HOUR = timedelta(hours=1)
CONTENT = '{"registration": "ü, \'quoted\'"}'


async def test_a_name_that_was_never_written_holds_nothing(vault: Vault) -> None:
    assert await vault.read("github") is None


async def test_a_secret_is_read_as_it_was_written(ports: Ports, vault: Vault) -> None:
    secret = Secret(CONTENT, ports.clock.now().replace(microsecond=123456) + HOUR)
    await vault.write("github", secret)
    assert await vault.read("github") == secret
    assert await vault.read("another") is None


async def test_what_stood_there_before_is_gone(ports: Ports, vault: Vault) -> None:
    expires = ports.clock.now() + HOUR
    for content in ("a long first one", "short"):
        await vault.write("github", Secret(content, expires))
    found = await vault.read("github")
    assert found is not None
    assert found.content == "short"


async def test_a_secret_is_none_after_its_time(ports: Ports, vault: Vault) -> None:
    await vault.write("github", Secret(CONTENT, ports.clock.now() - timedelta(seconds=1)))
    assert await vault.read("github") is None


def test_what_a_secret_says_is_not_shown() -> None:
    assert "quoted" not in repr(Secret(CONTENT, expires=None))  # type: ignore[arg-type]
