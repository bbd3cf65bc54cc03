"""`bullpen provision`: N verified runners for a run, or none."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from bullpen.cli.arguments import checked_request
from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import complain, note, note_width, print_json, say
from bullpen.cli.text import columns, plural, wrapped
from bullpen.errors import FailureCause, Interrupted, ProvisionFailed, Unavailable
from bullpen.schema.base import WorkState
from bullpen.schema.provision import ProvisionAnswer

F = TypeVar("F", bound=Callable[..., Any])
LISTED = 3  # ids printed per reason; --json lists them all
EPILOG = """
\b
Examples:
  bullpen provision --run-id 4711 --count 3
  bullpen provision --run-id 4711 --count 4 --resource-class large --usage-class spot
  bullpen provision --run-id 4711 --count 2 --allowed-instance-types "local.* c*" --json
  bullpen provision --run-id https://github.com/acme/widgets/actions/runs/4711 --count 2
  bullpen provision --run-id 4711 --label-by attempt --attempt 2 --count 2
  bullpen provision --run-id 4711 --count 3 --wait 10m

The URL of a workflow run's page works as run id. The command is repeatable: a second call for the same label adds only
the missing runners, up to its count.

\b
Label that the jobs of the run name in runs-on:
  --label-by run              4711
  --label-by attempt          4711-2
  --label-by class            4711-large
  --label-by attempt-class    4711-2-large

If the pool is at its cap (max-instances), idle runners above the idle target are ended to make room. With --wait the
command waits in a queue for room, first come, first served, and holds no runner meanwhile.

\b
Exit codes:
  1     not enough runners; everything acquired was given back
  75    a service was unreachable or throttled the request; try again
"""


count_option = click.option("--count", required=True, metavar="N", help="Number of runners.")


def request_options(function: F) -> F:
    """Add the options of a provision, from --run-id to --wait."""
    return _with((*RUN, *RUNNERS), function)


def runner_options(function: F) -> F:
    """Add the options that describe the wanted runners, from --resource-class to --wait."""
    return _with(RUNNERS, function)


def _with(options: Iterable[Callable[[F], F]], function: F) -> F:
    for option in reversed(tuple(options)):
        function = option(function)
    return function


RUN = (
    click.option(
        "--run-id",
        required=True,
        metavar="ID",
        help="Id of the run, which is also the label of its runners; or the URL of its page.",
    ),
    count_option,
    click.option(
        "--repository",
        default="",
        metavar="OWNER/NAME",
        help="Repository of the run; jobs of other repositories are refused.",
    ),
    click.option(
        "--label-by",
        default="run",
        show_default=True,
        metavar="run|attempt|class|attempt-class",
        help="Parts of the label.",
    ),
    click.option("--attempt", metavar="N", help="Attempt of the run, for --label-by attempt."),
)
RUNNERS = (
    click.option(
        "--resource-class", "--class", default="small", show_default=True, metavar="CLASS", help="Class of the runners."
    ),
    click.option(
        "--usage-class", default="on-demand", show_default=True, metavar="on-demand|spot", help="Purchase option."
    ),
    click.option(
        "--allowed-instance-types", default="*", show_default=True, metavar="PATTERNS", help="Instance types to use."
    ),
    click.option("--cpu", default="0", metavar="N", help="Minimum number of processors."),
    click.option("--mem", default="0", metavar="MIB", help="Minimum memory in MiB."),
    click.option(
        "--max-runtime-min", metavar="MINUTES", help="Longest time that the run may hold them [timings.max-runtime]."
    ),
    click.option(
        "--trust-domain",
        default="default",
        show_default=True,
        metavar="NAME",
        help="Trust domain whose used runners may be reused.",
    ),
    click.option("--allow-partial", is_flag=True, help="Accept fewer runners than requested."),
    click.option(
        "--wait", metavar="TIME", help="If the pool is full, wait this long for room: 90s, 10m or 1h [fail at once]."
    ),
)


@click.command("provision", epilog=EPILOG)
@request_options
@answering_options
def command(given: PoolOptions, /, allowed_instance_types: str, **options: str | bool | None) -> int:
    """Get N verified runners for a run, all or nothing.

    Idle runners of the pool are reused where they fit, and the rest is created.
    """
    target = given.target()
    request = checked_request(target.settings, allowed_types=allowed_instance_types, **options)  # type: ignore[arg-type]
    answer = target.perform(lambda pool, stop, tell: pool.provision(request, stop=stop, tell=tell), stops=True)
    if given.as_json:
        print_json(answer)
    else:
        _tell(answer, target.on_this_pool(answer.remedy))
    return exit_code_of(answer)


def exit_code_of(answer: ProvisionAnswer) -> int:
    if answer.state is WorkState.SUCCEEDED:
        return 0
    codes = {FailureCause.INTERRUPTED: Interrupted.exit_code, FailureCause.UNAVAILABLE: Unavailable.exit_code}
    return codes.get(answer.cause, ProvisionFailed.exit_code)


def _tell(answer: ProvisionAnswer, remedy: str) -> None:
    if answer.state is WorkState.SUCCEEDED:
        say(
            f"{answer.run_id}: {len(answer.instances)} of {plural(answer.requested, 'runner')} ready"
            f" in {answer.duration_seconds:.2f} s ({answer.selected} selected, {answer.created} created)"
        )
        rows = [(one.instance_id, one.origin, one.instance_type, one.usage_class) for one in answer.instances]
        say(columns(rows, indent="  "))
        for member in answer.kept:
            say(f"  {member.instance_id} also kept: a job of the run has started on it")
    else:
        complain(f"{answer.run_id}: {answer.reason}", remedy)
    for (reason, fate), ids in _by_reason(answer).items():
        listed = ", ".join(ids[:LISTED]) + (f" and {len(ids) - LISTED} more" if len(ids) > LISTED else "")
        line = f"  not kept, {fate}: {listed}" + (f" ({reason})" if reason != answer.reason else "")
        note("\n".join(wrapped(line, note_width(), "    ")))


def _by_reason(answer: ProvisionAnswer) -> dict[tuple[str, str], list[str]]:
    """Discarded instances by reason and outcome: a fleet that is given back prints one line, not fifty."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for one in answer.discarded:
        grouped.setdefault((one.reason, one.outcome.value), []).append(one.instance_id)
    return grouped
