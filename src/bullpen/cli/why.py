"""`bullpen why`: the story of a record, which is its last steps."""

import click

from bullpen.cli.arguments import checked_id
from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import print_json, say
from bullpen.cli.text import columns
from bullpen.inventory import Story, stories
from bullpen.model.instance import Instance
from bullpen.model.provision import Provision
from bullpen.model.ticket import format_time
from bullpen.pool.busy import describe

EPILOG = """
\b
Examples:
  bullpen why i-0123456789abcdef
  bullpen why j-0123456789abcdef
  bullpen why build-host-7          a worker, by its key
  bullpen why 4711                  every record of run 4711; the URL of the run's page works too
"""


@click.command("why", epilog=EPILOG)
@click.argument("id")
@answering_options
def command(given: PoolOptions, id: str) -> int:
    """Show the last steps of an instance, provision, job, worker or run.

    Each step has its time, the new state, the process that made it, and the reason.
    """
    settings = given.load().settings
    id = checked_id(id)
    found = given.query(settings, lambda ports: stories(ports, settings, id))
    if given.as_json:
        from bullpen.schema.story import StoryList, story_of

        print_json(StoryList(id, [story_of(story) for story in found]))
    else:
        say("\n\n".join(_story_text(story) for story in found))
    return 0


def _story_text(story: Story) -> str:
    record = story.record
    head = f"{story.id} is {record.state}" if record else f"{story.id} is purged; its last steps remain"
    if isinstance(record, Instance | Provision) and record.owes:
        head += f" and owes {record.owes.kind} from {format_time(record.owes.due_at)}"
    if story.activity:
        head += f", and executes {describe(story.activity)}"
    if story.leaving:
        head += f", and its machine will be taken away at {format_time(story.leaving)}"
    lines = [
        (format_time(line.at), line.step.strip("_").replace("_", " "), f"→ {line.state}", line.by, line.why)
        for line in story.lines
    ]
    return f"{head}\n{columns(lines, indent='  ')}".rstrip()
