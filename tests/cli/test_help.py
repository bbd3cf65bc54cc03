"""The help of every command: it fits the terminal, and its examples are commands that work."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from bullpen.cli.overview import overview
from bullpen.cli.program import program
from command_line import CommandLine


def commands(command: click.Command = program, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and subcommand, with the words that lead to it."""
    if path:
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, *path, name)


ALL = dict(commands())


def examples(path: tuple[str, ...]) -> list[str]:
    """The commands below `Examples:`, without comments, pipes and redirections."""
    _, _, listed = (ALL[path].epilog or "").partition("Examples:\n")
    lines = [line for line in listed.partition("\n\n")[0].splitlines() if line.startswith("  ")]
    return [re.split(r" {3,}| [|>] ", line.strip())[0] for line in lines]


EXAMPLES = sorted({example for path in ALL for example in examples(path) if example.startswith("bullpen ")})
SCRATCH = ("status", "workers", "refresh", "doctor", "config show", "iam-policy", "completion", "token", "job list")
ENDLESS = ("--watch", "revoke")  # no end, or no token to revoke
WORKING = [one for one in EXAMPLES if one.startswith(tuple(f"bullpen {name}" for name in SCRATCH))]
"""Examples that need neither runners nor a network."""


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_the_help_fits_the_terminal(
    bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = bullpen(*path, "--help").out.splitlines()
    # A single word, such as a URL, is not broken.
    assert [line for line in lines if len(line) > width and len(line.split()) > 3] == []


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_overview_fits_the_terminal(width: int) -> None:
    assert max(map(len, overview(width).splitlines())) <= width
    assert overview(width).split() == overview(100).split()


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_a_broken_example_is_still_the_same_command(
    bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    def said(width: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        text = re.sub(r" \\\n +", " ", bullpen(*path, "--help").out).partition("Examples:\n")[2].partition("\n\n")[0]
        return [re.split(r" {3,}", line.strip())[0] for line in text.splitlines() if not line.startswith("    # ")]

    assert said(60) == said(200)
    assert len(said(60)) == len(examples(path))


def test_the_command_of_a_job_is_broken_nowhere(bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert "        -- sh -c 'test -d /tmp && uname -n'\n" in bullpen("run", "--help").out


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_required_options_stand_first(path: tuple[str, ...]) -> None:
    options = [one.required for one in ALL[path].params if isinstance(one, click.Option)]
    assert options == sorted(options, reverse=True)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_examples(path: tuple[str, ...]) -> None:
    group = ALL[path[:1]]
    shown = examples(path) or [one for one in examples(path[:1]) if " ".join(path) in one]
    assert shown, f"{group.name} has none for {' '.join(path)}"


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_valid_command(example: str) -> None:
    command: click.Command = program
    context = program.make_context("bullpen", shlex.split(example)[1:])
    while isinstance(command, click.Group) and (words := [*context._protected_args, *context.args]):
        name, found, rest = command.resolve_command(context, words)
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)
    assert command is not program


@pytest.mark.parametrize("example", [one for one in WORKING if not any(word in one for word in ENDLESS)])
def test_examples_that_need_no_runners_work_on_a_home(bullpen: CommandLine, example: str) -> None:
    bullpen.make_pool("4711")
    ran = bullpen(*shlex.split(example)[1:])
    assert ran.code == 0, ran
