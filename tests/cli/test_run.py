"""`bullpen run`: what it asks for, what it prints, and what it refuses before anything is acquired."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

import bullpen.run
from bullpen.config import Settings
from bullpen.jobs import JobRequest
from bullpen.model.job import FINISHED, Job, Result
from bullpen.model.progress import Tell
from bullpen.ports import Ports
from bullpen.provision.outcome import Outcome, Request
from bullpen.release import ReleaseOutcome
from bullpen.run import RunOptions, RunOutcome, Write
from command_line import CommandLine

RUN = ("run", "--run-id", "run-1", "--count", "2")
JOB = Job("j-1", FINISHED, 3, "run-1", ("true",), name="job-0", result=Result.SUCCEEDED, exit_code=0)
DONE = RunOutcome(
    Outcome("run-1", "p-1", 2),
    (JOB, replace(JOB, id="j-2", name="job-1", losses=1)),
    ReleaseOutcome("run-1", ("i-1",), ("i-2",), (), 0.1),
)
FAILED = replace(JOB, result=Result.FAILED, exit_code=7, reason="exit code 7")
Asked = tuple[Request, Sequence[JobRequest], RunOptions]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[RunOutcome], list[Asked]]:
    """Have the run end as told, after one line of one job; returns what was asked of it."""

    def prepare(ran: RunOutcome) -> list[Asked]:
        asked: list[Asked] = []

        async def run(
            ports: Ports,
            settings: Settings,
            request: Request,
            wanted: Sequence[JobRequest],
            *,
            stop: asyncio.Event,
            options: RunOptions,
            tell: Tell,
            write: Write,
            files: object = None,
        ) -> RunOutcome:
            asked.append((request, wanted, options))
            write(JOB, "hello")
            return ran

        monkeypatch.setattr(bullpen.run, "run", run)
        return asked

    return prepare


Answer = Callable[[RunOutcome], list[Asked]]


def write_jobs(line: CommandLine, text: str) -> tuple[str, ...]:
    (line.folder / "jobs").write_text(text)
    return (*RUN, "--jobs", "jobs")


def test_a_command_runs_once_for_each_runner_with_its_index(bullpen: CommandLine, answer: Answer) -> None:
    asked = answer(DONE)
    assert bullpen(*RUN, "--name", "shard", "--timeout", "5", "--", "test", "--shard={index}").code == 0
    ((request, wanted, options),) = asked
    assert options == RunOptions(one_each=True)
    assert (request.run_id, request.count) == ("run-1", 2)
    assert [(job.name, job.command, job.index, job.timeout) for job in wanted] == [
        ("shard-0", ("test", "--shard=0"), 0, 5.0),
        ("shard-1", ("test", "--shard=1"), 1, 5.0),
    ]


def test_a_run_without_an_id_gets_a_random_one(bullpen: CommandLine, answer: Answer) -> None:
    asked = answer(DONE)
    for _ in range(2):
        bullpen("run", "--count", "1", "--", "true")
    (first, *_), (second, *_) = asked
    assert first.run_id.startswith("run-")
    assert first.run_id != second.run_id


def test_jobs_come_from_lines_or_from_a_list(bullpen: CommandLine, answer: Answer) -> None:
    entries: list[dict[str, Any]] = [
        {"command": ["make", "{index}"]},
        {"name": "e2e", "command": ["x"], "timeout": 60, "capability": "gpu", "side-effects": True},
    ]
    asked = answer(DONE)
    bullpen(*write_jobs(bullpen, "\n".join(map(json.dumps, entries)) + "\n\n"))
    bullpen(*write_jobs(bullpen, json.dumps(entries, indent=2)))
    expected = [
        JobRequest("run-1", ("make", "0"), "job-0", 0),
        JobRequest("run-1", ("x",), "e2e", 1, 60.0, "gpu", True),
    ]
    assert [list(wanted) for _, wanted, _ in asked] == [expected, expected]
    assert [options for *_, options in asked] == [RunOptions(one_each=False)] * 2


def test_retries_and_fail_fast_are_passed_on(bullpen: CommandLine, answer: Answer) -> None:
    asked = answer(DONE)
    bullpen(*RUN, "--retries", "2", "--fail-fast", "--", "true")
    ((*_, options),) = asked
    assert options == RunOptions(one_each=True, retries=2, fail_fast=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 jobs"),
        ("[]", "0 jobs"),
        ('{"command": ["x"]}\n{"command": [}', "line 2: not valid JSON"),
        ('{"command": ["x"]}\n\n7', "line 3 '7'"),
        ('[{"command": ["x"]}, "x"]', "entry 2"),
        ('{"comand": ["x"]}', "Did you mean command?"),
        ("{}", "line 1: command '0 words'"),
        ('{"command": "make"}', "line 1: command"),
        ('{"command": [1]}', "a list of words"),
        ('{"command": ["x"], "timeout": "5"}', "line 1: timeout"),
        ('{"command": ["x"], "timeout": true}', "line 1: timeout"),
        ('{"command": ["x"], "timeout": NaN}', "line 1: timeout"),
        ('{"command": ["x"], "timeout": 1' + "0" * 400 + "}", "line 1: timeout"),
        ('{"command": ["x"], "timeout": 0.1}', "line 1: timeout 0.1"),
        ('{"command": ["x"], "side-effects": 1}', "true or false"),
        ('{"command": ["x"], "name": null}', "line 1: name"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_each_mistake_in_the_file_is_named_and_nothing_is_acquired(bullpen: CommandLine, text: str, said: str) -> None:
    ran = bullpen(*write_jobs(bullpen, text))
    assert ran.code == 2, ran
    assert said in ran.err
    assert bullpen.left_behind == ["jobs"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (RUN, "COMMAND"),
        ((*RUN, "--jobs", "missing"), "missing: cannot be read"),
        ((*RUN, "--jobs", "."), "cannot be read"),
        ((*RUN, "--jobs", "missing", "--", "x"), "each job of the file has its own command"),
        (("run", "--count", "0", "--", "x"), "--count 0"),
        ((*RUN, "--run-id", "a b", "--", "x"), "--run-id 'a b'"),
        ((*RUN, "--out", "here", "--", "x"), "--out: no --artifact names the files"),
        ((*RUN, "--artifact", "../x", "--", "x"), "--artifact '../x': must be a path or pattern below"),
        ((*RUN, "--artifact", "/etc/passwd", "--", "x"), "--artifact '/etc/passwd'"),
        ((*RUN, "--artifact", "x", "--out", "", "--", "x"), "--out '': must name a directory"),
        ((*RUN, "--artifact", "x", "--out", "/dev/null/x", "--", "x"), "/dev/null is not a directory"),
        ((*RUN, "--retries", "-1", "--", "x"), "--retries -1: must be a whole number from 0 to 100"),
        ((*RUN, "--retries", "101", "--", "x"), "--retries 101: must be a whole number from 0 to 100"),
        ((*RUN, "--retries", "often", "--", "x"), "--retries 'often'"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_acquired(
    bullpen: CommandLine, arguments: tuple[str, ...], said: str
) -> None:
    ran = bullpen(*arguments)
    assert ran.code == 2, ran
    assert said in ran.err
    assert bullpen.left_behind == []


def test_jobs_from_a_closed_stdin_are_a_mistake_that_is_named(
    bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    ran = bullpen(*RUN, "--jobs", "-")
    assert ran.code == 2, ran
    assert "--jobs -: stdin is closed" in ran.err


def test_output_of_a_job_has_its_name_and_the_summary_counts_losses(bullpen: CommandLine, answer: Answer) -> None:
    answer(DONE)
    first, second, *_ = bullpen(*RUN, "--", "true").out.splitlines()
    assert first == "job-0 | hello"
    assert second == "run-1: 2 of 2 jobs succeeded in 0.0s; 1 runner lost, and its job ran again"


def test_with_json_the_output_goes_to_stderr_and_one_object_to_stdout(bullpen: CommandLine, answer: Answer) -> None:
    answer(DONE)
    ran = bullpen(*RUN, "--json", "--", "true")
    assert "job-0 | hello" in ran.err
    found = ran.answer
    assert [job["id"] for job in found.pop("jobs")] == ["j-1", "j-2"]
    assert found == {
        "runId": "run-1",
        "state": "succeeded",
        "exitCode": 0,
        "interrupted": False,
        "seconds": 0.0,
        "failedFirst": "",
        "offered": ["i-1"],
        "terminated": ["i-2"],
        "pending": [],
        "busy": [],
    }


@pytest.mark.parametrize(
    ("ran", "code", "said"),
    [
        (
            replace(DONE, jobs=(replace(JOB, result=Result.FAILED, exit_code=7, reason="exit code 7"),)),
            7,
            "exit code 7",
        ),
        (replace(DONE, interrupted=True), 130, ""),
        (RunOutcome(Outcome("run-1", "p-1", 2, reason="no room", remedy="Ask for less.")), 1, "no room"),
        (RunOutcome(Outcome("run-1", "p-1", 2, reason="stopped", interrupted=True), interrupted=True), 130, "stopped"),
    ],
)
def test_the_exit_code_is_the_highest_of_all_jobs(
    bullpen: CommandLine, answer: Answer, ran: RunOutcome, code: int, said: str
) -> None:
    answer(ran)
    found = bullpen(*RUN, "--", "true")
    assert found.code == code
    assert said in found.out + found.err


@pytest.mark.parametrize("command", [("run", "--count", "1"), ("job", "submit", "--run-id", "run-1")])
def test_a_misspelt_option_is_refused_and_not_taken_for_the_command(
    bullpen: CommandLine, command: tuple[str, ...]
) -> None:
    ran = bullpen(*command, "--timeuot", "5", "--", "true")
    assert ran.code == 2
    assert "--timeuot: no such option" in ran.err
    assert "--timeout" in ran.err
    assert bullpen.left_behind == []
