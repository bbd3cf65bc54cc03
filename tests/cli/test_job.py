"""`bullpen job`: every subcommand on a home without runners, and what it refuses."""

import pytest

from command_line import CommandLine

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
    assert "make test" in told
    assert "give_up" in told


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
