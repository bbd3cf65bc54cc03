"""The same command lines on a home and on a server of it: the same answers, and what only one of the two can do."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path
from typing import Any

import pytest

from bullpen.auth.tokens import Scope
from bullpen.model.job import FINISHED
from command_line import CommandLine, CommandResult
from made_tokens import make_token
from server.served import PATIENCE, PROGRAM, ServeProcess, a_server, environment

pytestmark = pytest.mark.slow

RUN = ("--run-id", "4711")
STORY: list[tuple[str, ...]] = [
    ("provision", *RUN, "--count", "2"),
    ("provision", *RUN, "--count", "2"),
    ("job", "submit", *RUN, "--name", "unit", "--", "sh", "-c", "echo one; echo two"),
    ("job", "logs", "JOB", "--follow"),
    ("job", "show", "JOB"),
    ("job", "cancel", "JOB"),
    ("job", "list", *RUN),
    ("status",),
    ("status", "--run", "4711", "--state", "running"),
    ("workers", "--state", "active"),
    ("why", "JOB"),
    ("plan", "--run-id", "4712", "--count", "2"),
    ("release", *RUN),
    ("release", *RUN),
    # and what is wrong with it
    ("provision", *RUN, "--count", "1", "--usage-class", "free"),
    ("provision", *RUN, "--count", "1", "--cpu", "many"),
    ("provision", *RUN, "--count", "1", "--mem", "33554432"),
    ("job", "show", "j-0000000000000000"),
    ("job", "logs", "j-0000000000000000"),
    ("job", "submit", "--run-id", "never", "--", "true"),
    ("why", "i-0000000000000000"),
    ("status", "--run", "never"),
    ("status", "--class", "huge"),
    # and what operators order
    ("pause", "--class", "large", "--note", "the image is broken"),
    ("provision", "--run-id", "4712", "--count", "1", "--resource-class", "large"),
    ("status",),
    ("resume", "--class", "large"),
    ("resume", "--class", "large"),
    ("rotate", "--class", "small", "--dry-run"),
    ("drain", "--class", "medium", "--note", "moving", "--dry-run"),
    ("drain", "i-0000000000000000"),
    ("pause", "--class", "huge", "--note", "n"),
    ("pause", "--note", "two\nlines"),
]
APART = {
    "pid",
    "location",
    "limits",
    "durationSeconds",
    "timings",
    "waitedSeconds",
    "ranSeconds",
    "next",
    "workers",
    "controls",
    "by",
    "tickets",
    "round",
    # of the report of a provision
    *("seconds", "stages", "phases", "lanes"),
}
"""Fields that differ: of the pool's machine, its speed and its loops, and the process that took a step."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "served" / "home"


@pytest.fixture
def served(home: Path) -> Iterator[ServeProcess]:
    with a_server(home) as served:
        yield served


def without_ids(text: str) -> str:
    text = re.sub(r"\b(i|p|j|op)-[0-9a-f]{16}(/[0-9a-f]{8})?", r"\1-ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    text = re.sub(r"\d+\.\d+ ?s\b|(in )?\d+[smh]( ago)?\b", "AGE", text)
    text = re.sub(r"[░█]+", "BAR", text)
    text = text.replace(", first job AGE", "")  # chance decides which of two runners gets it
    text = re.sub(rf"(by|large +) *({getuser()}|an operator)\b", r"\1 OPERATOR", text)
    text = re.sub(r"bullpen --(home|server) \S+", "bullpen", text)
    text = re.sub(r"(Pool: |reached in ).*", r"\1PLACE", text)
    text = re.sub(r"(→ queued +)(job|operator open)", r"\1ACTOR", text)
    return re.sub(r" +", " ", re.sub(r"–|\b\d{3,}\b(?=$| )", "PID", text, flags=re.M))


def essence(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: essence(value) for name, value in found.items() if name not in APART}
    if isinstance(found, list):
        return [essence(one) for one in found]
    return without_ids(found) if isinstance(found, str) else found


def told(bullpen: CommandLine, *where: str) -> list[tuple[str, int, Any, str]]:
    """Code, answer and errors of every line, as text and as JSON."""
    found: list[tuple[str, int, Any, str]] = []
    for as_json in (False, True):
        job = ""
        for line in STORY:
            words = [job if word == "JOB" else word for word in line]
            split = words.index("--") if "--" in words else len(words)
            given = [*words[:split], *(["--json"] if as_json else []), *words[split:]]
            ran = bullpen(*where, *given)
            if line[:2] == ("job", "submit") and not ran.code:
                job = re.findall(r"j-[0-9a-f]{16}", ran.out)[0]
            shown = essence(json.loads(ran.out)) if as_json else without_ids(ran.out)
            errors = [text for text in ran.err.splitlines() if re.match(r"bullpen: error|  →", text)]
            found.append((" ".join(line), ran.code, shown, without_ids("\n".join(errors))))
    return found


def test_the_same_lines_have_the_same_answers_on_a_home_and_on_a_server(
    bullpen: CommandLine, tmp_path: Path, served: ServeProcess
) -> None:
    local = told(bullpen, "--home", str(tmp_path / "local"))
    remote = told(bullpen, "--server", served.url)
    for ours, theirs in zip(local, remote, strict=True):
        assert theirs[:2] + theirs[3:] == ours[:2] + ours[3:]
        assert theirs[2] == ours[2]
    wrong, ordered = [2, 2, 1, 1, 1, 1, 1, 1, 2], [0, 1, 0, 0, 0, 0, 0, 1, 2, 2]
    assert [code for _, code, _, _ in local[: len(STORY)]] == [0] * 14 + wrong + ordered
    assert str(FINISHED) in json.dumps(local[-len(STORY) + 4][2])


def refused(ran: CommandResult, code: int = 2) -> str:
    assert ran.code == code, ran
    assert "Traceback" not in ran.err
    assert re.search(r"^  → \S", ran.err, re.M), ran.err
    return ran.err


@pytest.mark.parametrize(
    "line",
    [
        ("serve",),
        ("refresh",),
        ("down",),
        ("doctor",),
        ("config", "show"),
        ("demo",),
        ("token", "list"),
        ("token", "create", "--scope", "read"),
        ("iam-policy", "instance"),
    ],
)
def test_a_command_that_works_on_the_store_is_refused_by_name(bullpen: CommandLine, line: tuple[str, ...]) -> None:
    error = refused(bullpen("--server", "http://127.0.0.1:1", *line))
    path = " ".join(line[:2] if line[0] in ("token", "config") else line[:1])
    assert f"--server: `bullpen {path}` works on a home, not through a server" in error
    assert bullpen.left_behind == []


@pytest.mark.parametrize(
    ("option", "value"), [("--home", "here"), ("--config", "my.toml"), ("--set", "timings.idle=600")]
)
def test_what_concerns_a_home_is_not_combined_with_a_server(bullpen: CommandLine, option: str, value: str) -> None:
    line = ("--server", "http://127.0.0.1:1", option, value, "status")
    assert f"{option}: cannot be combined with a server" in refused(bullpen(*line))


def test_a_home_on_the_command_line_wins_over_the_variable_of_the_server(
    bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULLPEN_SERVER", "http://127.0.0.1:1")
    assert "there is no pool in" in bullpen("--home", "here", "status").err
    assert "does not answer" in refused(bullpen("status"), 75)


def test_a_server_of_the_environment_and_an_option_after_the_command_are_used(
    bullpen: CommandLine, served: ServeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bullpen("status", "--json", "--server", served.url).answer["location"] == served.url
    monkeypatch.setenv("BULLPEN_SERVER", served.url)
    assert bullpen("status", "--json").answer["location"] == served.url


def test_the_token_comes_from_the_environment_or_a_file_and_is_never_shown(
    bullpen: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "guarded" / "home"
    home.mkdir(parents=True)
    reads, operates = make_token(home, Scope.READ), make_token(home, Scope.OPERATE)
    (tmp_path / "token").write_text(f"{operates}\n")
    with a_server(home) as served:
        server = ("--server", served.url)
        error = refused(bullpen(*server, "status"), 1)
        assert "a token is needed" in error
        assert "BULLPEN_TOKEN" in error
        monkeypatch.setenv("BULLPEN_TOKEN", reads)
        assert bullpen(*server, "status").code == 0
        ran = bullpen(*server, "provision", *RUN, "--count", "1", "--json")
        assert "the token's scope is read: this needs operate" in refused(ran, 1)
        assert ran.answer["cause"] == "permission"
        assert reads not in ran.out + ran.err
        assert bullpen(*server, "--token-file", "token", "provision", *RUN, "--count", "1").code == 0
        assert bullpen(*server, "--token-file", "token", "release", *RUN).code == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "cannot be read (No such file"), ("", "must contain one token"), ("two words", "must contain one token")],
)
def test_a_bad_token_file_is_named(bullpen: CommandLine, content: str | None, says: str) -> None:
    if content is not None:
        (bullpen.folder / "token").write_text(content)
    error = refused(bullpen("--server", "https://bullpen.example.com", "--token-file", "token", "status"))
    assert f"--token-file token: {says}" in error


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ("", "--server '': must be the URL"),
        ("bullpen.example.com", "--server 'bullpen.example.com': must be a URL"),
        ("http://bullpen.example.com", "--server http://bullpen.example.com: would send the token in clear text"),
    ],
)
def test_a_server_that_cannot_be_one_is_refused_before_any_request(
    bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch, server: str, says: str
) -> None:
    monkeypatch.setenv("BULLPEN_TOKEN", "bp_secret")
    ran = bullpen("--server", server, "status", "--json")
    assert says in refused(ran)
    assert ran.answer["field"] == "--server"
    assert "bp_secret" not in ran.out + ran.err


def test_a_token_file_without_a_server_is_refused(bullpen: CommandLine) -> None:
    assert "--token-file: has no meaning without --server" in bullpen("--token-file", "token", "status").err


def test_the_missing_extra_prints_its_command(bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "httpx", None)
    error = refused(bullpen("--server", "http://127.0.0.1:1", "status"))
    assert "bullpen-ci[client]" in error


def test_a_run_on_a_server_follows_its_jobs_tries_again_and_gives_the_runners_back(
    bullpen: CommandLine, served: ServeProcess, tmp_path: Path
) -> None:
    script = f"echo on {{index}}; if mkdir {tmp_path}/tried-{{index}} 2>/dev/null; then exit 3; fi"
    line = ("run", "--no-sync", "--count", "2", "--retries", "1", "--run-id", "r-1")
    ran = bullpen("--server", served.url, *line, "--", "sh", "-c", script)
    assert ran.code == 0, ran
    assert ran.out.count("on 0") == ran.out.count("on 1") == 2
    assert "2 of 2 jobs succeeded" in ran.out
    found = bullpen("--server", served.url, *line[:-1], "r-2", "--json", "--", "sh", "-c", "exit 5")
    assert found.code == 5
    assert [job["exitCode"] for job in found.answer["jobs"]] == [5, 5]
    assert len(found.answer["offered"]) == 2
    assert bullpen("--server", served.url, "status", "--json").answer["runs"] == []


def test_a_run_on_a_server_shows_durations_with_fractions(bullpen: CommandLine, served: ServeProcess) -> None:
    line = (
        "--server",
        served.url,
        "run",
        "--no-sync",
        "--count",
        "1",
        "--run-id",
        "r-5",
        "--json",
        "--",
        "sleep",
        "0.5",
    )
    (job,) = bullpen(*line).answer["jobs"]
    assert job["ranSeconds"] >= 0.5
    assert job["ranSeconds"] != int(job["ranSeconds"])
    assert job["waitedSeconds"] is not None


def test_a_second_try_on_a_server_goes_to_another_runner_that_is_free(
    bullpen: CommandLine, served: ServeProcess
) -> None:
    script = "echo $BULLPEN_INSTANCE; test {index} = 1 || { sleep 2; exit 3; }"
    line = ("--server", served.url, "run", "--no-sync", "--count", "2", "--retries", "1", "--", "sh", "-c", script)
    for _ in range(2):
        ran = bullpen(*line)
        assert ran.code == 3, ran
        first, second = re.findall(r"^job-0 *\| (i-[0-9a-f]+)$", ran.out, re.M)
        assert first != second


def test_a_run_on_a_server_that_fails_fast_cancels_the_others(bullpen: CommandLine, served: ServeProcess) -> None:
    script = "test {index} = 0 && exit 4; sleep 600"
    ran = bullpen("--server", served.url, "run", "--no-sync", "--count", "2", "--fail-fast", "--", "sh", "-c", script)
    assert ran.code == 4, ran
    assert "cancelled because job-0 failed" in ran.out


def test_an_interrupted_run_on_a_server_cancels_its_jobs_and_gives_the_runners_back(served: ServeProcess) -> None:
    line = ["--server", served.url, "run", "--no-sync", "--count", "1", "--run-id", "r-3", "--", "sh", "-c"]
    command = [sys.executable, "-c", PROGRAM, *line, "echo started; sleep 600"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    assert "started" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, out
    assert served.ask("GET", "/v1/runs")[1]["runs"] == []
    assert [one["result"] for one in served.ask("GET", "/v1/jobs?runId=r-3")[1]["jobs"]] == ["cancelled"]


def test_a_run_on_a_server_replaces_a_lost_runner(served: ServeProcess, tmp_path: Path) -> None:
    """The job kills its own machine in its first attempt, and ends in its second."""
    script = f"if mkdir {tmp_path}/killed 2>/dev/null; then kill -9 $PPID; sleep 600; fi; echo survived"
    line = ["--server", served.url, "run", "--no-sync", "--count", "1", "--", "sh", "-c", script]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *line], capture_output=True, text=True, env=environment(), timeout=2 * PATIENCE
    )
    assert ran.returncode == 0, ran
    assert "survived" in ran.stdout
