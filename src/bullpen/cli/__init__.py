"""The command line: entry point, and signals before and after the work."""

import gc
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
    stopping = [_signal.SIGINT, _signal.SIGTERM]
    if _signal.getsignal(_signal.SIGHUP) != _signal.SIG_IGN:  # as it is below `nohup`
        stopping.append(_signal.SIGHUP)
    for number in stopping:
        _signal.signal(number, leave)
    code = _run(sys.argv[1:])
    for number in stopping:
        _signal.signal(number, _signal.SIG_IGN)
    gc.freeze()  # Python collects garbage before it exits, and would look through everything that was imported
    _drop_unwritten_output()
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

            return _print(overview(terminal_width()))
        case ["--version"] | ["-V"]:
            return _print(f"bullpen {__version__}\n")
    from bullpen.cli.program import run

    return run(arguments)


def _print(text: str) -> int:
    try:
        print(text, end="", flush=True)
    except OSError as exc:
        if not isinstance(exc, BrokenPipeError):  # the reader of the pipe has closed it, which is no error
            sys.stderr.write(f"bullpen: error: stdout: cannot be written ({exc.strerror})\n")
        return 1
    return 0


def _drop_unwritten_output() -> None:
    """Python writes what is left of the output at exit. If that fails, it reports it and changes the exit code, though
    the command has done both."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), sys.stdout.fileno())
