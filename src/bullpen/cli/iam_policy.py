"""`bullpen iam-policy`: the IAM policies that a pool on AWS needs, and nothing beyond."""

import json
import re

import click

from bullpen.cli.options import Given, pool_options
from bullpen.cli.output import say
from bullpen.errors import ConfigError
from bullpen.settings.redaction import shortened

EPILOG = """
\b
Examples:
  bullpen iam-policy control-plane                 whoever runs refresh, serve and doctor
  bullpen iam-policy workflow --account 123456789012   a workflow that claims and releases warm runners
  bullpen iam-policy workflow --launch             one that may launch machines: trusted like the control plane
  bullpen iam-policy instance > instance.json      the machines themselves
"""


@click.command("iam-policy", epilog=EPILOG)
@click.argument("whose", type=click.Choice(["control-plane", "workflow", "instance"]))
@click.option("--account", default="*", metavar="ID", help="Only resources of this account.")
@click.option("--role", default="", metavar="NAME", help="The machines' role [the name of aws.instance-profile].")
@click.option(
    "--launch", is_flag=True, help="With workflow: it launches machines, and is trusted like the control plane."
)
@click.option("--json", "as_json", is_flag=True, help="On one line.")
@pool_options
@click.pass_obj
def command(given: Given, whose: str, account: str, role: str, launch: bool, as_json: bool) -> int:
    """Print an IAM policy with exactly what the settings need. Asks nobody, and needs no credentials."""
    settings = given.load().settings
    if not re.fullmatch(r"\*|[0-9]{12}", account):
        raise ConfigError(f"--account {shortened(account)}: must be the 12 digits of an account")
    if not re.fullmatch(r"[\w+=,.@/-]{0,128}", role):
        raise ConfigError(f"--role {shortened(role)}: must be the name of a role")
    if launch and whose != "workflow":
        raise ConfigError(f"--launch: is for workflow, not for {whose}")
    from bullpen.wiring import iam_policy

    policy = iam_policy(settings, whose, account, role, launch)
    say(json.dumps(policy) if as_json else json.dumps(policy, indent=2))
    return 0
