"""`bullpen why`: the story of a record, which is its last steps."""

from collections.abc import Sequence

import click

from bullpen.cli.arguments import checked_id
from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import answer_width, arrow, print_json, say
from bullpen.cli.text import DEEPER, columns, wrapped
from bullpen.schema.story import CiJobAnswer, StoryAnswer, StoryLineAnswer, WaitingJobAnswer

EPILOG = """
\b
Examples:
  bullpen why i-0123456789abcdef
  bullpen why j-0123456789abcdef
  bullpen why build-host-7          a worker, by its key
  bullpen why acme/widgets          a repository: which id its bare name means in trust domains
  bullpen why bullpen-medium        a scale set and its session
  bullpen why 4711                  every record of run 4711; the URL of the run's page works too
"""
INDENT = "  "


@click.command("why", epilog=EPILOG)
@click.argument("id")
@answering_options
def command(given: PoolOptions, id: str) -> int:
    """Show the last steps of an instance, provision, job, worker, scale set, repository or run.

    Each step has its time, the new state, the process that made it, and the reason.
    """
    target = given.target()
    id = checked_id(id)
    found = target.query(lambda pool: pool.stories(id))
    if given.as_json:
        print_json(found)
    else:
        say("\n\n".join(story_text(story, answer_width()) for story in found.stories))
    return 0


def story_text(story: StoryAnswer, width: int) -> str:
    head = f"{story.id} is {story.state}" if story.state else f"{story.id} is purged; its last steps remain"
    if story.owes:
        head += f" and owes {story.owes.kind} from {story.owes.due_at}"
    if story.job:
        head += f", and executes {_job_text(story.job)}"
    if story.leaving_at:
        head += f", and its machine will be taken away at {story.leaving_at}"
    waiting = [line for one in story.waiting for line in wrapped(_waiting_text(one), width, DEEPER)]
    return "\n".join([*wrapped(head, width, DEEPER), steps_text(story.story, width), *waiting]).rstrip()


def steps_text(steps: Sequence[StoryLineAnswer], width: int) -> str:
    """The last steps of a record, in lines that fit into `width`, 0 for any."""
    lines = [
        (step.at, step.step.strip("_").replace("_", " "), f"{arrow()} {step.state}", step.by, step.why)
        for step in steps
    ]
    text = columns(lines, indent=INDENT)
    if width and max(map(len, text.splitlines()), default=0) > width:  # then the process stands beside its reason
        text = columns([(*line[:3], ": ".join(filter(None, line[3:]))) for line in lines], indent=INDENT, width=width)
    return text


def _waiting_text(job: WaitingJobAnswer) -> str:
    of = f"job {job.name} of {job.repository}, run {job.run}," if job.run else "a job that no message named"
    return f"{of} has waited since {job.since}: {job.why}"


def _job_text(job: CiJobAnswer) -> str:
    name = f"job {job.name}" if job.name else "a job"
    return f"{name} of {job.repository}, run {job.run}, attempt {job.attempt}"
