"""The agent's configuration: agent.json in the instance's directory, readable by its owner only."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

from bullpen.host.stored_files import ROOM
from bullpen.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Config:
    """Written when the instance is launched. Times are in seconds."""

    instance_id: str  # empty: as the machine's metadata service says
    home: Path  # where the store, its locks and the sockets are
    directory: Path  # the instance's own: work, home, tmp, the log
    heartbeat: float
    appears_within: float  # an absent record is no alarm for so long
    max_runtime: float
    pre_runner_script: str
    pre_runner_timeout: float
    keep: tuple[str, ...]  # what survives cleaning, as `place/name/…`
    idle: float = 420.0  # how long a clean instance waits for its next owner
    lease: float = 15.0  # how long the worker counts as alive after a beat
    verify: float = 120.0  # within so long after taking a job the agent reports that it runs
    purge: float = 3600.0  # how long a finished job stays readable
    losses: int = 3  # how many workers a job may lose before it fails
    room: int = ROOM  # bytes that the files of projects and artifacts may take at `home`
    capabilities: tuple[str, ...] = ()  # what jobs may ask of this machine
    serve_url: str = ""  # where `bullpen serve` is; empty: the store is used as it lies at `home`
    token: str = ""  # what `bullpen serve` knows the agent by; empty: it gives one for proof of identity
    sts_endpoint: str = ""  # where `bullpen serve` has that proof checked; empty: the region's own
    table: str = ""  # the DynamoDB table to use without a service; empty: the store lies at `home`
    region: str = ""  # where the table is; empty: where the machine is
    domain: str = ""  # what fails together with this machine; empty: its availability zone, or itself
    endpoint: str = ""  # of DynamoDB; empty: the region's own
    imds: bool = False  # EC2's metadata service is there: identity, credentials, notices
    runner_user: str = ""  # as whom jobs run; empty: as the agent does
    shares_machine: bool = False  # others use it too, but not as that user: docker and its past are not this agent's
    ci: str = ""  # whose jobs run here: "github"; empty: those of Bullpen's own queue
    runner_directory: str = ""  # where GitHub's runner lies on this machine
    runner_url: str = ""  # where its archive is fetched from instead, with runner_sha256
    runner_sha256: str = ""
    shutdown: tuple[str, ...] = ()  # the command that ends the machine, run last

    @property
    def places(self) -> dict[str, Path]:
        """The directories that a job is given to fill."""
        return {name: self.directory / name for name in ("work", "home", "tmp")}

    @property
    def cleaned(self) -> dict[str, Path]:
        """What is cleaned after a job: also the directory around its places, which it can write to as the agent can."""
        return {**self.places, "instance": self.directory}


LOGS = tuple(("instance", name) for name in ("agent.log", "pre-runner.log", "boot.log"))
"""Files that grow in an instance's directory while it lives: the agent's log, the output of what the pre-runner script
left running, and the log of the boot."""


def load(path: Path) -> Config:
    """Raise OSError or ValueError, naming the file, where it is missing or no configuration."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        # A newer control plane may write what this agent does not know yet.
        found = {field.name: found[field.name] for field in fields(Config) if field.name in found}
        tuples = {name: tuple(found.get(name, ())) for name in ("keep", "capabilities", "shutdown")}
        # Where it really is: the directory of a local machine may be a link to another disk.
        return Config(**{**found, **tuples, "home": Path(found["home"]), "directory": path.resolve().parent})
    except (TypeError, KeyError, ValueError) as exc:
        raise ValueError(f"{path} is not an agent configuration: {exc}") from exc
