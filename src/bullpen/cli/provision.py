"""`bullpen provision`: N verified runners for a run, or none."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from bullpen.cli.answers import of_outcome, print_json
from bullpen.cli.arguments import checked_request
from bullpen.cli.options import Given, json_option, pool_options
from bullpen.cli.output import complain, say
from bullpen.cli.session import perform
from bullpen.cli.text import columns, plural
from bullpen.provision.outcome import Outcome, Request

F = TypeVar("F", bound=Callable[..., Any])
LISTED = 3  # ids of one reason; --json has them all
EPILOG = """
\b
Examples:
  bullpen provision --run-id 4711 --count 3
  bullpen provision --run-id 4711 --count 10 --resource-class large --usage-class spot
  bullpen provision --run-id 4711 --count 2 --allowed-instance-types "local.* c*" --json
  bullpen provision --run-id https://github.com/acme/widgets/actions/runs/4711 --count 2
  bullpen provision --run-id 4711 --label-by attempt --attempt 2 --count 2
  bullpen provision --run-id 4711 --count 3 --wait 10m

A run may be named by its page at GitHub. The label that its jobs ask for in runs-on is 4711; with --label-by attempt
4711-2, with class 4711-large, with attempt-class 4711-2-large. A second call for the same label tops up to its count.
At a full cap (max-instances) idle runners above their target make room. With --wait it waits for room: first come,
first served, and it holds no runner meanwhile.
Exit code 1: not met, and everything acquired was given back. 75: an engine was away or throttled us; try again.
"""


def runner_options(function: F) -> F:
    """Add what a run may ask of its runners, from --count to --wait."""
    for option in reversed(RUNNERS):
        function = option(function)
    return function


RUNNERS = (
    click.option("--count", required=True, metavar="N", help="How many runners."),
    click.option("--resource-class", default="small", show_default=True, metavar="CLASS", help="Kind of runner."),
    click.option(
        "--usage-class", default="on-demand", show_default=True, metavar="on-demand|spot", help="How it is bought."
    ),
    click.option(
        "--allowed-instance-types", default="*", show_default=True, metavar="PATTERNS", help="Any of these types."
    ),
    click.option("--cpu", default="0", metavar="N", help="At least so many processors."),
    click.option("--mem", default="0", metavar="MIB", help="At least so much memory."),
    click.option("--max-runtime-min", metavar="MINUTES", help="How long the run may last [timings.max-runtime]."),
    click.option(
        "--trust-domain", default="default", show_default=True, metavar="NAME", help="Whose used runners to take."
    ),
    click.option("--allow-partial", is_flag=True, help="Accept fewer runners than asked."),
    click.option(
        "--wait", metavar="TIME", help="Wait for room under a full cap for up to 90s, 10m or 1h [fail at once]."
    ),
)


@click.command("provision", epilog=EPILOG)
@click.option(
    "--run-id",
    required=True,
    metavar="ID",
    help="Whose runners: the run's id, which is its jobs' label; or its page.",
)
@click.option("--repository", default="", metavar="OWNER/NAME", help="Whose run: no other job is let in.")
@click.option(
    "--label-by",
    default="run",
    show_default=True,
    metavar="run|attempt|class|attempt-class",
    help="What the label tells.",
)
@click.option("--attempt", metavar="N", help="The run's attempt, for --label-by attempt.")
@runner_options
@json_option
@pool_options
@click.pass_obj
def command(given: Given, /, allowed_instance_types: str, as_json: bool, **options: str | bool | None) -> int:
    """Get N verified runners for a run, all or nothing.

    Runners are reused from the pool where one fits and created where none does.
    """
    settings = given.load().settings
    request = checked_request(settings, allowed_types=allowed_instance_types, **options)  # type: ignore[arg-type]
    from bullpen.provision import provision

    outcome = perform(
        given.directory,
        settings,
        lambda ports, stop, tell: provision(ports, settings, request, stop=stop, tell=tell),
        stops=True,
        as_json=as_json,
    )
    if as_json:
        print_json(of_outcome(outcome))
    else:
        _tell(request, outcome)
    return outcome.exit_code


def _tell(request: Request, outcome: Outcome) -> None:
    if outcome.succeeded:
        say(
            f"{outcome.run_id}: {len(outcome.members)} of {plural(outcome.requested, 'runner')} ready"
            f" in {outcome.duration:.2f} s ({outcome.selected} selected, {outcome.created} created)"
        )
        rows = [
            (m.instance.id, m.origin.value, m.instance.instance_type, m.instance.usage_class) for m in outcome.members
        ]
        say(columns(rows, indent="  "))
        for member in outcome.kept:
            say(f"  {member.instance.id} kept besides: a job of the run had begun there")
    else:
        complain(f"{request.run_id}: {outcome.reason}", outcome.remedy)
    for (reason, fate), ids in _by_reason(outcome).items():
        listed = ", ".join(ids[:LISTED]) + (f" and {len(ids) - LISTED} more" if len(ids) > LISTED else "")
        print(f"  not kept, {fate}: {listed}" + (f" ({reason})" if reason != outcome.reason else ""), file=sys.stderr)


def _by_reason(outcome: Outcome) -> dict[tuple[str, str], list[str]]:
    """A fleet that is given back has one reason, not fifty."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for one in outcome.discarded:
        grouped.setdefault((one.reason, one.outcome.value), []).append(one.instance_id)
    return grouped
