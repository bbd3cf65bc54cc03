"""A server as the target of a command: which one, and with which token. A token is never on the command line."""

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from bullpen.cli.backend import Backend
from bullpen.cli.options import PoolOptions
from bullpen.cli.remote_pool import named_options, opened_server
from bullpen.cli.target import Target
from bullpen.client.address import checked_address
from bullpen.errors import ConfigError
from bullpen.model.progress import Tell

LONGEST_TOKEN = 4096  # characters; those of `bullpen token create` have fewer than a hundred


def remote_target(given: PoolOptions) -> Target:
    """Raise ConfigError for a URL or a token that cannot be used, before the first request."""
    server = given.chosen_server
    for option, value in (("--home", given.home), ("--config", given.config), ("--set", given.assignments)):
        if value:
            remedy = f"Remove {option}; or remove --server and unset BULLPEN_SERVER to work on this machine."
            says = f"{option}: cannot be combined with a server, which has its own home and settings"
            raise ConfigError(says, remedy=remedy, field=option)
    token = _token_of(given.token_file) if given.token_file is not None else os.environ.get("BULLPEN_TOKEN", "")
    ca_file = given.ca_file or ""
    with named_options():
        checked_address(server, token, ca_file)
    secrets = [Path(given.token_file)] if given.token_file is not None else []

    def opened(tell: Tell) -> AbstractAsyncContextManager[Backend]:
        return opened_server(server, token, ca_file, tell, secrets)

    return Target(None, opened, lambda: None, given.as_json, given.on_this_pool)


def _token_of(file: str) -> str:
    try:
        with Path(file).open() as opened:
            token = opened.read(LONGEST_TOKEN + 1).strip()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not text"
        remedy = "Name a file that contains the token; `bullpen token create` prints one."
        raise ConfigError(
            f"--token-file {file}: cannot be read ({reason})", remedy=remedy, field="--token-file"
        ) from exc
    if not token or len(token) > LONGEST_TOKEN or len(token.split()) != 1:
        remedy = "Write the token into it, and nothing else; `bullpen token create` prints one."
        raise ConfigError(f"--token-file {file}: must contain one token", remedy=remedy, field="--token-file")
    return token
