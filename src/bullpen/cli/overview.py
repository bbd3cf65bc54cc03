"""The commands by subject, with one line each: the text of `bullpen --help`, and the list of loadable commands.

This module imports nothing: printing the help should cost little more than starting Python, and loading click alone
costs three times as much.
"""

LONGEST_LINE = 80
COMMANDS = {
    "Runners and jobs": {
        "provision": "Get N verified runners for a run, all or nothing",
        "plan": "Show what a provision would do now; change nothing",
        "release": "Give the runners of a run back: clean them, then offer them again",
        "run": "Get runners, run jobs on them, stream the output, release them",
        "job": "Submit, list, show and cancel jobs of a run; print their logs",
    },
    "Inspect": {
        "status": "Show runs, instances and the claimable ones of each class",
        "top": "Show pools, runs, instances and waits live, on the whole terminal",
        "workers": "List workers: leases, builds, hosts and capabilities",
        "why": "Say why a run or job waits and where its time went; show its steps",
        "cost": "Show what the machines cost, by repository, class or run",
        "evidence": "Write a zip with the records and logs that explain something",
    },
    "Operate": {
        "refresh": "Bring the pool to its desired state: reap, reconcile, keep warm",
        "pause": "Start nothing new in a class, or in the whole pool, with a note",
        "resume": "End the pause of a class, or of the whole pool",
        "drain": "Take instances or a class out of use: each is ended once it is free",
        "rotate": "Replace every instance of a class, and keep it warm meanwhile",
        "serve": "Serve the pool over HTTP and run its background controllers",
        "token": "Create, list and revoke operator tokens for `bullpen serve`",
        "down": "End every instance of the pool",
    },
    "Set up": {
        "doctor": "Check machine, settings and pool; suggest a remedy for each problem",
        "config": "Show the settings and where each one comes from",
        "iam-policy": "Print the IAM policies that a pool on AWS needs",
        "completion": "Print the completion script for bash, zsh or fish",
    },
    "Try it": {
        "demo": "Demonstrate the pool with real processes, in under a minute",
    },
}

TOP = """\
Usage: bullpen [OPTIONS] COMMAND ...

Keeps CI runners warm. A run asks for N runners and gets N verified ones, or
none. Idle runners are reused where they fit, and the rest is created.
"""

OPTIONS = """\
Options, before or after the command:
  --home DIR         Directory of the pool's state [BULLPEN_HOME; .bullpen]
  --server URL       Work on a `bullpen serve` instead [BULLPEN_SERVER]
  --token-file FILE  Token for the server [BULLPEN_TOKEN]
  --ca-file FILE     Authorities of its certificate [SSL_CERT_FILE; system]
  --config FILE      Settings file [BULLPEN_CONFIG; ./bullpen.toml if it exists]
  --set NAME=VALUE   Override one setting, such as timings.idle=600; repeatable
  --log-level LEVEL  debug, info, warning or error [warning; serve: info]
  --log-format FORM  Log lines as text or json [text]
  -V, --version      Print the version
  -h, --help         Print this help; after a command, its options and examples

Examples:
  bullpen provision --run-id 4711 --count 3
  bullpen status
  bullpen release --run-id 4711
"""


def overview(width: int = 80) -> str:
    """The help of the whole program, at the width of the terminal."""
    lines = []
    for subject, commands in COMMANDS.items():
        lines.append(f"{subject}:")
        lines += [f"  {name:<10} {summary}" for name, summary in commands.items()]
    text = "\n".join([TOP, *lines, "", OPTIONS])
    return text if width >= LONGEST_LINE else _narrowed(text, width)


def terminal_width() -> int:
    """Of the terminal behind stdout, or what COLUMNS says; 80 where there is none."""
    import os

    try:
        return int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(1).columns or 80
    except (OSError, ValueError):
        return 80


def _narrowed(text: str, width: int) -> str:
    """The help with its long lines broken, below the beginning of their second column."""
    import re
    import textwrap

    def narrowed(line: str) -> str:
        name = re.match(r"  (-.*?  +|\S+ +)", line)
        indent = " " * (name.end() if name else 0)
        return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)

    whole = re.sub(r"\n(?=[a-z])", " ", text)  # the paragraph at the top
    return "\n".join(map(narrowed, whole.splitlines())) + "\n"
