"""The program: finds the command, runs it, and turns every outcome into an exit code and at most one error message.

0 done   1 failed, everything was given back   2 invalid arguments or settings, nothing changed   75 try again later
130 interrupted by a signal   70 a bug in Bullpen (BULLPEN_DEBUG=1 prints the traceback)
"""

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError

from bullpen import __version__
from bullpen.cli.help import printing_option, with_own_help
from bullpen.cli.options import pool_options
from bullpen.cli.output import AnswerLost, complain, say
from bullpen.cli.overview import COMMANDS, overview, terminal_width
from bullpen.errors import BullpenError, ConfigError, FailureCause, Interrupted
from bullpen.settings.redaction import shortened
from bullpen.settings.setting import nearest

FAULT = 70
NO_SUCH_COMMAND: Any = getattr(click.exceptions, "NoSuchCommand", ())  # new in click 8.4; before, its own words stand


class Program(click.Group):
    """Loads the module of a command, `bullpen.cli.<name>` with dashes as underscores, when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in COMMANDS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            options = {"version": "--version", "help": "--help"}
            meant = nearest(cmd_name, [*self.list_commands(ctx), *options])
            remedy = f"Did you mean `bullpen {options.get(meant, meant)}`?"
            remedy = remedy if meant else "Run `bullpen --help` to list the commands."
            raise ConfigError(f"{shortened(cmd_name)}: no such command", remedy=remedy)
        command: click.Command = importlib.import_module(f"bullpen.cli.{cmd_name.replace('-', '_')}").command
        return with_own_help(command)

    def get_help(self, ctx: click.Context) -> str:
        return overview(terminal_width()).rstrip()


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"max_content_width": 100},
)
@pool_options
@click.pass_context
def program(context: click.Context) -> None:
    """Without a command, print the help."""
    if context.invoked_subcommand is None:
        say(overview(terminal_width()).rstrip())


program.params.append(printing_option(["-V", "--version"], lambda _: f"bullpen {__version__}", "Print the version."))
with_own_help(program)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Prints errors, never raises."""
    as_json = "--json" in arguments
    if sys.stderr is None:  # its file descriptor was closed before Python started
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # on an ASCII terminal a dash must not raise an error
    try:
        with program.make_context("bullpen", list(arguments)) as context:
            code = program.invoke(context)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except KeyboardInterrupt:
        remedy = "Nothing is lost. Run the command again, or `bullpen refresh`."
        complain("interrupted", remedy, cause=FailureCause.INTERRUPTED, as_json=as_json)
        return Interrupted.exit_code
    except click.UsageError as exc:
        text, remedy = _explained(exc)
        complain(text, remedy, cause=FailureCause.CONFIGURATION, field=_option_of(exc), as_json=as_json)
        return exc.exit_code
    except AnswerLost as exc:
        if not isinstance(exc.__cause__, BrokenPipeError):  # the reader of the pipe has closed it, which is no error
            complain(str(exc), exc.remedy)
        return exc.exit_code
    except BullpenError as exc:
        field = exc.field if isinstance(exc, ConfigError) else ""
        complain(str(exc), exc.remedy, cause=exc.cause, field=field, as_json=as_json)
        return exc.exit_code
    except Exception as exc:
        if os.environ.get("BULLPEN_DEBUG"):
            import traceback

            traceback.print_exc()
        remedy = "This is a bug: report it with the output of BULLPEN_DEBUG=1. `bullpen refresh` repairs the pool."
        complain(f"unexpected {type(exc).__name__}: {exc}", remedy, cause=FailureCause.FAULT, as_json=as_json)
        return FAULT


def complete(instruction: str) -> int:
    """Answer a shell that completes a command line."""
    from click.shell_completion import shell_complete

    return shell_complete(program, {}, "bullpen", "_BULLPEN_COMPLETE", instruction)


def _explained(error: click.UsageError) -> tuple[str, str]:
    """What is wrong, as every other mistake is named, and what to do."""
    where, option = error.ctx.command_path if error.ctx else "bullpen", _option_of(error)
    remedy = f"Run `{where} --help` to list the options, with examples."
    match error:
        case click.NoSuchOption():
            meant = nearest(option, error.possibilities or ())
            return f"{option}: no such option", f"Did you mean {meant}? {remedy}" if meant else remedy
        case click.MissingParameter() if error.param is not None:
            return _missing(error.param), remedy
        case click.BadOptionUsage():
            takes_none = "does not take" in error.format_message()
            return f"{option}: must have {'no' if takes_none else 'a'} value", remedy
        case _ if isinstance(error, NO_SUCH_COMMAND):  # of a group, such as `bullpen job`
            meant = nearest(error.command_name, error.possibilities or ())
            remedy = f"Did you mean `{where} {meant}`?" if meant else f"Run `{where} --help` to list the commands."
            return f"{shortened(error.command_name)}: no such command", remedy
        case NoArgsIsHelpError() if isinstance(error.ctx.command, click.Group):  # its message is the whole help
            names = ", ".join(error.ctx.command.list_commands(error.ctx))
            return f"{where}: a command is missing", f"Name one of {names}. {remedy}"
    return error.format_message(), remedy


def _missing(param: click.Parameter) -> str:
    name = param.opts[0] if isinstance(param, click.Option) else param.metavar or (param.name or "").upper()
    choices = param.type.choices if isinstance(param.type, click.Choice) else ()
    return f"{name}: must be " + (f"one of {', '.join(map(str, choices))}" if choices else "given")


def _option_of(error: click.UsageError) -> str:
    """The option that an error of click is about; empty if it is about none, or about several."""
    if isinstance(error, click.NoSuchOption | click.BadOptionUsage):
        return error.option_name
    param = error.param if isinstance(error, click.BadParameter) else None
    return param.opts[0] if isinstance(param, click.Option) else ""
