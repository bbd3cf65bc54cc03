"""User data: the script that turns a bare machine into an instance. The same for all machines of the same settings.

It carries only what fetches the agent from the table and checks it; the agent's checksum is pinned in it. Nothing of it
is secret: every principal that may describe instances can read it.
"""

import base64
import json
import re
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bullpen.config import Settings
from bullpen.engines.aws.boot.archive import archive, packed
from bullpen.errors import ConfigError
from bullpen.settings.github import agent_settings

LIMIT = 16 * 1024  # bytes that EC2 takes, before they are encoded
WIDTH = 120  # characters of a line of the encoded program


def own_user_data(settings: Settings) -> str:
    """The script for the agent of this installation. Raise ConfigError if EC2 would not take it."""
    text = _text(settings)
    if (size := len(text.encode())) > LIMIT:
        without = replace(settings, agent=replace(settings.agent, pre_runner_script=""))
        share = size - len(_text(without).encode())
        raise ConfigError(
            f"user data: has {size} bytes and EC2 takes {LIMIT}; {share} of them are agent.pre-runner-script",
            remedy="Shorten the script: it can fetch what it needs, or the image can have it already.",
        )
    return text


def told(settings: Settings) -> dict[str, Any]:
    """The configuration of every agent, see `bullpen.agent.config`. The machine adds its id and zone.

    Nothing of this machine: the hash of this is in the templates' names, and all processes that share a pool must come
    to the same ones, however each of them finds its region.
    """
    timings, agent, aws = settings.timings, settings.agent, settings.aws
    return {
        "table": aws.pool,
        "endpoint": aws.endpoints.get("dynamodb", ""),
        "imds": True,
        "serve_url": agent.serve_url,
        "sts_endpoint": aws.endpoints.get("sts", ""),
        "heartbeat": timings.heartbeat,
        # A created record's threshold, seen from the start of its machine.
        "appears_within": timings.provision + timings.claim_grace,
        "max_runtime": timings.max_runtime,
        "idle": timings.idle,
        "lease": timings.lease,
        "verify": settings.liveness.verify,
        "purge": timings.purge,
        "capabilities": list(agent.capabilities),
        "keep": [f"home/{pattern}" for pattern in agent.keep],
        "pre_runner_script": agent.pre_runner_script,
        "pre_runner_timeout": agent.pre_runner_timeout,
        **agent_settings(settings),
    }


def _text(settings: Settings) -> str:
    content = packed("bullpen.agent.aws.boot", {"told.json": json.dumps(told(settings)).encode()})
    encoded = base64.b64encode(content).decode()
    lines = "\n".join(encoded[start : start + WIDTH] for start in range(0, len(encoded), WIDTH))
    script = Path(__file__).with_name("bootstrap.sh").read_text(encoding="utf-8")
    script = re.sub(r"^ *#(?!!).*\n", "", script, flags=re.MULTILINE)  # comments are for readers of the source
    agent = archive()
    return script.replace("@VERSION@", agent.version).replace("@SHA256@", agent.sha256).replace("@BOOT@", lines)
