"""The help of a command at the width of the terminal, its examples included.

click wraps paragraphs and leaves examples as they stand. Here a long example is broken so that it can still be pasted:
its comment goes to a line of its own, the command is continued with a backslash.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from bullpen.cli.output import say

GAP = 3  # spaces between an example and its comment, at least


class HelpFormatter(click.HelpFormatter):
    def write_text(self, text: str) -> None:
        before = len(self.buffer)
        super().write_text(text)
        written = "".join(self.buffer[before:])
        self.buffer[before:] = [f"{part}\n" for line in written.splitlines() for part in _fitted(line, self.width)]


class HelpContext(click.Context):
    formatter_class = HelpFormatter

    @contextmanager
    def scope(self, cleanup: bool = True) -> Iterator[click.Context]:
        """A mistake that click's parser finds names no command: it is one of this command."""
        with super().scope(cleanup=cleanup) as context:
            try:
                yield context
            except click.UsageError as exc:
                exc.ctx = exc.ctx or context
                raise


def with_own_help(command: click.Command) -> click.Command:
    """The command, whose help and that of its subcommands fits the terminal."""
    command.context_class = HelpContext
    if command.add_help_option:
        command.add_help_option = False
        command.params.append(printing_option(["-h", "--help"], click.Context.get_help, "Show this message and exit."))
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            with_own_help(subcommand)
    return command


def printing_option(names: Sequence[str], text: Callable[[click.Context], str], shown: str) -> click.Option:
    """An option that prints a text and ends the command. Those of click do not use `say`, and a reader that goes away
    looks like a fault of the program."""

    def show(context: click.Context, option: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            say(text(context))
            context.exit()

    return click.Option(names, is_flag=True, is_eager=True, expose_value=False, callback=show, help=shown)


def _fitted(line: str, width: int) -> Iterator[str]:
    if len(line) <= width:
        yield line
        return
    indent = line[: len(line) - len(line.lstrip())]
    found = re.search(rf" {{{GAP},}}", line.strip())
    text, comment = (line.strip()[: found.start()], line.strip()[found.end() :]) if found else (line.strip(), "")
    if re.match(r"(bullpen|source|echo) ", text):
        if comment:
            yield from _wrapped(comment, width, f"{indent}# ", f"{indent}# ")
        yield from _continued(text, width, indent)
    else:  # a table of two columns, or text
        column = " " * (len(line) - len(comment)) if comment else indent
        yield from _wrapped(comment or text, width, column, column, line[: len(column)])


def _continued(example: str, width: int, indent: str) -> Iterator[str]:
    """A command, broken before its options where it is too long, and before the command that it runs as a job."""
    own, dashes, job = example.partition(" -- ")
    whole = re.sub(r" (?![-|>])", "\0", own)  # only the other spaces may break
    if dashes:
        whole += " --\0" + job.replace(" ", "\0")
    parts = _wrapped(whole, width - len(" \\"), indent, f"{indent}    ")
    yield from (part.replace("\0", " ") + (" \\" if at < len(parts) - 1 else "") for at, part in enumerate(parts))


def _wrapped(text: str, width: int, first: str, later: str, head: str = "") -> list[str]:
    lines = textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )
    return [head + lines[0][len(head) :], *lines[1:]] if head.strip() else lines
