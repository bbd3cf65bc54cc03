"""`bullpen why`: why something waits, where its time went, and the last steps of its records."""

import click

from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import answer_width, print_json, say
from bullpen.cli.runs import checked_subject
from bullpen.cli.why_text import why_text

EPILOG = """
\b
Examples:
  bullpen why 4711                  a run: why it waits, or how long each stage took
  bullpen why i-0123456789abcdef
  bullpen why j-0123456789abcdef
  bullpen why build-host-7          a worker, by its key
  bullpen why bullpen-medium        a scale set, its session and its waiting jobs
  bullpen why acme/widgets          a repository: which id its bare name means in trust domains
  bullpen why https://github.com/acme/widgets/actions/runs/4711/job/99

The URL of the page of a workflow run, or of one of its jobs, works where the pool is on GitHub.

\b
Causes of a wait:
  run-over             its run has ended
  no-match             no run, scale set, label or capability matches it
  cap                  a cap leaves no room, or others came first
  no-capacity          no machine could be launched
  booting              a machine boots or registers
  cleaning             an instance that fits is being cleaned
  trust-domain         idle instances were used by another trust domain
  image-retired        idle instances have an older image
  requirements         idle instances lack what it asks for
  queued-behind        jobs of its run occupy all its runners
  runner-lost          no runner of its run shows a sign of life
  runner-group-closed  the runner group does not admit the repository
  github-limit         GitHub's rate limit is used up
  github-outage        GitHub does not answer
  no-server            no process does the work that it waits for
  paused               an operator paused its class, or the pool
"""


@click.command("why", epilog=EPILOG)
@click.argument("id")
@answering_options
def command(given: PoolOptions, id: str) -> int:
    """Say why a run, job or instance waits, or where its time went.

    While it waits: one cause, what happens next, and the instances that could serve it with the rule that refuses each.
    Afterwards: the seconds of each stage. Below stand the last steps of each record, with time, process and reason.
    """
    target = given.target()
    id = checked_subject(target.settings, id)
    found = target.query(lambda pool: pool.why(id))
    if given.as_json:
        print_json(found)
    else:
        say(why_text(found, answer_width()))
    return 0
