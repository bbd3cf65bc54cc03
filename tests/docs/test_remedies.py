"""Remedies: the sentence after an error that says what to do next begins with a capital letter, ends with a stop and
names only commands and options that exist.

The test reads the source, so that it reaches every error. It follows names to their constants in the same module. What
stands only at run time, such as the remedy of another error, is checked where that one is written.
"""

import ast
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from bullpen.cli.program import program
from bullpen.errors import ConfigError
from walkthroughs import ROOT

SOURCE = ROOT / "src" / "bullpen"
CARRIERS = ("remedy", "instead")  # keyword arguments and variables that carry a remedy
POSITIONS = {"Finding": 3, "complain": 1, "FleetError": 3}
TABLES = ("REMEDY", "REMEDIES", "NO_MODES", "_KNOWN", "_BY_MESSAGE", "_REMEDIES")
MARKS = tuple(mark.lower() for mark in (*CARRIERS, *POSITIONS, *TABLES))
SOMETHING = "…"  # stands for a value that is known only at run time

Names = dict[str, list[ast.expr]]


def texts(node: ast.expr, names: Names) -> Iterator[str]:
    """Every text that an expression may be, with `SOMETHING` for its unknown parts."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(next(texts(part, names), SOMETHING) for part in parts)
        case ast.FormattedValue(value=ast.Name() as name):
            yield from texts(name, names)
        case ast.IfExp(body=one, orelse=other):
            yield from texts(one, names)
            yield from texts(other, names)
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from texts(part, names)
        case ast.Tuple(elts=[*_, ast.Name() as last]):  # a row of a table
            yield from texts(last, names)
        case ast.Dict(values=values) | ast.Tuple(elts=values):
            for value in values:
                yield from texts(value, names)
        case ast.Name(id=id):
            for value in names.pop(id, []):
                yield from texts(value, names)


def remedies(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each remedy of a module."""
    source = path.read_text()
    if not any(mark in source.lower() for mark in MARKS):
        return  # two modules of three, and parsing is what takes time here
    tree = ast.parse(source)
    names: Names = defaultdict(list)
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=id)], value=value)
                | ast.AnnAssign(target=ast.Name(id=id), value=ast.expr() as value)
            ):
                names[id].append(value)
                found += [value] if id.lower() in CARRIERS or id in TABLES else []
            case ast.keyword(arg="remedy" | "instead", value=value):
                found.append(value)
            case ast.Call(func=ast.Name(id=id), args=given) if id in POSITIONS:
                found += given[POSITIONS[id] :][:1]
    for node in found:
        yield from ((node.lineno, text) for text in texts(node, dict(names)) if " " in text)


@cache
def all_remedies() -> list[tuple[str, str]]:
    """Where each remedy stands, and its text. The source is read once for all tests: that takes a second."""
    return [
        (f"{path.relative_to(ROOT)}:{line}: {text}", text)
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in remedies(path)
    ]


def test_every_remedy_is_a_sentence_with_a_capital_letter_and_a_full_stop() -> None:
    wrong = [
        where
        for where, text in all_remedies()
        if not (text[0].isupper() or text[0] == SOMETHING)
        or not (text.endswith((".", SOMETHING)) or (text.startswith("Did you mean") and text.endswith("?")))
    ]
    assert wrong == []
    assert len(all_remedies()) > 200, "the test no longer finds the remedies"


def command_of(words: list[str], *, is_whole: bool) -> None:
    """Raise an error of click or Bullpen unless the words name a command and options that it has. A `whole` command has
    all that it requires, too."""
    command: click.Command = program
    context = program.make_context("bullpen", words, resilient_parsing=not is_whole)
    while isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
        context = command.make_context(name, rest, parent=context, resilient_parsing=not is_whole)
    assert command is not program
    assert isinstance(command, click.Group) or not context.args, f"{command.name} takes no {context.args}"


def options(command: click.Command = program) -> Iterator[str]:
    """Every option of every command."""
    context = click.Context(command)
    for parameter in command.get_params(context):
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from options(found)


def test_every_command_that_a_remedy_names_exists_and_has_the_named_options() -> None:
    """`Run ...` must work as it stands; another mention, such as `bullpen serve`, may leave options out."""
    wrong, seen = [], 0
    for where, text in all_remedies():
        for before, line in re.findall(r"(\w*) ?`bullpen ([a-z][^`]*)`", text):
            seen += 1
            words = ["x" if SOMETHING in word else word for word in shlex.split(line)]
            try:
                command_of(words, is_whole=before in ("Run", "run"))
            except (click.ClickException, ConfigError) as exc:
                wrong.append(f"{where}: {exc}")
    assert wrong == []
    assert seen > 60, "the test no longer finds the commands"


def test_every_option_that_a_remedy_names_exists() -> None:
    known = set(options())
    foreign = re.compile(r"`(?!bullpen)[a-z]+ [^`]*`")  # commands of other programs
    wrong = [
        f"{where}: {option}"
        for where, text in all_remedies()
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", foreign.sub("", text))
        if option not in known
    ]
    assert wrong == []
