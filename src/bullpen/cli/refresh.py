"""`bullpen refresh`: bring the pool to its desired state."""

import click

from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import answer_width, complain, print_json, say
from bullpen.cli.text import columns
from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.settings.redaction import shortened

EPILOG = """
\b
Examples:
  bullpen refresh --dry-run     print the actions and their reasons
  bullpen refresh               take the actions

Safe to run at any time and as often as you like, also beside other commands.
"""


@click.command("refresh", epilog=EPILOG)
@click.option("--dry-run", is_flag=True, help="Print the actions and their reasons; change nothing.")
@click.option(
    "--adopt-set",
    "adopt",
    multiple=True,
    metavar="NAME",
    help="Take over the scale set of this name that exists at GitHub and that another pool or controller created. Make"
    " sure that it is not used any more. A set of this name in another runner group is left alone. Repeatable.",
)
@answering_options
def command(given: PoolOptions, dry_run: bool, adopt: tuple[str, ...]) -> int:
    """Bring the pool to its desired state: reap, reconcile, keep warm.

    Ends instances past their threshold, finishes the work of killed processes, and keeps each class at its idle target.
    """
    settings = given.load().settings
    _require_sets(settings, adopt)
    from bullpen.refresh import Hindered, refresh

    hindered: Hindered | None = None
    try:
        actions = given.perform(
            settings, lambda ports, stop, tell: refresh(ports, settings, dry_run=dry_run, adopt=adopt, tell=tell)
        )
    except Hindered as exc:
        hindered, actions = exc, exc.actions
    if given.as_json:
        from bullpen.schema.upkeep import refresh_of

        print_json(refresh_of(actions, dry_run=dry_run, failure=hindered))
    elif not actions:
        say("nothing to do")
    else:
        say(
            columns(
                [
                    (f"would {one.what}" if dry_run and one.is_done else one.what, one.subject, one.reason)
                    for one in actions
                ],
                width=answer_width(),
            )
        )
    if hindered is not None:
        complain(str(hindered), given.on_this_pool(hindered.remedy))
        return hindered.exit_code
    return 0


def _require_sets(settings: Settings, names: tuple[str, ...]) -> None:
    from bullpen.scale_sets.rules import rules_of

    known = sorted(rules_of(settings)) if names else []
    for name in names:
        if name not in known:
            allowed = (
                f"must be a scale set of the settings: {', '.join(known)}" if known else "no scale set is configured"
            )
            raise ConfigError(
                f"--adopt-set {shortened(name)}: {allowed}",
                remedy="Add it to the settings as [github.scale-sets.NAME].",
                field="--adopt-set",
            )
