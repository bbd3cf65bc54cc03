"""Settings of GitHub: an invalid one is refused by name before the first call, and no secret is shown."""

import pytest

from bullpen.errors import ConfigError
from bullpen.settings import load

GOOD = {
    "BULLPEN_ENGINES_CI": "github",
    "BULLPEN_GITHUB_SCOPE": "acme/widgets",
    "BULLPEN_GITHUB_TOKEN": "ghp_hidden",
}
APP = {"BULLPEN_GITHUB_APP_ID": "12345", "BULLPEN_GITHUB_PRIVATE_KEY": "file:/nowhere/ghp_hidden.pem"}


def refused(changes: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        load(GOOD | changes)
    assert "ghp_hidden" not in f"{caught.value} {caught.value.remedy}"
    return str(caught.value)


def test_a_token_and_a_scope_suffice() -> None:
    settings = load(GOOD).settings
    assert settings.on_github
    assert settings.github.registration == "persistent"


def test_the_repr_of_settings_contains_no_secret() -> None:
    secrets = dict.fromkeys(("BULLPEN_GITHUB_TOKEN", "BULLPEN_GITHUB_WEBHOOK_SECRET"), "ghp_hidden")
    loaded = load(GOOD | secrets)
    assert "ghp_hidden" not in repr(loaded.settings)
    app = load({**GOOD, "BULLPEN_GITHUB_TOKEN": "", **APP})
    assert "ghp_hidden" not in repr(app.settings)


def test_an_app_replaces_a_token() -> None:
    assert load({**GOOD, **APP, "BULLPEN_GITHUB_TOKEN": ""}).settings.github.app_id == "12345"


@pytest.mark.parametrize("scope", ["", "acme/", "/widgets", "acme/widgets/more", "ac me", "acme/wid gets", "-acme"])
def test_a_scope_is_a_repository_or_an_organisation(scope: str) -> None:
    assert "github.scope" in refused({"BULLPEN_GITHUB_SCOPE": scope})


def test_no_credentials_at_all_are_named() -> None:
    assert "github.token, or github.app-id and github.private-key" in refused({"BULLPEN_GITHUB_TOKEN": ""})


def test_two_kinds_of_credentials_contradict() -> None:
    assert "remove one" in refused(APP)


def test_an_app_without_its_key_is_refused() -> None:
    assert "must be set" in refused({"BULLPEN_GITHUB_TOKEN": "", "BULLPEN_GITHUB_APP_ID": "12345"})


@pytest.mark.parametrize("name", ["URL", "API_URL", "OIDC_ISSUER", "RUNNER_URL"])
def test_a_url_with_credentials_is_refused(name: str) -> None:
    changes = {f"BULLPEN_GITHUB_{name}": "https://me:pw@ghe.example.com"}
    assert f"github.{name.lower().replace('_', '-')}" in refused(changes)


def test_a_downloaded_runner_needs_its_checksum() -> None:
    assert "github.runner-sha256" in refused({"BULLPEN_GITHUB_RUNNER_URL": "https://example.com/runner.tar.gz"})


def test_jit_registration_needs_a_server() -> None:
    assert "agent.serve-url" in refused({"BULLPEN_GITHUB_REGISTRATION": "jit"})
    load({**GOOD, "BULLPEN_GITHUB_REGISTRATION": "jit", "BULLPEN_AGENT_SERVE_URL": "http://127.0.0.1:8080"})


def test_a_runner_group_needs_an_organisation() -> None:
    assert "github.runner-group" in refused({"BULLPEN_GITHUB_RUNNER_GROUP": "linux"})


@pytest.mark.parametrize("seconds", ["1", "59", "3600", "7200"])
def test_the_rotation_of_a_token_must_be_shorter_than_its_lifetime(seconds: str) -> None:
    assert "github.token-rotation" in refused({"BULLPEN_GITHUB_TOKEN_ROTATION": seconds})


def test_rescue_names_repositories() -> None:
    assert "github.rescue" in refused({"BULLPEN_GITHUB_RESCUE": "acme/widgets,widgets"})
    assert load({**GOOD, "BULLPEN_GITHUB_RESCUE": "*"}).settings.github.rescue == ("*",)


def test_a_class_that_looks_like_an_attempt_is_refused_on_github_only(tmp_path: pytest.TempPathFactory) -> None:
    file = f"{tmp_path}/bullpen.toml"
    with open(file, "w") as written:
        written.write("[classes.2]\ncpu = 1\nmem = 1024\n")
    load({}, config=file)
    with pytest.raises(ConfigError, match=r"classes\.2: must not look like an attempt"):
        load(GOOD, config=file)


def test_without_github_no_github_setting_is_required() -> None:
    assert not load({}).settings.on_github
