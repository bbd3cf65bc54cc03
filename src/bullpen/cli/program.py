"""The program: finds the command, runs it, and turns whatever happens into an exit code and at most one clear error.

0 done   1 failed, everything given back   2 a user's mistake, nothing changed   75 try again later
130 after a signal   70 a fault of Bullpen itself (BULLPEN_DEBUG=1 shows where)
"""

import importlib
import io
import os
import sys
from collections.abc import Sequence

import click

from bullpen import __version__
from bullpen.cli.options import pool_options
from bullpen.cli.output import AnswerLost, complain, say
from bullpen.cli.overview import COMMANDS, overview
from bullpen.errors import BullpenError, ConfigError, Interrupted
from bullpen.settings.redaction import shortened
from bullpen.settings.setting import nearest

FAULT = 70


class Program(click.Group):
    """Loads a command's module, `bullpen.cli.<name>`, only when that command is asked for; a dash is an underscore."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in COMMANDS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            meant = nearest(cmd_name, self.list_commands(ctx))
            remedy = f"Did you mean `bullpen {meant}`?" if meant else "`bullpen --help` lists the commands."
            raise ConfigError(f"{shortened(cmd_name)}: no such command", remedy=remedy)
        command: click.Command = importlib.import_module(f"bullpen.cli.{cmd_name.replace('-', '_')}").command
        return command

    def get_help(self, ctx: click.Context) -> str:
        return overview().rstrip()


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="bullpen %(version)s")
@pool_options
@click.pass_context
def program(context: click.Context) -> None:
    """Everything is a command; without one, say which there are."""
    if context.invoked_subcommand is None:
        say(overview().rstrip())


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Prints errors, never raises."""
    as_json = "--json" in arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # where only ASCII goes, a dash must not be an error
    try:
        with program.make_context("bullpen", list(arguments)) as context:
            code = program.invoke(context)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except KeyboardInterrupt:
        complain("interrupted", "Nothing is lost: run it again, or `bullpen refresh`.", as_json=as_json)
        return Interrupted.exit_code
    except click.UsageError as exc:
        where = exc.ctx.command_path if exc.ctx else "bullpen"
        complain(exc.format_message(), f"`{where} --help` shows every option with examples.", as_json=as_json)
        return exc.exit_code
    except AnswerLost as exc:
        if not isinstance(exc.__cause__, BrokenPipeError):  # a reader that has gone needs no message
            complain(str(exc), exc.remedy)
        return exc.exit_code
    except BullpenError as exc:
        complain(str(exc), exc.remedy, as_json=as_json)
        return exc.exit_code
    except Exception as exc:
        if os.environ.get("BULLPEN_DEBUG"):
            import traceback

            traceback.print_exc()
        remedy = "A fault of Bullpen: please report it with what BULLPEN_DEBUG=1 prints. `bullpen refresh` tidies up."
        complain(f"unexpected {type(exc).__name__}: {exc}", remedy, as_json=as_json)
        return FAULT
