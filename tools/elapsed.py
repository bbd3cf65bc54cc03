"""Run a command that prints nothing for long, and show what it does and for how long.

    python tools/elapsed.py "installing 70 packages, about a minute" python -m pip install --quiet ...

On a terminal one line counts the seconds; elsewhere a line at the begin and one at the end. The output of the command
is shown if it fails, and its exit code is passed on. Needs only Python, because nothing else is installed yet.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

EVERY = 0.5  # seconds


def run(what: str, command: Sequence[str]) -> int:
    began = time.monotonic()
    in_place = sys.stdout.isatty()
    print(what, end="" if in_place else "\n", flush=True)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        while (code := process.poll()) is None:
            try:
                process.wait(EVERY)
            except subprocess.TimeoutExpired:
                if in_place:
                    print(f"\r{what} ... {time.monotonic() - began:.0f} s", end="", flush=True)
        ended = "done" if code == 0 else f"failed with exit code {code}"
        print(f"{chr(13) if in_place else ''}{what}: {ended} after {time.monotonic() - began:.0f} s", flush=True)
        output.seek(0)
        said = output.read().decode(errors="replace")
    if code != 0 or said.strip():
        print(said.rstrip(), file=sys.stderr)
    return code


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:
        sys.exit(130)
