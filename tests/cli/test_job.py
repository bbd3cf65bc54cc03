"""`bullpen job`: every subcommand on a home without runners, and what it refuses."""

import pytest

from bullpen.cli.job import standing_of
from bullpen.model.job import FINISHED, Job, Result
from bullpen.schema.job import job_of
from command_line import CommandLine
from terminals import on_a_terminal

SUBMIT = ("job", "submit", "--run-id", "run-1")


def submitted(bullpen: CommandLine, *options: str) -> str:
    if not bullpen.left_behind:
        bullpen.make_pool("run-1")
    ran = bullpen(*SUBMIT, "--json", *options, "--", "make", "test")
    assert ran.code == 0, ran
    return str(ran.answer["id"])


def test_a_submitted_job_answers_with_every_promised_field(bullpen: CommandLine) -> None:
    bullpen.make_pool("run-1")
    options = ("--name", "unit", "--timeout", "90", "--capability", "gpu", "--side-effects")
    answer = bullpen(*SUBMIT, *options, "--json", "--", "make", "test", "--json").answer
    assert answer.pop("id").startswith("j-")
    assert answer.pop("queuedAt").endswith("Z")
    assert answer == {
        "runId": "run-1",
        "name": "unit",
        "index": 0,
        "command": ["make", "test", "--json"],
        "state": "queued",
        "result": "",
        "exitCode": None,
        "reason": "",
        "timeoutSeconds": 90.0,
        "capability": "gpu",
        "sideEffects": True,
        "source": "",
        "artifacts": [],
        "cancelling": False,
        "losses": 0,
        "fence": 0,
        "worker": "",
        "epoch": 0,
        "instanceId": "",
        "finishedAt": None,
        "waitedSeconds": None,
        "ranSeconds": None,
        "story": [],
    }


def test_options_behind_the_command_belong_to_the_command(bullpen: CommandLine) -> None:
    bullpen.make_pool("run-1")
    ran = bullpen(*SUBMIT, "--json", "ls", "--name", "x", "--home", "y")
    assert ran.answer["command"] == ["ls", "--name", "x", "--home", "y"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*SUBMIT,), "COMMAND: must be"),
        ((*SUBMIT, "--"), "COMMAND: must be"),
        ((*SUBMIT, "--", ""), "command ''"),
        ((*SUBMIT, "--timeout", "0", "--", "x"), "--timeout '0'"),
        ((*SUBMIT, "--timeout", "0.5", "--", "x"), "--timeout 0.5"),
        ((*SUBMIT, "--timeout", "soon", "--", "x"), "--timeout 'soon'"),
        ((*SUBMIT, "--timeout", "nan", "--", "x"), "--timeout 'nan'"),
        ((*SUBMIT, "--timeout", "999999", "--", "x"), "--timeout 999999"),
        ((*SUBMIT, "--capability", "a b", "--", "x"), "--capability 'a b'"),
        ((*SUBMIT, "--name", "x" * 200, "--", "x"), "--name 'xxx"),
        ((*SUBMIT, "--", *["x"] * 300), "command '300 words'"),
        (("job", "submit", "--run-id", "a b", "--", "x"), "--run-id 'a b'"),
        (("job", "list", "--run-id", ""), "--run-id ''"),
        (("job", "submit", "--", "x"), "--run-id"),
        (("job", "resubmit"), "resubmit"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(bullpen: CommandLine, arguments: tuple[str, ...], said: str) -> None:
    ran = bullpen(*arguments)
    assert ran.code == 2
    assert said in ran.err
    assert bullpen.left_behind == []


def test_a_run_s_jobs_are_listed_in_their_order(bullpen: CommandLine) -> None:
    ids = [submitted(bullpen, "--name", name) for name in ("one", "two")]
    listed = bullpen("job", "list", "--run-id", "run-1", "--json").answer
    assert [(job["id"], job["name"]) for job in listed["jobs"]] == list(zip(ids, ("one", "two"), strict=True))
    text = bullpen("job", "list", "--run-id", "run-1").out.splitlines()
    assert [line.split()[:3] for line in text] == [
        ["JOB", "NAME", "STATE"],
        [ids[0], "one", "queued"],
        [ids[1], "two", "queued"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        (80, "JOB NAME STATE RESULT EXIT LOST INSTANCE SUBMITTED"),
        (64, "JOB NAME STATE RESULT EXIT LOST SUBMITTED"),
        (60, "JOB NAME STATE RESULT EXIT SUBMITTED"),
        (50, "JOB NAME STATE RESULT EXIT"),
    ],
)
def test_a_narrow_terminal_does_without_some_columns(bullpen: CommandLine, columns: int, titles: str) -> None:
    submitted(bullpen, "--name", "unit")
    lines = on_a_terminal(("job", "list", "--run-id", "run-1"), bullpen.folder, columns)
    assert " ".join(lines[0].split()) == titles
    assert max(map(len, lines)) <= columns


@pytest.mark.slow
def test_the_steps_of_a_job_fit_the_terminal(bullpen: CommandLine) -> None:
    id = submitted(bullpen)
    bullpen("job", "cancel", id)
    assert max(map(len, on_a_terminal(("job", "show", id), bullpen.folder, 60))) <= 60


def test_a_run_without_jobs_has_an_empty_list(bullpen: CommandLine) -> None:
    bullpen.make_pool()
    assert bullpen("job", "list", "--run-id", "run-1", "--json").answer == {"runId": "run-1", "jobs": [], "next": ""}
    assert bullpen("job", "list", "--run-id", "run-1").out == "run-1: no jobs\n"


def test_a_cancelled_job_shows_its_steps(bullpen: CommandLine) -> None:
    id = submitted(bullpen)
    assert "cancelled" in bullpen("job", "cancel", id).out
    answer = bullpen("job", "show", id, "--json").answer
    assert (answer["state"], answer["result"]) == ("finished", "cancelled")
    assert [line["step"] for line in answer["story"]] == ["submit", "give_up"]
    told = bullpen("job", "show", id).out
    assert told.startswith(f"{id} was cancelled: requested by an operator\n")
    assert "make test" in told
    assert "give up" in told


@pytest.mark.parametrize(
    ("result", "code", "reason", "said"),
    [
        (Result.SUCCEEDED, 0, "", "has succeeded with exit code 0"),
        (Result.FAILED, 3, "exit code 3", "has failed: exit code 3"),
        (Result.FAILED, 127, "make: not found", "has failed with exit code 127: make: not found"),
        (Result.TIMED_OUT, 124, "it ran too long", "has timed out with exit code 124: it ran too long"),
        (Result.FAILED, None, "3 runners were lost", "has failed: 3 runners were lost"),
    ],
)
def test_the_end_of_a_job_is_a_sentence(result: Result, code: int | None, reason: str, said: str) -> None:
    job = Job("j-1", FINISHED, 3, "run-1", ("make",), result=result, exit_code=code, reason=reason)
    assert standing_of(job_of(job)) == said


def test_a_job_that_has_printed_nothing_has_no_lines(bullpen: CommandLine) -> None:
    id = submitted(bullpen)
    assert bullpen("job", "logs", id).out == ""
    assert bullpen("job", "logs", id, "--json").answer["lines"] == []


@pytest.mark.parametrize("subcommand", ["show", "logs", "cancel"])
def test_the_error_for_an_unknown_job_names_it(bullpen: CommandLine, subcommand: str) -> None:
    submitted(bullpen)
    ran = bullpen("job", subcommand, "j-none", "--json")
    assert ran.code == 1
    assert "j-none: no such job" in ran.answer["reason"]


def test_a_job_of_a_run_that_was_never_provisioned_is_refused(bullpen: CommandLine) -> None:
    bullpen.make_pool("run-1")
    ran = bullpen("job", "submit", "--run-id", "run-l", "--json", "--", "make", "test")
    assert ran.code == 1
    assert (ran.answer["cause"], ran.answer["reason"]) == ("not-found", "run run-l: no provision was ever requested")
    assert "bullpen provision --run-id" in ran.answer["remedy"]
    assert bullpen("job", "list", "--run-id", "run-l").out == "run-l: no jobs\n"
