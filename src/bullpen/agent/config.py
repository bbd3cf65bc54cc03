"""What an agent is told before it starts: one small JSON file in its instance's directory. It holds no secrets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Config:
    """Written by whoever launches the instance. Times are in seconds."""

    instance_id: str
    home: Path  # where the store, its locks and the sockets are
    directory: Path  # the instance's own: work, home, tmp, the log
    heartbeat: float
    appears_within: float  # an absent record is no alarm for so long
    max_runtime: float
    pre_runner_script: str
    pre_runner_timeout: float
    keep: tuple[str, ...]  # what survives cleaning, as `place/name/…`

    @property
    def places(self) -> dict[str, Path]:
        """The directories that a job may fill, and that are cleaned after it."""
        return {name: self.directory / name for name in ("work", "home", "tmp")}


def load(path: Path) -> Config:
    """Raise OSError or ValueError, naming the file, where it is missing or not ours."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Config(
            **{**found, "home": Path(found["home"]), "directory": path.parent, "keep": tuple(found.get("keep", ()))}
        )
    except (TypeError, KeyError, ValueError) as exc:
        raise ValueError(f"{path} is no agent configuration: {exc}") from exc
