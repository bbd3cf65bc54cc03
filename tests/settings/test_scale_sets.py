"""Settings of scale sets: completed from the others; an invalid one is refused by name, with what is allowed."""

from pathlib import Path
from typing import Any

import pytest

from bullpen.action.load_settings import published_of
from bullpen.errors import ConfigError
from bullpen.model.scale_set import SetEvents, SetRepository, SetRules
from bullpen.model.ticket import UsageClass
from bullpen.scale_sets.rules import lingers, rules_of, tables
from bullpen.settings import Layer, Loaded, load

REPOSITORY = {
    "BULLPEN_ENGINES_CI": "github",
    "BULLPEN_GITHUB_SCOPE": "acme/widgets",
    "BULLPEN_GITHUB_TOKEN": "ghp_hidden",
    "BULLPEN_AGENT_SERVE_URL": "http://127.0.0.1:8080",
}
ORGANISATION = REPOSITORY | {"BULLPEN_GITHUB_SCOPE": "acme"}
MEDIUM = '[github.scale-sets.medium]\nevents = "trusted"\n'
OF_ACME = f'{MEDIUM}trust-domain = "acme"\nrepositories = ["acme/widgets", "acme/gadgets"]\n'


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(text: str, environ: dict[str, str] = REPOSITORY, *assignments: str) -> Loaded:
    Path("bullpen.toml").write_text(text)
    return load(environ, assignments=assignments)


def refused(text: str, environ: dict[str, str] = REPOSITORY, *assignments: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(text, environ, *assignments)
    assert "ghp_hidden" not in f"{caught.value} {caught.value.remedy}"
    return caught.value


def rules(text: str, environ: dict[str, str] = REPOSITORY) -> dict[str, SetRules]:
    return rules_of(loaded(text, environ).settings)


# ---- what is completed


def test_a_set_needs_no_more_than_the_events_that_it_serves() -> None:
    assert rules(MEDIUM) == {
        "bullpen-medium": SetRules(
            resource_class="medium",
            usage_class=UsageClass.ON_DEMAND,
            trust_domain="acme/widgets",
            events=SetEvents.TRUSTED,
            repositories=(SetRepository("acme/widgets"),),
            group="",
            min=0,
            max=100,
            max_runtime=21600.0,
        )
    }


def test_every_field_of_a_set_can_be_chosen() -> None:
    text = """
        [github.scale-sets.gpu]
        class = "large"
        name = "acme-gpu"
        min = 1
        max = 8
        usage-class = "spot"
        runner-group = "builders"
        events = "any"
        trust-domain = "acme-pull-requests"
        repositories = ["acme/widgets"]
        linger = 5
        max-runtime-min = 60
    """
    found = loaded(text, ORGANISATION).settings
    assert rules_of(found) == {
        "acme-gpu": SetRules(
            resource_class="large",
            usage_class=UsageClass.SPOT,
            trust_domain="acme-pull-requests",
            events=SetEvents.ANY,
            repositories=(SetRepository("acme/widgets"),),
            group="builders",
            min=1,
            max=8,
            max_runtime=3600.0,
        )
    }
    assert lingers(found) == {"acme-gpu": 5.0}
    assert tables(found) == {"acme-gpu": "github.scale-sets.gpu"}


def test_a_set_of_pull_requests_has_another_domain_than_trusted_runs() -> None:
    found = rules('[github.scale-sets.medium]\nevents = "any"')
    assert found["bullpen-medium"].trust_domain == "acme/widgets#pull-request"


def test_the_cap_of_the_class_is_the_default_of_max() -> None:
    assert rules(f"{MEDIUM}[classes.medium]\nmax-instances = 7")["bullpen-medium"].max == 7


def test_a_set_is_in_the_runner_group_of_the_pool_unless_it_names_one() -> None:
    group = {**ORGANISATION, "BULLPEN_GITHUB_RUNNER_GROUP": "linux"}
    assert rules(OF_ACME, group)["bullpen-medium"].group == "linux"
    assert rules(f'{OF_ACME}runner-group = "gpu"', group)["bullpen-medium"].group == "gpu"


def test_a_repository_may_be_named_with_its_id() -> None:
    text = f'{MEDIUM}trust-domain = "acme"\nrepositories = ["acme/widgets/812345678", "acme/gadgets"]'
    found = rules(text, ORGANISATION)["bullpen-medium"].repositories
    assert found == (SetRepository("acme/widgets", 812345678), SetRepository("acme/gadgets"))


def test_a_star_means_every_repository_of_the_organisation() -> None:
    text = f'{MEDIUM}trust-domain = "acme"\nrepositories = ["*"]'
    assert rules(text, ORGANISATION)["bullpen-medium"].repositories == ()


# ---- sources


def test_a_variable_and_an_option_change_a_set_of_the_file() -> None:
    variable = {**REPOSITORY, "BULLPEN_GITHUB_SCALE_SETS_MEDIUM_MIN": "2"}
    found = loaded(MEDIUM, variable, "github.scale-sets.medium.usage-class=spot").values
    assert found["github.scale-sets.medium.min"] == (2, "BULLPEN_GITHUB_SCALE_SETS_MEDIUM_MIN")
    assert found["github.scale-sets.medium.usage-class"] == ("spot", "--set")
    assert found["github.scale-sets.medium.linger"] == (60.0, "default")


def test_a_set_that_the_file_does_not_have_is_named_in_the_remedy() -> None:
    expected = "Add the scale set to the file first, as [github.scale-sets.NAME]."
    assert refused("", REPOSITORY, "github.scale-sets.medium.min=2").remedy == expected
    assert refused("", {**REPOSITORY, "BULLPEN_GITHUB_SCALE_SETS_MEDIUM_MIN": "2"}).remedy == expected


def test_published_settings_have_the_sets() -> None:
    first = loaded(MEDIUM)
    Path("bullpen.toml").write_text("")
    again = load(REPOSITORY, beneath=Layer("published", published_of(first)))
    assert rules_of(again.settings) == rules_of(first.settings)


def test_a_set_whose_name_has_a_dot_is_read() -> None:
    assert list(rules('[github.scale-sets."v1.2"]\nevents = "any"\nclass = "small"')) == ["bullpen-small"]


# ---- mistakes

SMALL = '[github.scale-sets.small]\nevents = "trusted"\n'
MISTAKES: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {
    "no events": ("[github.scale-sets.medium]", REPOSITORY, ("scale-sets.medium.events is required", '"trusted"')),
    "unknown events": (
        '[github.scale-sets.medium]\nevents = "all"',
        REPOSITORY,
        ("events = 'all'", "one of any, trusted"),
    ),
    "a misspelt setting": (f"{MEDIUM}mini = 1", REPOSITORY, ("medium.mini = 1", "github.scale-sets.medium.min")),
    "a set that is none": ("[github.scale-sets]\nmedium = 3", REPOSITORY, ("must be a table", "[github.scale-sets.")),
    "sets that are none": ("[github]\nscale-sets = 3", REPOSITORY, ("must be a table", "[github.scale-sets]")),
    "a table with a bad name": ('[github.scale-sets."a b"]', REPOSITORY, ("'a b'", "1 to 63 letters")),
    "another CI": (MEDIUM, {}, ("engines.ci ('builtin')", '"github"')),
    "no server": (MEDIUM, {**REPOSITORY, "BULLPEN_AGENT_SERVE_URL": ""}, ("agent.serve-url ('')", "must be set")),
    "an unknown class": (
        '[github.scale-sets.huge]\nevents = "any"',
        REPOSITORY,
        ("scale-sets.huge.class ('huge')", "large, medium, small"),
    ),
    "min above max": (f"{MEDIUM}min = 3\nmax = 2", REPOSITORY, ("medium.min (3)", "at most", "medium.max (2)")),
    "min above the cap": (
        f"{MEDIUM}min = 3\nmax = 9\n[classes.medium]\nmax-instances = 2",
        REPOSITORY,
        ("*.min of class medium (3)", "classes.medium.max-instances (2)"),
    ),
    "no runner at all": (
        MEDIUM,
        {**REPOSITORY, "BULLPEN_LIMITS_MAX_INSTANCES": "0"},
        ("medium.max (0)", "at least 1", "limits.max-instances"),
    ),
    "more registered than there may be": (
        f"{MEDIUM}min = 60\n{SMALL}min = 60",
        REPOSITORY,
        ("*.min (120)", "at most limits.max-instances (100)"),
    ),
    "a negative min": (f"{MEDIUM}min = -1", REPOSITORY, ("medium.min = -1", "a whole number from 0")),
    "equal names": (
        f'{MEDIUM}{SMALL}name = "Bullpen-Medium"',
        REPOSITORY,
        ("small.name", "must differ", "sets.medium"),
    ),
    "a name like a run's": (f'{MEDIUM}name = "4711-large"', REPOSITORY, ("medium.name ('4711-large')", "a letter")),
    "a name that no label may have": (f'{MEDIUM}name = "a b"', REPOSITORY, ("medium.name ('a b')", "letters, digits")),
    "a name that is too long": (f'{MEDIUM}name = "{"a" * 64}"', REPOSITORY, ("medium.name", "1 to 63")),
    "a label of other runners": (f'{MEDIUM}name = "Self-Hosted"', REPOSITORY, ("medium.name ('Self-Hosted')", "other")),
    "a label of GitHub's": (f'{MEDIUM}name = "ubuntu-latest"', REPOSITORY, ("'ubuntu-latest'", "other runners")),
    "a group in a repository": (
        f'{MEDIUM}runner-group = "linux"',
        REPOSITORY,
        ("medium.runner-group ('linux')", "must be empty", "acme/widgets is a repository"),
    ),
    "an organisation without a domain": (
        f'{MEDIUM}repositories = ["acme/widgets"]',
        ORGANISATION,
        ("medium.trust-domain ('')", "acme is an organisation"),
    ),
    "an organisation without repositories": (
        f'{MEDIUM}trust-domain = "acme"',
        ORGANISATION,
        ("medium.repositories ([])", '"*" for all', "acme is an organisation"),
    ),
    "a domain that is no name": (
        f'{MEDIUM}trust-domain = "a b"',
        REPOSITORY,
        ("medium.trust-domain ('a b')", "digits"),
    ),
    "a repository of another owner": (
        f'{MEDIUM}trust-domain = "acme"\nrepositories = ["octo/widgets"]',
        ORGANISATION,
        ("medium.repositories has 'octo/widgets'", "github.scope ('acme')"),
    ),
    "an id that is none": (
        f'{MEDIUM}trust-domain = "acme"\nrepositories = ["acme/widgets/x"]',
        ORGANISATION,
        ("medium.repositories has 'acme/widgets/x'", "OWNER/NAME or OWNER/NAME/ID"),
    ),
    "a kind of run instead of a repository": (
        f'{MEDIUM}trust-domain = "acme"\nrepositories = ["acme/widgets/7#pull-request"]',
        ORGANISATION,
        ("medium.repositories has 'acme/widgets/7#pull-request'", "OWNER/NAME or OWNER/NAME/ID"),
    ),
    "every repository of one repository": (
        f'{MEDIUM}repositories = ["*"]',
        REPOSITORY,
        ("medium.repositories has '*'", "github.scope ('acme/widgets')"),
    ),
    "pull requests in the domain of trusted runs": (
        '[github.scale-sets.medium]\nevents = "any"\ntrust-domain = "acme/widgets"',
        REPOSITORY,
        ("medium.trust-domain ('acme/widgets')", "trusted runs"),
    ),
    "one domain for pull requests and trusted runs": (
        f'{MEDIUM}trust-domain = "ours"\n[github.scale-sets.small]\nevents = "any"\ntrust-domain = "ours"',
        REPOSITORY,
        ("small.trust-domain ('ours')", "must differ", 'events = "trusted"'),
    ),
    "a job of two weeks": (f"{MEDIUM}max-runtime-min = 20160", REPOSITORY, ("max-runtime-min = 20160", "10080")),
}


@pytest.mark.parametrize(("text", "environ", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_refused_with_the_setting_its_value_and_what_is_allowed(
    text: str, environ: dict[str, str], expected: tuple[str, ...]
) -> None:
    error = refused(text, environ)
    said = f"{error} {error.remedy}"
    assert [part for part in expected if part not in said] == [], said


def test_without_sets_nothing_is_required() -> None:
    found: Any = load({}).settings
    assert found.github.scale_sets == {} == rules_of(found)
