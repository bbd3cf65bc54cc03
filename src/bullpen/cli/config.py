"""`bullpen config`: every setting with its value and origin, and the variables for Terraform."""

import json

import click
import msgspec

from bullpen.cli.options import PoolOptions, answering_options, pool_options
from bullpen.cli.output import print_json, say
from bullpen.cli.text import columns
from bullpen.errors import ConfigError
from bullpen.settings.redaction import abridged

EPILOG = """
\b
Examples:
  bullpen config show --origin
  BULLPEN_TIMINGS_IDLE=600 bullpen config show --origin
  bullpen config show --json
"""
TERRAFORM = """
\b
Examples:
  bullpen config terraform > bullpen.auto.tfvars.json && terraform apply
"""


@click.group("config", invoke_without_command=True, epilog=EPILOG)
@pool_options
@click.pass_context
def command(context: click.Context) -> None:
    """Show the settings and where each one comes from."""
    if context.invoked_subcommand is None:
        say(context.get_help())


@command.command("show", epilog=EPILOG)
@click.option(
    "--origin", is_flag=True, help="Show where each value comes from: --set, a variable, the file or the default."
)
@answering_options
def show(given: PoolOptions, origin: bool) -> int:
    """Print every setting with the value that the other commands use.

    --set wins over BULLPEN_* variables, variables over bullpen.toml, and the file over the defaults. Long texts, such
    as scripts, are shortened. Values that may be secrets are not shown.
    """
    loaded = given.load()
    values = [(name, abridged(name, value), where) for name, (value, where) in loaded.values.items()]
    if given.as_json:
        listed = [{"name": name, "value": value, "origin": where} for name, value, where in values]
        print_json({"file": str(loaded.file) if loaded.file else None, "settings": listed})
    else:
        lines = [(line, text, where) for name, value, where in values for line, text in _lines(name, value)]
        say(columns((line, f"= {text}", *([f"# {where}"] if origin else [])) for line, text, where in lines))
    return 0


@command.command("terraform", epilog=TERRAFORM)
@pool_options
@click.pass_obj
def terraform(given: PoolOptions) -> int:
    """Print the variables for the Terraform module, which creates the same resources on AWS as refresh."""
    settings = given.load().settings
    if settings.engines.pool != "aws":
        raise ConfigError(
            f"engines.pool ({settings.engines.pool}): only a pool on AWS has resources for Terraform",
            remedy='Set engines.pool = "aws" and the [aws] settings.',
        )
    from bullpen.one_off_calls import terraform_variables

    say(json.dumps(terraform_variables(settings), indent=2))
    return 0


def _lines(name: str, value: object) -> list[tuple[str, str]]:
    """A list of tables, such as a schedule, has a line for each."""
    match value:
        case (msgspec.Struct(), *_):
            return [(f"{name}[{place}]", _toml(table)) for place, table in enumerate(value, 1)]
    return [(name, _toml(value))]


def _toml(value: object) -> str:
    """The value in the syntax of the settings file."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case tuple() | list():
            return f"[{', '.join(_toml(item) for item in value)}]"
        case msgspec.Struct():
            fields = msgspec.to_builtins(value)  # keys of a struct need no quotes
            return f"{{{', '.join(f'{key} = {_toml(item)}' for key, item in fields.items())}}}"
        case dict():
            return f"{{{', '.join(f'{_toml(key)} = {_toml(item)}' for key, item in value.items())}}}"
    return str(value)
