"""`bullpen iam-policy`: the IAM policies that a pool on AWS needs, with no further permissions."""

import json
import re

import click

from bullpen.cli.options import PoolOptions, pool_options
from bullpen.cli.output import say
from bullpen.errors import ConfigError
from bullpen.settings.redaction import shortened

EPILOG = """
\b
Examples:
  bullpen iam-policy control-plane                      for refresh, serve and doctor
  bullpen iam-policy workflow --account 123456789012    for a workflow that claims and releases warm runners
  bullpen iam-policy workflow --launch                  for a workflow that also launches machines
  bullpen iam-policy instance > instance.json           for the machines of the pool

A workflow that may launch machines must be trusted like the control plane.
"""


@click.command("iam-policy", epilog=EPILOG)
@click.argument("policy", type=click.Choice(["control-plane", "workflow", "instance"]))
@click.option("--account", default="*", metavar="ID", help="Restrict the policy to resources of this account.")
@click.option("--role", default="", metavar="NAME", help="Role of the machines [the name of aws.instance-profile].")
@click.option(
    "--launch", is_flag=True, help="With workflow: allow launching machines; trust it like the control plane."
)
@click.option("--json", "as_json", is_flag=True, help="Print the policy on one line.")
@pool_options
@click.pass_obj
def command(given: PoolOptions, policy: str, account: str, role: str, launch: bool, as_json: bool) -> int:
    """Print an IAM policy with exactly the permissions that the settings need.

    Makes no request to AWS and needs no credentials.
    """
    settings = given.load().settings
    if not re.fullmatch(r"\*|[0-9]{12}", account):
        raise ConfigError(f"--account {shortened(account)}: must be the 12 digits of an account", field="--account")
    if not re.fullmatch(r"[\w+=,.@/-]{0,128}", role):
        raise ConfigError(f"--role {shortened(role)}: must be the name of a role", field="--role")
    if launch and policy != "workflow":
        raise ConfigError(f"--launch: applies only to the policy workflow, not to {policy}", field="--launch")
    from bullpen.one_off_calls import iam_policy

    document = iam_policy(settings, policy, account, role, launch)
    say(json.dumps(document) if as_json else json.dumps(document, indent=2))
    return 0
