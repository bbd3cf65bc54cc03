"""The command line, where people and workflows meet Bullpen."""

import sys

from bullpen import __version__


def main() -> int:
    """Run the command named by `sys.argv` and return the exit code. Help and version load nothing else."""
    match sys.argv[1:]:
        case [] | ["--help"] | ["-h"] | ["help"]:
            from bullpen.cli.overview import overview

            sys.stdout.write(overview())
            return 0
        case ["--version"]:
            sys.stdout.write(f"bullpen {__version__}\n")
            return 0
    from bullpen.cli.program import run

    return run(sys.argv[1:])
