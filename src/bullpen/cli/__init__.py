"""The command line: entry point, and signals before and after the work."""

import os
import sys

from bullpen import __version__

TYPE_CHECKING = False  # importing typing takes longer than printing the help
if TYPE_CHECKING:
    import signal as _signal
    from types import FrameType
else:
    # The C module behind `signal`. It is built into the interpreter, so Ctrl-C cannot arrive while it is being loaded.
    import _signal

INTERRUPTED = "bullpen: error: interrupted\n  -> Nothing is lost. Run the command again.\n"
INTERRUPTED_JSON = (
    '{"state": "failed", "cause": "interrupted", "reason": "interrupted",'
    ' "remedy": "Nothing is lost. Run the command again."}\n'
)


def main() -> int:
    """Run the command named by `sys.argv` and return the exit code. Help and version load nothing else.

    No signal causes a traceback or kills the process halfway. Until the work begins, `leave` handles signals; then the
    command does; at the end they are ignored, because the exit code is decided.
    """
    for number in (_signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, leave)
    code = _run(sys.argv[1:])
    for number in (_signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, _signal.SIG_IGN)
    return code


def leave(number: int, frame: "FrameType | None") -> None:
    """Report the interruption and end this process: there is nothing to give back yet. An exception would have to be
    caught around every import."""
    try:
        os.write(2, INTERRUPTED.encode())
        if "--json" in sys.argv:
            os.write(1, INTERRUPTED_JSON.encode())
    except OSError:
        pass  # the reader is gone
    os._exit(130)


def _run(arguments: list[str]) -> int:
    if "_BULLPEN_COMPLETE" in os.environ:
        from bullpen.cli.program import complete

        return complete(os.environ["_BULLPEN_COMPLETE"])
    match arguments:
        case [] | ["--help"] | ["-h"] | ["help"]:
            from bullpen.cli.overview import overview, terminal_width

            sys.stdout.write(overview(terminal_width()))
            return 0
        case ["--version"] | ["-V"]:
            sys.stdout.write(f"bullpen {__version__}\n")
            return 0
    from bullpen.cli.program import run

    return run(arguments)
