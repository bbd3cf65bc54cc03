"""`bullpen demo`: a demonstration with real processes, in under a minute."""

import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import click

from bullpen.cli.demo.acts import play
from bullpen.cli.demo.stage import CheckFailed, DemoStage
from bullpen.cli.options import PoolOptions
from bullpen.cli.output import complain, say
from bullpen.cli.unix_signals import SIGNALS
from bullpen.config import Settings, Timings

TIMINGS = Timings(
    heartbeat=1.0,  # a dead runner is noticed within seconds
    lease=5.0,
    registration=3.0,  # a frozen runner is replaced sooner
    hedge=1.0,
    validation=15.0,
    provision=20.0,
    claim_grace=1.0,
    settle=1.0,
    takeover=0.5,
)


EPILOG = """
\b
Examples:
  bullpen demo
"""


@click.command("demo", epilog=EPILOG)
def command() -> int:
    """Demonstrate the pool with real processes, in under a minute.

    The demo uses a temporary pool, verifies every line that it prints, and removes the pool at the end.
    """
    given = click.get_current_context().find_object(PoolOptions)
    if given is not None and given.server:
        given.refuse_server()
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)  # the pool is taken down after a signal, too
    home = Path(tempfile.mkdtemp(prefix="bullpen-demo-"))
    stage = DemoStage(home, Settings(timings=TIMINGS))
    try:
        play(stage)
    except CheckFailed as failure:
        complain(f"demo: a check failed: {failure}", f"The pool in {home} has been removed. Please report this.")
        return 1
    finally:
        with suppress(CheckFailed):
            stage.run("down")
        stage.close()
        shutil.rmtree(home, ignore_errors=True)
    say("\nEvery line above was verified as it ran.")
    return 0
