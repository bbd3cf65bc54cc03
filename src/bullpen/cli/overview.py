"""The commands by subject, with one line each: what `bullpen --help` prints and how commands are found.

Kept apart and free of imports: printing it may cost little more than starting Python, and click costs thrice that.
"""

COMMANDS = {
    "Everyday": {
        "provision": "Get N verified runners for a run, all or nothing",
        "release": "Give a run's runners back: cleaned, attested, on offer again",
        "run": "Get runners, run jobs on them, stream their output, give them back",
        "job": "Submit, list, show, follow and cancel the jobs of a run",
    },
    "Ask": {
        "status": "Show every instance and what each pool has on offer",
        "workers": "List the workers: their leases, builds, hosts and capabilities",
        "why": "Tell the story of an instance, provision, job, worker or run",
    },
    "Operate": {
        "refresh": "Bring what is to what should be; reap, reconcile, keep warm",
        "serve": "Serve the pool over HTTP, with the loops that keep it",
        "token": "Make a token for operators of `serve`",
        "down": "End every instance of the pool",
    },
    "Set up": {
        "doctor": "Check this machine, with what to do where something is amiss",
        "config": "Show the settings and where each one comes from",
        "iam-policy": "Print the IAM policies that a pool on AWS needs",
    },
    "Prove": {
        "demo": "Tell the whole story with real processes, in under a minute",
    },
}

TOP = """\
Usage: bullpen [OPTIONS] COMMAND ...

Keeps CI runners warm: a run asks for N runners and gets N verified ones, reused
where one fits and created where none does, all or nothing.
"""

OPTIONS = """\
Options, before or after the command:
  --home DIR         Where the pool's state lives [BULLPEN_HOME; .bullpen]
  --config FILE      Settings [BULLPEN_CONFIG; ./bullpen.toml if there is one]
  --set NAME=VALUE   Override one setting, such as timings.idle=600; repeatable
  --version          Print the version
  -h, --help         Print this; after a command, its options and examples

Try:
  bullpen provision --run-id 4711 --count 3
  bullpen status
  bullpen release --run-id 4711
"""


def overview() -> str:
    """The help of the whole program."""
    lines = []
    for subject, commands in COMMANDS.items():
        lines.append(f"{subject}:")
        lines += [f"  {name:<10} {summary}" for name, summary in commands.items()]
    return "\n".join([TOP, *lines, "", OPTIONS])
