"""Bad input to `provision` and `release`: refused by name, with what is allowed, before anything is touched."""

from typing import Any

import pytest

from bullpen.cli.arguments import checked_request
from bullpen.config import Engines, Github, Settings
from bullpen.model.ticket import UsageClass
from bullpen.provision.outcome import Request
from command_line import CommandLine

GOOD = {"--run-id": "run-1", "--count": "1"}
MISTAKES = [
    ("--count", "0", "from 1 to 500"),
    ("--count", "-1", "from 1 to 500"),
    ("--count", "501", "limits.max-count"),
    ("--count", "9" * 5000, "limits.max-count"),
    ("--count", "three", "a whole number"),
    ("--count", "1.5", "a whole number"),
    ("--count", "1_0", "a whole number"),
    ("--count", "٣", "a whole number"),
    ("--count", "", "a whole number"),
    ("--run-id", "", "1 to 128"),
    ("--run-id", "x" * 129, "1 to 128"),
    ("--run-id", "a\nb", "printable"),
    ("--run-id", "a\x1b[31mb", "printable"),
    ("--run-id", "a b", "without spaces"),
    ("--run-id", "a\u00a0b", "without spaces"),
    ("--run-id", "\u202eabc", "printable"),
    ("--run-id", "\udcff", "printable"),
    ("--run-id", "set:bullpen-medium", "must not begin with set:, session:, repository:, pause: or rotation:"),
    ("--run-id", "session:bullpen-medium", "must not begin with set:, session:, repository:, pause: or rotation:"),
    ("--resource-class", "smal", "Did you mean small?"),
    ("--resource-class", "", "one of small, medium, large"),
    ("--usage-class", "ondemand", "Did you mean on-demand?"),
    ("--usage-class", "free", "one of on-demand, spot"),
    ("--allowed-instance-types", "", "1 to 400 patterns"),
    ("--allowed-instance-types", " ,", "1 to 400 patterns"),
    ("--allowed-instance-types", "a " * 401, "1 to 400 patterns"),
    ("--allowed-instance-types", "local.[ab]", "letters, digits, dots, dashes and *"),
    ("--allowed-instance-types", "x" * 31, "1 to 30"),
    ("--cpu", "-1", "from 0 to 1024"),
    ("--cpu", "1025", "from 0 to 1024"),
    ("--mem", "-1", "MiB"),
    ("--mem", "4G", "MiB"),
    ("--max-runtime-min", "0", "from 1 to 10080 minutes"),
    ("--max-runtime-min", "10081", "from 1 to 10080 minutes"),
    ("--max-runtime-min", "soon", "from 1 to 10080 minutes"),
    ("--wait", "soon", "such as 90s, 10m or 1h, from 1 second to 6 hours"),
    ("--wait", "0", "from 1 second to 6 hours"),
    ("--wait", "7h", "from 1 second to 6 hours"),
    ("--trust-domain", "", "1 to 200"),
    ("--trust-domain", "a b", "1 to 200"),
    ("--trust-domain", "main\n", "1 to 200"),
]


@pytest.mark.parametrize(("option", "value", "allowed"), MISTAKES)
def test_a_mistake_is_named_with_what_is_allowed_and_changes_nothing(
    bullpen: CommandLine, option: str, value: str, allowed: str
) -> None:
    arguments = [part for pair in ({**GOOD, option: value}).items() for part in pair]
    ran = bullpen("provision", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith(f"bullpen: error: {option} ")
    assert allowed in ran.err
    assert len(ran.err) < 400
    assert "\x1b" not in ran.err
    assert bullpen.left_behind == []


@pytest.mark.parametrize("run_id", ["", "x" * 129, "a\tb", "set:bullpen-medium"])
def test_release_refuses_the_same_run_ids(bullpen: CommandLine, run_id: str) -> None:
    ran = bullpen("release", "--run-id", run_id)
    assert (ran.code, ran.out, bullpen.left_behind) == (2, "", [])
    assert "--run-id" in ran.err


@pytest.mark.parametrize("command", [("why",), ("job", "show"), ("job", "logs"), ("job", "cancel")])
@pytest.mark.parametrize("id", ["", "\udcff", "a\x1b[31mb", "a b", "\u202eabc"])
def test_an_id_that_no_record_can_have_is_refused(bullpen: CommandLine, command: tuple[str, ...], id: str) -> None:
    assert bullpen("refresh").code == 0
    ran = bullpen(*command, id)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("bullpen: error: ID ")
    assert "printable" in ran.err


@pytest.mark.parametrize("missing", ["--run-id", "--count"])
def test_a_missing_option_is_named(bullpen: CommandLine, missing: str) -> None:
    arguments = [part for option, value in GOOD.items() if option != missing for part in (option, value)]
    ran = bullpen("provision", *arguments)
    assert ran.code == 2
    assert missing in ran.err
    assert "bullpen provision --help" in ran.err
    assert bullpen.left_behind == []


def test_a_wrong_setting_stops_a_command_before_it_touches_the_home(bullpen: CommandLine) -> None:
    bullpen.write_settings("[timings]\nleese = 3")
    ran = bullpen("provision", "--run-id", "run-1", "--count", "1")
    assert (ran.code, bullpen.left_behind) == (2, [])
    assert "Did you mean timings.lease?" in ran.err


def request(**changed: str | None) -> Request:
    options: dict[str, str | None] = {
        "run_id": "run-1",
        "count": "2",
        "resource_class": "small",
        "usage_class": "on-demand",
        "allowed_types": "*",
        "cpu": "0",
        "mem": "0",
        "max_runtime_min": None,
        "trust_domain": "default",
    }
    return checked_request(Settings(), allow_partial=False, **{**options, **changed})  # type: ignore[arg-type]


def test_patterns_are_separated_by_spaces_or_commas() -> None:
    assert request(allowed_types="local.* c*,m5.large").needs.allowed_types == ("local.*", "c*", "m5.large")


def test_minutes_of_runtime_become_seconds() -> None:
    assert request(max_runtime_min="2").max_runtime == 120


def test_a_time_to_wait_becomes_seconds_and_the_default_is_not_to_wait() -> None:
    assert (request(wait="10m").wait, request().wait) == (600, 0)


def test_without_a_runtime_the_setting_decides() -> None:
    assert request().max_runtime == Settings().timings.max_runtime


def test_the_options_of_a_request_become_its_requirements() -> None:
    needs = request(usage_class="spot", cpu="2", mem="512", trust_domain="main").needs
    assert (needs.usage_class, needs.cpu, needs.mem, needs.trust_domain) == (UsageClass.SPOT, 2, 512, "main")


@pytest.mark.parametrize("run_id", ["4711", "owner/repo#12", "x" * 128, "läufer-1"])
def test_ordinary_run_ids_are_used_unchanged(run_id: str) -> None:
    assert request(run_id=run_id).run_id == run_id


GITHUB = """
[engines]
ci = "github"
[github]
scope = "acme"
token = "t"
"""
PAGE = "https://github.com/acme/widgets/actions/runs/4711"


def github(**changed: Any) -> Settings:
    return Settings(engines=Engines(ci="github"), github=Github(**{"scope": "acme", "token": "t", **changed}))


def asked(settings: Settings, **options: Any) -> Request:
    given: dict[str, Any] = {"run_id": "4711", "count": "1", "resource_class": "large", "usage_class": "on-demand"}
    given |= {"allowed_types": "*", "cpu": "0", "mem": "0", "max_runtime_min": None, "trust_domain": "default"}
    return checked_request(settings, **{**given, "allow_partial": False, **options})


@pytest.mark.parametrize(
    ("options", "label"),
    [
        ({}, "4711"),
        ({"run_id": PAGE}, "4711"),
        ({"run_id": f"{PAGE}/attempts/3"}, "4711"),
        ({"run_id": f"{PAGE}/job/99?pr=1"}, "4711"),
        ({"run_id": "4711-2-large"}, "4711-2-large"),
        ({"label_by": "attempt", "attempt": "2"}, "4711-2"),
        ({"label_by": "attempt", "run_id": f"{PAGE}/attempts/3"}, "4711-3"),
        ({"label_by": "attempt", "run_id": f"{PAGE}/attempts/3/job/99", "attempt": "3"}, "4711-3"),
        ({"label_by": "class"}, "4711-large"),
        ({"label_by": "attempt-class", "attempt": "2"}, "4711-2-large"),
    ],
)
def test_the_label_follows_from_how_the_run_is_named(options: dict[str, str], label: str) -> None:
    assert asked(github(scope="acme/widgets"), **options).run_id == label


@pytest.mark.parametrize(
    ("scope", "options", "repository"),
    [
        ("acme/widgets", {}, "acme/widgets"),
        ("acme", {"run_id": PAGE}, "acme/widgets"),
        ("acme", {"repository": "acme/gadgets"}, "acme/gadgets"),
        ("ACME/Widgets", {"repository": "acme/widgets"}, "acme/widgets"),
        ("acme", {"run_id": PAGE, "repository": "Acme/Widgets"}, "Acme/Widgets"),
    ],
)
def test_the_repository_is_given_or_follows_from_url_or_scope(
    scope: str, options: dict[str, str], repository: str
) -> None:
    assert asked(github(scope=scope), **options).needs.repository == repository


ON_GITHUB = [
    (("--run-id", "nightly"), "--run-id 'nightly': must be the number of a workflow run"),
    (("--run-id", "https://github.com/acme/widgets"), "must be the URL of a workflow run"),
    (("--run-id", "https://github.com/acme/widgets/actions/runs/0"), "must be the URL of a workflow run"),
    (("--run-id", "https://ghe.local/acme/widgets/actions/runs/1"), "must be a run at https://github.com"),
    (("--run-id", "https://github.com/other/one/actions/runs/1"), "--run-id other/one: must be in acme (github.scope)"),
    (("--repository", "widgets"), "--repository 'widgets': must be owner/name"),
    (("--repository", "acme/wid gets"), "must be owner/name"),
    (("--repository", "other/one"), "--repository other/one: must be in acme (github.scope)"),
    (("--run-id", PAGE, "--repository", "acme/gadgets"), "--repository acme/gadgets: the URL names acme/widgets"),
    ((), "--repository: is required, because github.scope is an organisation"),
    (("--label-by", "atempt"), "Did you mean attempt?"),
    (("--label-by", ""), "one of run, attempt, class, attempt-class"),
    (("--label-by", "attempt"), "--attempt: is required with --label-by attempt"),
    (("--label-by", "attempt", "--attempt", "0"), "from 1 to 9999"),
    (("--label-by", "attempt", "--attempt", "two"), "a whole number"),
    (("--attempt", "2"), "--attempt 2: is not part of the label with --label-by run"),
    (("--label-by", "class", "--attempt", "2"), "--attempt 2: is not part of the label with --label-by class"),
    (("--run-id", f"{PAGE}/attempts/3", "--label-by", "attempt", "--attempt", "2"), "the URL names attempt 3"),
    (
        ("--run-id", "4711-2", "--label-by", "attempt", "--attempt", "2"),
        "must be the number of a workflow run with --label-by",
    ),
]


@pytest.mark.parametrize(("options", "told"), ON_GITHUB)
def test_a_mistake_about_the_run_is_named_and_changes_nothing(
    bullpen: CommandLine, options: tuple[str, ...], told: str
) -> None:
    bullpen.write_settings(GITHUB)
    ran = bullpen("provision", "--run-id", "4711", "--count", "1", *options)
    assert ran.code == 2
    assert told in ran.err
    assert bullpen.left_behind == []


@pytest.mark.parametrize("command", [("release", "--run-id"), ("why",)])
def test_release_and_why_take_the_page_of_a_run(bullpen: CommandLine, command: tuple[str, ...]) -> None:
    bullpen.make_pool()
    ran = bullpen(*command, PAGE)
    assert "4711: " in ran.out + ran.err
    assert "github.com" not in ran.out + ran.err


@pytest.mark.parametrize("command", [("run", "--count", "1", "--", "true"), ("job", "submit", "--run-id", "1", "true")])
def test_jobs_of_bullpen_are_refused_if_the_runners_execute_jobs_of_github(
    bullpen: CommandLine, command: tuple[str, ...]
) -> None:
    bullpen.write_settings(GITHUB)
    ran = bullpen(*command)
    assert ran.code == 2
    assert 'engines.ci is "github"' in ran.err
    assert bullpen.left_behind == []


@pytest.mark.parametrize("command", [("provision", "--run-id", "run-1"), ("run",)])
def test_the_class_has_the_option_of_status_as_well(bullpen: CommandLine, command: tuple[str, ...]) -> None:
    ran = bullpen(*command, "--count", "1", "--class", "mediun")
    assert ran.code == 2
    assert "--resource-class 'mediun': must be one of small, medium, large" in ran.err
    assert "Did you mean medium?" in ran.err
