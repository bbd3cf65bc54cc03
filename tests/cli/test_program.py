"""What holds for every command: exit codes, one clear error, one JSON object, and nothing else on stdout."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import bullpen.wiring
from bullpen import __version__
from bullpen.cli import main
from bullpen.cli.output import complain
from bullpen.cli.overview import COMMANDS, overview
from bullpen.config import Settings
from bullpen.errors import BullpenError, ConfigError, Refused, Unavailable
from bullpen.ports import Ports
from command_line import CommandLine


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def embedded(home: Path, settings: Settings) -> AsyncIterator[Ports]:
        raise error
        yield

    monkeypatch.setattr(bullpen.wiring, "embedded", embedded)


PROVISION = ("provision", "--run-id", "run-1", "--count", "1")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("wrong", remedy="Right it."), 2),
        (Unavailable("busy", remedy="Later."), 75),
        (Refused("no", remedy="Ask for less."), 1),
    ],
)
def test_an_error_becomes_its_exit_code_one_line_and_a_remedy(
    bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch, error: BullpenError, code: int
) -> None:
    fail_with(error, monkeypatch)
    ran = bullpen(*PROVISION)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err == f"bullpen: error: {error}\n  → {error.remedy}\n"


def test_with_json_an_error_is_also_one_object(bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(Unavailable("busy", remedy="Later."), monkeypatch)
    ran = bullpen(*PROVISION, "--json")
    assert ran.code == 75
    assert ran.answer == {"state": "failed", "cause": "unavailable", "reason": "busy", "remedy": "Later."}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("provision", "--run-id", "r", "--count", "0"), "--count"),
        (("provision", "--run-id", "a b", "--count", "1"), "--run-id"),
        (("job", "submit", "--run-id", "r", "--timeout", "0.5", "--", "true"), "--timeout"),
        (("job", "submit", "--run-id", "r"), "COMMAND"),
        (("run", "--count", "1", "--jobs", "/nowhere"), "--jobs"),
        (("run", "--count", "1", "--jobs", "x", "--name", "y"), "--jobs"),
        (("token", "create", "--scope", "read", "--expires", "soon"), "--expires"),
        (("iam-policy", "workflow", "--account", "1"), "--account"),
        (("iam-policy", "workflow", "--role", "a b"), "--role"),
        (("iam-policy", "instance", "--launch"), "--launch"),
        (("status", "--home", ""), "--home"),
        (("status", "--config", ""), "--config"),
        (("status", "--set", "timings.idle"), "--set"),
    ],
)
def test_with_json_the_option_that_is_wrong_is_a_field(
    bullpen: CommandLine, arguments: tuple[str, ...], field: str
) -> None:
    command, *options = arguments
    head = [command, options.pop(0)] if command in ("job", "token") else [command]
    ran = bullpen(*head, "--json", *options)
    assert (ran.code, ran.answer["state"], ran.answer["field"]) == (2, "failed", field)
    assert ran.answer["reason"].startswith(field)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("provision", "--run-id", "r"), "--count"),
        (("provision", "--run-id", "r", "--count"), "--count"),
        (("provision", "--cuont", "1"), "--cuont"),
        (("workers", "--limit", "0"), "--limit"),
        (("workers", "--state", "gone"), "--state"),
    ],
)
def test_with_json_an_option_that_is_missing_or_unknown_is_a_field(
    bullpen: CommandLine, arguments: tuple[str, ...], field: str
) -> None:
    command, *options = arguments
    ran = bullpen(command, "--json", *options)
    assert (ran.code, ran.answer["cause"], ran.answer["field"]) == (2, "configuration", field)


@pytest.mark.parametrize(
    "arguments",
    [
        ("provision", "--run-id", "x", "--count", "0", "--json"),
        ("provision", "--json"),
        ("provision", "--bogus", "--json"),
        ("release", "--run-id", "", "--json"),
        ("status", "--home", "", "--json"),
        ("status", "--config", "", "--json"),
        ("config", "show", "--set", "timings.idel=3", "--json"),
        ("nonsense", "--json"),
    ],
)
def test_with_json_a_mistake_is_one_object_too(bullpen: CommandLine, arguments: tuple[str, ...]) -> None:
    ran = bullpen(*arguments)
    assert ran.code == 2
    assert ran.answer["state"] == "failed"
    assert ran.answer["reason"]
    assert bullpen.left_behind == []


def test_an_unexpected_error_is_one_line_without_a_traceback(
    bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(ZeroDivisionError("of a test"), monkeypatch)
    ran = bullpen(*PROVISION)
    assert ran.code == 70
    assert ran.err.startswith("bullpen: error: unexpected ZeroDivisionError: of a test\n")
    assert "Traceback" not in ran.err


def test_bullpen_debug_prints_the_traceback(bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULLPEN_DEBUG", "1")
    fail_with(ZeroDivisionError("of a test"), monkeypatch)
    ran = bullpen(*PROVISION)
    assert ran.code == 70
    assert "Traceback" in ran.err


def test_an_interruption_at_any_time_prints_no_traceback(bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(KeyboardInterrupt(), monkeypatch)
    ran = bullpen(*PROVISION)
    assert ran.code == 130
    assert ran.err.startswith("bullpen: error: interrupted\n")


@pytest.mark.parametrize(("typed", "meant"), [("provsion", "provision"), ("stauts", "status"), ("Release", "release")])
def test_the_error_for_a_misspelt_command_names_the_right_one(bullpen: CommandLine, typed: str, meant: str) -> None:
    ran = bullpen(typed)
    assert ran.code == 2
    assert f"Did you mean `bullpen {meant}`?" in ran.err


@pytest.mark.parametrize(
    ("arguments", "error", "remedy"),
    [
        (["version"], "'version': no such command", "Did you mean `bullpen --version`?"),
        (["stat"], "'stat': no such command", "Did you mean `bullpen status`?"),
        (
            ["provision", "--cuont", "3"],
            "--cuont: no such option",
            "Did you mean --count? Run `bullpen provision --help`",
        ),
        (["job"], "bullpen job: a command is missing", "Name one of cancel, list, logs, show, submit."),
        (["run"], "--count: must be given", "Run `bullpen run --help`"),
        (["run", "--count"], "--count: must have a value", "Run `bullpen run --help`"),
        (["job", "list", "--run-id"], "--run-id: must have a value", "Run `bullpen job list --help`"),
        (["status", "--json=1"], "--json: must have no value", "Run `bullpen status --help`"),
        (["why"], "ID: must be given", "Run `bullpen why --help`"),
        (["token", "create"], "--scope: must be one of read, operate, admin", "Run `bullpen token create --help`"),
        (["token"], "bullpen token: a command is missing", "Name one of create, list, revoke."),
    ],
)
def test_a_usage_error_names_what_was_meant_or_what_is_missing(
    bullpen: CommandLine, arguments: list[str], error: str, remedy: str
) -> None:
    ran = bullpen(*arguments)
    assert ran.code == 2
    assert ran.err.splitlines()[0] == f"bullpen: error: {error}"
    assert ran.err.splitlines()[1].startswith(f"  → {remedy}")
    assert len(ran.err.splitlines()) == 2


def test_the_version_has_a_short_option(bullpen: CommandLine) -> None:
    assert bullpen("-V").out == bullpen("--version").out == f"bullpen {__version__}\n"


def test_the_error_for_an_unknown_option_names_the_help(bullpen: CommandLine) -> None:
    ran = bullpen("status", "--jsn")
    assert ran.code == 2
    assert "--jsn" in ran.err
    assert "`bullpen status --help`" in ran.err


def test_the_home_after_the_command_wins_over_the_one_before(bullpen: CommandLine) -> None:
    ran = bullpen("--home", "before", "why", "i-1", "--home", "after")
    assert f"no pool in {bullpen.folder}/after\n" in ran.err


def test_the_home_on_the_command_line_wins_over_the_variable(
    bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULLPEN_HOME", "variable")
    assert f"no pool in {bullpen.folder}/variable\n" in bullpen("why", "i-1").err
    assert f"no pool in {bullpen.folder}/option\n" in bullpen("--home", "option", "why", "i-1").err


@pytest.mark.parametrize(
    ("words", "meant"),
    [("job submt", "job submit"), ("token creat", "token create"), ("stauts", "status"), ("version", "--version")],
)
def test_a_misspelt_command_of_any_level_gets_one_suggestion(bullpen: CommandLine, words: str, meant: str) -> None:
    ran = bullpen(*words.split())
    assert ran.code == 2
    assert ran.err.endswith(f"no such command\n  → Did you mean `bullpen {meant}`?\n")


NEED_A_POOL = [
    *(("status",), ("workers",), ("why", "i-1"), ("down",), ("release", "--run-id", "r")),
    *(("token", "list"), ("token", "revoke", "x"), ("job", "list", "--run-id", "r"), ("job", "show", "j-1")),
    *(("job", "logs", "j-1"), ("job", "cancel", "j-1"), ("job", "submit", "--run-id", "r", "true")),
]


@pytest.mark.parametrize("command", NEED_A_POOL, ids=" ".join)
def test_a_home_without_a_pool_is_reported_and_stays_as_it_is(bullpen: CommandLine, command: tuple[str, ...]) -> None:
    words = 2 if command[0] in ("job", "token") else 1
    ran = bullpen(*command[:words], "--json", *command[words:])
    assert ran.code == 1
    assert ran.answer["cause"] == "not-found"
    assert ran.answer["reason"] == f"there is no pool in {bullpen.folder}/.bullpen"
    assert "--home" in ran.answer["remedy"]
    assert bullpen.left_behind == []


def test_doctor_examines_a_home_without_a_pool_and_creates_none(bullpen: CommandLine) -> None:
    assert bullpen("doctor", "--json").code == 0
    assert bullpen.left_behind == []


WRITTEN = [name for commands in COMMANDS.values() for name in commands]


@pytest.mark.parametrize("command", WRITTEN)
def test_every_command_has_a_help(bullpen: CommandLine, command: str) -> None:
    ran = bullpen(command, "--help")
    assert ran.code == 0
    assert "Usage: bullpen" in ran.out
    assert ran.err == ""


@pytest.mark.parametrize("command", [name for name in WRITTEN if name not in ("config", "demo")])
def test_the_help_of_every_command_has_examples(bullpen: CommandLine, command: str) -> None:
    assert f"bullpen {command}" in bullpen(command, "--help").out.partition("Examples:")[2].replace(
        " --home /srv/pool", ""
    )


@pytest.mark.usefixtures("bullpen")  # which puts the signal handlers back: `main` ends by ignoring signals
@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_every_command(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bullpen", *arguments])
    assert main() == 0
    assert capsys.readouterr().out == overview()


def test_help_after_an_option_is_the_same_help(bullpen: CommandLine) -> None:
    assert bullpen("--home", "x", "--help").out == overview()


def test_the_help_fits_a_terminal() -> None:
    assert max(map(len, overview().splitlines())) <= 80


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_without_a_stderr_an_error_keeps_its_exit_code_and_stdout_is_clean(more: list[str], tmp_path: Path) -> None:
    program = "import sys; from bullpen.cli import main; sys.exit(main())"
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", program, "nonsense", *more]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 2
    assert (json.loads(ran.stdout)["cause"] == "configuration") if more else ran.stdout == ""


def test_control_characters_of_arguments_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    complain("a\x1b[2Jb\nc\rd", "e\nf")
    assert capsys.readouterr().err == "bullpen: error: a [2Jb c d\n  → e f\n"


@pytest.mark.parametrize(
    ("terminal", "variables", "coloured"),
    [(True, {}, True), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False), (False, {}, False)],
)
def test_colours_only_where_a_person_wants_them(
    bullpen: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    terminal: bool,
    variables: dict[str, str],
    coloured: bool,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    complain("wrong")
    assert ("\x1b[" in capsys.readouterr().err) is coloured


def test_python_runs_the_package_as_the_command(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "bullpen", "run", "--count"], capture_output=True, text=True, cwd=tmp_path
    )
    assert ran.returncode == 2
    assert "bullpen run --help" in ran.stderr
