"""What `bullpen why` refuses, and how: a clear error that names the argument, and what to do."""

import pytest

from command_line import CommandLine

RUN = "https://github.com/acme/widgets/actions/runs/4711"
JOB = "https://github.com/acme/widgets/actions/runs/4711/job/99"


@pytest.mark.parametrize(
    ("id", "says"),
    [
        ("i-0000000000000000", "no such instance, provision, job, worker, scale set, run, repository, pause"),
        ("a b", "must be printable characters without spaces"),
        ("https://example.com/somewhere", "must be an id, or the URL of a workflow run or of one of its jobs"),
        ("p-0000000000000000", "no such instance, provision, job"),
        ("j-0000000000000000", "no such instance, provision, job"),
        ("i-0000000000000000/0a1b2c3d", "no such instance, provision, job"),
        ("i-" + "0" * 300, "(302 characters): must be at most 256 characters"),
        ("", "must be printable characters without spaces"),
        ("a\x1b[31mb", "must be printable characters without spaces"),
        (JOB, "is a job of GitHub, and this pool runs its own jobs (engines.ci)"),
    ],
)
def test_what_names_nothing_is_a_clear_error_with_a_remedy(bullpen: CommandLine, id: str, says: str) -> None:
    bullpen.make_pool()
    ran = bullpen("why", id)
    assert ran.code in (1, 2)
    assert says in " ".join(ran.err.split())


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (JOB.replace("github.com", "ghe.example.com"), "must be a job at https://github.com (github.url)"),
        (RUN.replace("github.com", "ghe.example.com"), "must be a run at https://github.com (github.url)"),
        (JOB.replace("widgets", "secret"), "must be a job in acme/widgets (github.scope)"),
        (RUN.replace("widgets", "secret"), "must be a run in acme/widgets (github.scope)"),
        (RUN + "/job/none", "must be an id, or the URL of a workflow run or of one of its jobs"),
        (RUN.replace("/4711", ""), "must be an id, or the URL of a workflow run or of one of its jobs"),
    ],
)
def test_a_url_that_the_pool_does_not_serve_names_what_is_allowed(bullpen: CommandLine, url: str, says: str) -> None:
    settings = ("--set", "engines.ci=github", "--set", "github.scope=acme/widgets", "--set", "github.token=t")
    served = ("--set", "agent.serve-url=https://bullpen.example.com")
    ran = bullpen(*settings, *served, "why", url)
    assert ran.code == 2
    assert says in " ".join(ran.err.split())
    assert bullpen.left_behind == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--count", "2"), "--run-id: must be given"),
        (("--run-id", "4711"), "--count: must be given"),
        (("--run-id", "4711", "--count", "0"), "--count 0: must be a whole number from 1 to 500"),
        (("--run-id", "4711", "--count", "1", "--class", "huge"), "--resource-class"),
    ],
)
def test_a_wrong_option_of_plan_is_a_clear_error(bullpen: CommandLine, options: tuple[str, ...], says: str) -> None:
    ran = bullpen("plan", *options)
    assert ran.code == 2
    assert says in " ".join(ran.err.split())
