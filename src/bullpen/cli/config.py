"""`bullpen config show`: every setting, its value and where it comes from."""

import json

import click

from bullpen.cli.answers import print_json
from bullpen.cli.options import Given, json_option, pool_options
from bullpen.cli.output import say
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


@click.group("config", invoke_without_command=True)
@pool_options
@click.pass_context
def command(context: click.Context) -> None:
    """Show the settings and where each one comes from."""
    if context.invoked_subcommand is None:
        say(context.get_help())


@command.command("show", epilog=EPILOG)
@click.option(
    "--origin", is_flag=True, help="Add where each value comes from: --set, a variable, the file or the default."
)
@json_option
@pool_options
@click.pass_obj
def show(given: Given, origin: bool, as_json: bool) -> int:
    """Print every setting as the other commands would use it.

    The command line wins over BULLPEN_* variables, those over bullpen.toml, and that over the defaults. A long
    text, such as a script, is cut short, and what may be a secret is not shown.
    """
    loaded = given.load()
    values = [(name, abridged(name, value), where) for name, (value, where) in loaded.values.items()]
    if as_json:
        listed = [{"name": name, "value": value, "origin": where} for name, value, where in values]
        print_json({"file": str(loaded.file) if loaded.file else None, "settings": listed})
    else:
        say(columns((name, f"= {_toml(value)}", *([f"# {where}"] if origin else [])) for name, value, where in values))
    return 0


@command.command("terraform", epilog=TERRAFORM)
@pool_options
@click.pass_obj
def terraform(given: Given) -> int:
    """Print the variables of the Terraform module that makes what refresh would make on AWS."""
    settings = given.load().settings
    if settings.engines.pool != "aws":
        raise ConfigError(
            f"engines.pool ({settings.engines.pool}): there is nothing for Terraform to make",
            remedy='Set engines.pool = "aws" and the [aws] settings.',
        )
    from bullpen.wiring import terraform_variables

    say(json.dumps(terraform_variables(settings), indent=2))
    return 0


def _toml(value: object) -> str:
    """The value as the file would spell it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case tuple() | list():
            return f"[{', '.join(_toml(item) for item in value)}]"
        case dict():
            return f"{{{', '.join(f'{_toml(key)} = {_toml(item)}' for key, item in value.items())}}}"
    return str(value)
