"""`bullpen completion`: the script by which a shell completes commands and options."""

import click
from click.shell_completion import get_completion_class

from bullpen.cli.options import PoolOptions, pool_options
from bullpen.cli.output import say

VARIABLE = "_BULLPEN_COMPLETE"
"""Set by the script: what the shell asks for."""
EPILOG = """
\b
Examples:
  source <(bullpen completion bash)          for this shell; in ~/.bashrc for every one
  source <(bullpen completion zsh)           in ~/.zshrc, after compinit
  bullpen completion fish > ~/.config/fish/completions/bullpen.fish

The shell then asks bullpen itself, so the script does not become stale with an upgrade.
"""


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@pool_options
@click.pass_obj
def command(given: PoolOptions, shell: str) -> int:
    """Print the completion script of a shell. Needs no pool and no settings."""
    from bullpen.cli.program import program

    kind = get_completion_class(shell)
    assert kind is not None
    # Only the text: to check the version of the shell, click would start one.
    script = kind(program, {}, "bullpen", VARIABLE)
    say((script.source_template % script.source_vars()).rstrip())
    return 0
