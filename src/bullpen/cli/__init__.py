"""The command line, where people and workflows meet Bullpen."""

import os
import sys

from bullpen import __version__

TYPE_CHECKING = False  # typing, as much else, takes longer to load than all of the help
if TYPE_CHECKING:
    import signal as _signal
    from types import FrameType
else:
    # What `signal` wraps. It is part of the interpreter, so there is no moment of loading for a Ctrl-C to fall into.
    import _signal

LEFT = "bullpen: error: interrupted\n  → Nothing is lost: run it again.\n"
LEFT_JSON = '{"state": "failed", "reason": "interrupted", "remedy": "Nothing is lost: run it again."}\n'


def main() -> int:
    """Run the command named by `sys.argv` and return the exit code. Help and version load nothing else.

    From here on a signal is no traceback and no sudden death: `leave` answers it until the work begins, then whoever
    does the work, and nobody in the end, for the exit code has been decided.
    """
    for number in (_signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, leave)
    code = _run(sys.argv[1:])
    for number in (_signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, _signal.SIG_IGN)
    return code


def leave(number: int, frame: "FrameType | None") -> None:
    """Say so and end this process, while there is nothing to give back. An exception instead would have to be caught
    around every import."""
    try:
        os.write(2, LEFT.encode())
        if "--json" in sys.argv:
            os.write(1, LEFT_JSON.encode())
    except OSError:
        pass  # nobody is there to read it
    os._exit(130)


def _run(arguments: list[str]) -> int:
    match arguments:
        case [] | ["--help"] | ["-h"] | ["help"]:
            from bullpen.cli.overview import overview

            sys.stdout.write(overview())
            return 0
        case ["--version"]:
            sys.stdout.write(f"bullpen {__version__}\n")
            return 0
    from bullpen.cli.program import run

    return run(arguments)
