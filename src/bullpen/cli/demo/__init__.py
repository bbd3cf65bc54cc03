"""`bullpen demo`: the whole story with real processes, in under a minute."""

import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import click

from bullpen.cli.demo.acts import play
from bullpen.cli.demo.stage import Failed, Stage
from bullpen.cli.output import complain, say
from bullpen.cli.unix_signals import SIGNALS
from bullpen.config import Settings, Timings

TIMINGS = Timings(
    heartbeat=1.0,  # a dead runner is noticed in seconds: its lease, and a moment to confirm
    lease=5.0,
    registration=3.0,  # a frozen runner is found out sooner
    hedge=1.0,
    validation=15.0,
    provision=20.0,
    claim_grace=1.0,
    settle=1.0,
    takeover=0.5,
)


@click.command("demo")
def command() -> int:
    """Tell the whole story with real processes, in under a minute.

    It plays in a directory of its own, checks every line it prints, and leaves nothing behind.
    """
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)  # its home is taken down, whenever it ends
    home = Path(tempfile.mkdtemp(prefix="bullpen-demo-"))
    stage = Stage(home, Settings(timings=TIMINGS))
    try:
        play(stage)
    except Failed as failure:
        complain(f"demo: not true: {failure}", f"Its state was in {home} and has been taken down.")
        return 1
    finally:
        with suppress(Failed):
            stage.run("down")
        shutil.rmtree(home, ignore_errors=True)
    say("\nEverything above was checked as it was told.")
    return 0
