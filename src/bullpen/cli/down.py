"""`bullpen down`: end every instance of the pool."""

import sys
from collections.abc import Sequence

import click

from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import complain, note, print_json, say
from bullpen.cli.text import plural
from bullpen.cli.unix_signals import answer_to
from bullpen.errors import BullpenError, ConfigError, Interrupted

EPILOG = """
\b
Examples:
  bullpen down
  bullpen down --yes                   also while `bullpen serve` runs
  bullpen --home /srv/pool down --json
"""


def _confirm(running: Sequence[str], yes: bool, *, as_json: bool) -> None:
    """Raise ConfigError unless the user wants to go on."""
    if yes:
        return
    found = f"{', '.join(running)}: {'is' if len(running) == 1 else 'are'} running, and will warm the pool again"
    if sys.stdin.isatty() and sys.stderr.isatty() and not as_json:
        if _agreed(f"bullpen: {found}. End every instance now?"):
            return
        raise ConfigError("nothing was ended", remedy="Stop `bullpen serve` first, or answer y.")
    raise ConfigError(found, remedy="Stop it first, or add --yes.", field="--yes")


def _agreed(question: str) -> bool:
    """Ask until the answer is yes or no. Raise Interrupted for Ctrl-C."""
    while True:
        try:
            answer = answer_to(f"{question} [y/N]: ", "Nothing was ended.")
        except Interrupted:
            note("")  # the error gets a line of its own
            raise
        match answer.strip().lower():
            case "y" | "yes":
                return True
            case "n" | "no" | "":
                return False


REMEDIES = {
    "embedded": "Run `bullpen down` again. `bullpen status` shows the process of each remaining instance.",
    "aws": "Run `bullpen down` again. `bullpen status` lists the remaining instances, the EC2 console their state.",
}


@click.command("down", epilog=EPILOG)
@click.option("--yes", is_flag=True, help="Do not ask, although `bullpen serve` runs and will warm the pool again.")
@answering_options
def command(given: PoolOptions, yes: bool) -> int:
    """End every instance of the pool with all its processes. Running jobs are ended too.

    If `bullpen serve` runs on this pool, it launches new idle instances afterwards: then the command asks first.
    Without a terminal it refuses, unless --yes is given.
    """
    settings = given.load().settings
    from bullpen.down import down, serving

    if running := given.query(settings, serving):
        _confirm(running, yes, as_json=given.as_json)
    done = given.perform(settings, lambda ports, stop, tell: down(ports, settings, tell=tell))
    reason = f"{plural(len(done.left), 'instance')} did not end: {', '.join(done.left)}" if done.left else ""
    reason += f" ({'; '.join(done.said)})" if done.said else ""
    remedy = REMEDIES[settings.engines.pool]
    if done.trouble:
        reason = "; ".join(filter(None, (reason, f"runners may still be listed at GitHub: {done.trouble}")))
        remedy = remedy if done.left else done.trouble.remedy
    failure = done.trouble if done.trouble and not done.left else BullpenError(reason)
    if given.as_json:
        from bullpen.schema.base import WorkState
        from bullpen.schema.upkeep import DownAnswer

        state = WorkState.FAILED if reason else WorkState.SUCCEEDED
        why = (failure.cause, reason, remedy) if reason else ()
        print_json(DownAnswer(state, done.ended, done.left, done.listed, *why))
    else:
        say("\n".join([f"{plural(len(done.ended), 'instance')} ended", *(f"  {id}" for id in done.ended)]))
        if done.listed:
            say(f"{plural(len(done.listed), 'runner')} still listed at GitHub, until GitHub ends the job on it:")
            say("\n".join(f"  {name}" for name in done.listed))
    if reason:
        complain(reason, remedy)
        return failure.exit_code
    return 0
