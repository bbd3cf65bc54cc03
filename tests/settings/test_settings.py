"""The settings: one order of precedence, an origin for each value, and every error is reported."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.config import Agent, Limits, Local, ResourceClass, Settings, Timings, Trust
from bullpen.errors import ConfigError
from bullpen.settings import Loaded, load
from bullpen.settings.setting import Setting, known_settings
from bullpen.settings.validation import contradictions


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(text: str = "", environ: Mapping[str, str] | None = None, *assignments: str) -> Loaded:
    if text:
        Path("bullpen.toml").write_text(text)
    return load(environ or {}, assignments=assignments)


def refused(text: str = "", environ: Mapping[str, str] | None = None, *assignments: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(text, environ, *assignments)
    return caught.value


def test_without_any_source_every_value_is_the_default() -> None:
    found = loaded()
    assert found.settings == Settings()
    assert {value.origin for value in found.values.values()} == {"default"}


def test_the_file_wins_over_the_default() -> None:
    found = loaded("[timings]\nidle = 60")
    assert found.settings.timings.idle == 60
    assert found.values["timings.idle"] == (60.0, "bullpen.toml")


def test_the_environment_wins_over_the_file() -> None:
    found = loaded("[timings]\nidle = 60", {"BULLPEN_TIMINGS_IDLE": "70"})
    assert found.values["timings.idle"] == (70.0, "BULLPEN_TIMINGS_IDLE")


def test_the_command_line_wins_over_the_environment() -> None:
    found = loaded("[timings]\nidle = 60", {"BULLPEN_TIMINGS_IDLE": "70"}, "timings.idle=80")
    assert found.values["timings.idle"] == (80.0, "--set")


def test_the_variable_of_every_setting_follows_from_its_name() -> None:
    known = known_settings(["small"])
    assert known["timings.heartbeat"].variable == "BULLPEN_TIMINGS_HEARTBEAT"
    assert known["classes.small.idle-target"].variable == "BULLPEN_CLASSES_SMALL_IDLE_TARGET"
    assert len({setting.variable for setting in known.values()}) == len(known)


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("BULLPEN_CLASSES_SMALL_IDLE_TARGET", "3", "classes.small.idle-target", 3),
        ("BULLPEN_AGENT_KEEP", ".cache/*, .m2", "agent.keep", (".cache/*", ".m2")),
        ("BULLPEN_AGENT_PRE_RUNNER_SCRIPT", "exit 3", "agent.pre-runner-script", "exit 3"),
        ("BULLPEN_TRUST_INHERITS", '{ main = ["release"] }', "trust.inherits", {"main": ("release",)}),
    ],
)
def test_a_variable_is_read_as_its_setting_needs_it(variable: str, text: str, name: str, value: Any) -> None:
    assert loaded("", {variable: text}).values[name] == (value, variable)


def test_an_empty_variable_counts_as_not_set() -> None:
    assert loaded("", {"BULLPEN_TIMINGS_IDLE": ""}).values["timings.idle"].origin == "default"


@pytest.mark.parametrize("name", ["BULLPEN_HOME", "BULLPEN_CONFIG", "BULLPEN_DEBUG", "BULLPEN_INSTANCE"])
def test_variables_that_name_a_place_or_an_instance_are_not_settings(name: str) -> None:
    Path("there").write_text("")
    assert loaded("", {name: "there"}).settings == Settings()


def test_a_class_of_the_file_adds_to_the_built_in_ones() -> None:
    found = loaded("[classes.gpu]\ncpu = 8\nmem = 65536").settings
    assert found.classes["gpu"] == ResourceClass(cpu=8, mem=65536)
    assert "small" in found.classes


def test_a_built_in_class_keeps_the_values_that_the_file_does_not_set() -> None:
    assert loaded("[classes.small]\nidle-target = 2").settings.classes["small"] == ResourceClass(1, 1024, 2)


def test_a_named_file_is_read_instead_of_the_one_in_the_folder() -> None:
    Path("other.toml").write_text("[timings]\nidle = 90")
    Path("bullpen.toml").write_text("[timings]\nidle = 60")
    assert load({}, config="other.toml").settings.timings.idle == 90
    assert load({"BULLPEN_CONFIG": "other.toml"}).settings.timings.idle == 90


MISTAKES = {
    "a misspelt setting": ("[timings]\nleese = 8", "timings.leese = 8", "timings.lease"),
    "a misspelt table": ("[timing]\nlease = 8", "timing", "timings"),
    "a setting outside its table": ("heartbeat = 3", "heartbeat = 3", "timings.heartbeat"),
    "snake case": ("[classes.small]\nidle_target = 2", "idle_target = 2", "classes.small.idle-target"),
    "a value where a table belongs": ("timings = 3", "timings = 3", "[timings]"),
    "a text for a number": ("[timings]\nlease = 'long'", "timings.lease = 'long'", "604800"),
    "a negative time": ("[timings]\nlease = -1", "timings.lease = -1", "more than 0"),
    "no number": ("[timings]\nlease = nan", "timings.lease = nan", "more than 0"),
    "infinity": ("[timings]\nlease = inf", "timings.lease = inf", "604800"),
    "a truth for a number": ("[pickup]\nmisses = true", "pickup.misses = True", "from 1 to 1000"),
    "a fraction for a count": ("[limits]\nmax-instances = 1.5", "max-instances = 1.5", "whole number"),
    "a huge count": ("[limits]\nmax-instances = 99999999999999999999", "9999999", "100000"),
    "a class without memory": ("[classes.gpu]\ncpu = 2", "classes.gpu.mem", "MiB"),
    "a class with a bad name": ('[classes."a b"]\ncpu = 2', "'a b'", "letters"),
    "classes that are none": ("classes = 3", "classes = 3", "[classes]"),
    "a class that is none": ("[classes]\nsmall = 3", "classes.small = 3", "[classes.small]"),
    "a list of numbers for texts": ("[agent]\nkeep = [1]", "agent.keep = [1]", "a list of texts"),
}


@pytest.mark.parametrize(("text", "found", "allowed"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_in_the_file_names_the_place_the_value_and_what_is_right(text: str, found: str, allowed: str) -> None:
    error = refused(text)
    assert str(error).startswith("bullpen.toml: ")
    assert found in str(error)
    assert allowed in f"{error} {error.remedy}"


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("BULLPEN_TIMINGS_HARTBEAT", "2", "Did you mean BULLPEN_TIMINGS_HEARTBEAT?"),
        ("BULLPEN_TIMINGS_HEARTBEAT", "quick", "must be a number of seconds, more than 0"),
        ("BULLPEN_TIMINGS_HEARTBEAT", "1\nx = 2", "must be a number of seconds, more than 0"),
        ("BULLPEN_LIMITS_MAX_COUNT", "-3", "a whole number from 1"),
        ("BULLPEN_CLASSES_GPU_CPU", "2", "no such setting"),
    ],
)
def test_a_mistake_in_a_variable_names_the_variable(variable: str, text: str, expected: str) -> None:
    error = refused("", {variable: text})
    assert str(error).startswith(variable)
    assert expected in f"{error} {error.remedy}"


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("timings.idel=60", "Did you mean timings.idle?"),
        ("timings.idle", "NAME=VALUE"),
        ("timings.idle=x", "seconds"),
        ("sync.max-size=1000000", "32768"),
    ],
)
def test_a_mistake_on_the_command_line_names_the_option(assignment: str, expected: str) -> None:
    error = refused("", {}, assignment)
    assert str(error).startswith("--set")
    assert expected in f"{error} {error.remedy}"


def test_a_variable_that_two_classes_share_is_refused() -> None:
    text = "[classes.a-b]\ncpu = 1\nmem = 1\n[classes.a_b]\ncpu = 1\nmem = 1"
    assert "classes.a-b.cpu and classes.a_b.cpu" in str(refused(text, {"BULLPEN_CLASSES_A_B_CPU": "2"}))


def test_broken_toml_names_the_line() -> None:
    assert "line 2" in str(refused("[timings]\nlease = 16 s"))


def test_a_file_that_is_not_utf_8_names_the_line() -> None:
    Path("bullpen.toml").write_bytes(b"[timings]\n# caf\xe9\n")
    assert "line 2 is not UTF-8" in str(refused())


def test_a_named_file_that_is_missing_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read"):
        load({}, config="nowhere.toml")


def test_a_directory_instead_of_the_file_is_an_error() -> None:
    Path("bullpen.toml").mkdir()
    assert "cannot be read" in str(refused())


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(ConfigError, match="/dev/zero: is larger than"):
        load({}, config="/dev/zero")


def test_a_long_value_is_not_repeated_in_full() -> None:
    assert len(str(refused(f"[timings]\nlease = '{'x' * 10_000}'"))) < 300


@pytest.mark.parametrize("name", ["BULLPEN_GITHUB_PASSWORD", "BULLPEN_WHATEVER", "BULLPEN_TIMINGS_LEASE_"])
def test_the_value_of_an_unknown_variable_is_never_shown(name: str) -> None:
    error = refused("", {name: "ghp_hidden"})
    assert name in str(error)
    assert "ghp_hidden" not in f"{error} {error.remedy}"


@pytest.mark.parametrize(
    "text",
    [
        "github-token = 'ghp_hidden'",
        "[timings]\napi-key = 'ghp_hidden'",
        "[github]\nwhatever = 'ghp_hidden'",
        "[gitlab]\nwhatever = 'ghp_hidden'",
        "[[gitlab]]\nwhatever = 'ghp_hidden'",
    ],
)
def test_a_possible_secret_in_the_file_is_never_shown(text: str) -> None:
    error = refused(text)
    assert "no such setting" in str(error)
    assert "ghp_hidden" not in f"{error} {error.remedy}"


@pytest.mark.parametrize("text", ["[[github]]\nwhatever = 'ghp_hidden'", "github = 'ghp_hidden'"])
def test_a_value_instead_of_a_table_with_secrets_is_not_shown(text: str) -> None:
    assert str(refused(text)) == "bullpen.toml: github = (not shown): must be a table"


@pytest.mark.parametrize("assignment", ["gitlab.token=ghp_hidden", "github.tokn=ghp_hidden", "github.token:ghp_hidden"])
def test_a_possible_secret_on_the_command_line_is_never_shown(assignment: str) -> None:
    error = refused("", {}, assignment)
    assert "ghp_hidden" not in f"{error} {error.remedy}"


def test_the_value_of_a_known_setting_is_shown_unless_its_name_suggests_a_secret() -> None:
    for name, is_shown in {"timings.lease": True, "github.secret": False, "github.Password": False}.items():
        with pytest.raises(ConfigError) as caught:
            Setting(name, int, 0).checked("ghp_hidden", "bullpen.toml")
        assert ("ghp_hidden" in str(caught.value)) is is_shown


def test_the_defaults_do_not_contradict_each_other() -> None:
    assert list(contradictions(Settings())) == []


CONTRADICTIONS = [
    (Settings(local=Local(work_dir="work")), "local.work-dir ('work')", "absolute path"),
    (Settings(timings=Timings(lease=10)), "timings.lease", "timings.heartbeat"),
    (Settings(timings=Timings(alive=9)), "timings.alive", "timings.heartbeat"),
    (Settings(timings=Timings(hedge=10)), "timings.hedge", "timings.registration"),
    (Settings(timings=Timings(registration=180)), "timings.registration", "timings.validation"),
    (Settings(timings=Timings(validation=601)), "timings.validation", "timings.provision"),
    (Settings(timings=Timings(settle=61)), "timings.settle", "timings.claim-grace"),
    (Settings(timings=Timings(tick_first=1)), "timings.tick-first", "timings.tick-longest"),
    (Settings(timings=Timings(tick_longest=10)), "timings.tick-longest", "timings.registration"),
    (
        Settings(agent=Agent(pre_runner_script="true", pre_runner_timeout=180)),
        "agent.pre-runner-timeout",
        "timings.validation",
    ),
    (
        Settings(classes={"a": ResourceClass(1, 1, idle_target=3, max_instances=2)}),
        "classes.a.idle-target",
        "classes.a.max-instances",
    ),
    (
        Settings(classes={"a": ResourceClass(1, 1, max_instances=101)}),
        "classes.a.max-instances",
        "limits.max-instances",
    ),
    (
        Settings(classes={"a": ResourceClass(1, 1, 3), "b": ResourceClass(1, 1, 3)}, limits=Limits(max_instances=5)),
        "idle-target (6)",
        "limits.max-instances (5)",
    ),
    (Settings(trust=Trust({"main": ("main",)})), "trust.inherits", "'main'"),
    (Settings(trust=Trust({"main": ("",)})), "trust.inherits", "''"),
    (
        Settings(agent=Agent(capabilities=("gpu", "big disk"))),
        "agent.capabilities has 'big disk'",
        "1 to 63 printable characters without spaces",
    ),
    (Settings(agent=Agent(capabilities=("",))), "agent.capabilities has ''", "1 to 63 printable characters"),
    (Settings(agent=Agent(capabilities=("x" * 64,))), "agent.capabilities has 'xxx", "1 to 63 printable characters"),
    (Settings(agent=Agent(capabilities=("gpu",) * 65)), "agent.capabilities has 65 words", "at most 64"),
    *(
        (Settings(agent=Agent(keep=(pattern,))), f"agent.keep has {pattern!r}", "no '.', '..', '**' or empty name")
        for pattern in ("/etc", "a/../../b", "", ".", ".cache/**", ".cache/pip/", ".cache//pip", "./.cache")
    ),
]


@pytest.mark.parametrize(
    ("settings", "one", "other"), CONTRADICTIONS, ids=lambda value: value if value is str else None
)
def test_a_contradiction_is_named_with_both_settings(settings: Settings, one: str, other: str) -> None:
    (found,) = contradictions(settings)
    assert one in found
    assert other in found


@pytest.mark.parametrize(
    "pattern", ["", "/", ".", "**", "a/", "/a", "a//b", "a/../b", "a/**", ".cache/p?p", "*", "[a/b"]
)
def test_the_settings_allow_exactly_the_keep_patterns_that_an_agent_can_follow(pattern: str) -> None:
    try:
        KeepList.of([f"home/{pattern}"])
    except ValueError:
        is_followed = False
    else:
        is_followed = True
    assert is_followed is not any(contradictions(Settings(agent=Agent(keep=(pattern,)))))


def test_contradictory_settings_are_refused_at_start_with_their_source() -> None:
    error = refused("[timings]\nlease = 8")
    assert str(error) == "bullpen.toml: timings.lease (8) must be more than twice timings.heartbeat (5)"
