"""What the inputs say of a pool's settings, as a document like bullpen.toml: for the engines in this job.

With `table-name` alone the archived original's defaults hold: refresh writes them down, and what it was told stands in
the pool's table, where provision and release find what they are not told. With a bullpen.toml the file decides.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bullpen.action.inputs import Asked
from bullpen.action.job import Job
from bullpen.action.place import REGIONS
from bullpen.action.table import REFRESH

Document = dict[str, Any]
HOUR = 3600

SCRIPT = """\
if command -v dnf >/dev/null; then
  dnf install -y docker git libicu && systemctl enable --now docker
fi
"""
"""What a bare Amazon Linux 2023 lacks. The original also updated every package, which takes minutes of each boot."""

CLASSES: Mapping[str, tuple[int, int]] = {
    "large": (2, 4096),
    "xlarge": (4, 8192),
    "2xlarge": (8, 16384),
    "4xlarge": (16, 32768),
    "8xlarge": (32, 65536),
    "12xlarge": (48, 98304),
    "16xlarge": (64, 131072),
}
"""cpu and MiB: the original's classes."""

REQUEST = {"resource-class": "large", "usage-class": "spot", "allowed-instance-types": ["c*", "m*", "r*"]}
"""What the original asks for by default."""

SETTINGS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "table-name": ("aws.pool", str),
    "aws-region": ("aws.region", str),
    "ami": ("aws.image", str),
    "iam-instance-profile": ("aws.instance-profile", str),
    "security-group-ids": ("aws.security-groups", list),
    "subnet-ids": ("aws.subnets", list),
    "aws-resource-tags": ("aws.tags", dict),
    "volume-size": ("aws.volume", int),
    "ec2-device-name": ("aws.root-device", str),
    "github-token": ("github.token", str),
    "runner-home-dir": ("github.runner-directory", str),
    # The original's is an age; ours is how much of GitHub's hour must be left.
    "github-reg-token-refresh-min": ("github.token-rotation", lambda minutes: HOUR - 60 * minutes),
    "idle-time-sec": ("timings.idle", int),
    "startup-timeout-minutes": ("timings.validation", lambda minutes: 60 * minutes),
    "pre-runner-script": ("agent.pre-runner-script", str),
    "resource-class-config": ("classes", dict),
}
NO_TOKEN = "not needed: only refresh speaks with GitHub"


def document_of(asked: Asked, job: Job, environ: Mapping[str, str]) -> Document:
    """The settings that the inputs stand for."""
    told: Document = {}
    for name, (place, convert) in SETTINGS.items():
        if name in asked.given:
            _put(told, place, convert(asked.given[name]))
    if asked.mode == REFRESH and "max-runtime-min" in asked.given:
        _put(told, "timings.max-runtime", 60 * asked.given["max-runtime-min"])
    if "spot-fallback" in asked.given:
        kind = asked.get("resource-class", REQUEST["resource-class"])
        _put(told, f"classes/{kind}/spot-fallback", asked.given["spot-fallback"] == "on-demand", "/")
    if "table-name" in asked.given:
        _put(told, "engines.pool", "aws")
        if "aws-region" not in asked.given:
            _put(told, "aws.region", next(environ[name] for name in REGIONS if environ.get(name)))
    if "github-token" in asked.given or ("table-name" in asked.given and "config" not in asked.given):
        _on_github(told, job)
    return told


def defaults(asked: Asked) -> Document:
    """What refresh takes for granted, beneath everything that anybody says."""
    if asked.mode != REFRESH or "table-name" not in asked.given or "config" in asked.given:
        return {}
    classes = {name: {"cpu": cpu, "mem": mem} for name, (cpu, mem) in CLASSES.items()}
    return {
        "timings": {"idle": 300, "max-runtime": 1800},
        "github": {"token-rotation": 1800},
        "agent": {"pre-runner-script": SCRIPT},
        "classes": {} if "resource-class-config" in asked.given else classes,
    }


def request_of(asked: Asked) -> dict[str, Any]:
    """What provision asks for: as the workflow says, else as the original would, else as the command line would."""
    asks: dict[str, Any] = {"resource-class": "small", "usage-class": "on-demand", "allowed-instance-types": ["*"]}
    if "table-name" in asked.given:
        asks |= REQUEST
    if asked.word == "start":
        asks["usage-class"] = "on-demand"
    return asks | {name: asked.given[name] for name in asks if name in asked.given}


def _on_github(told: Document, job: Job) -> None:
    _put(told, "engines.ci", "github")
    _put(told, "github.scope", job.repository)
    _put(told, "github.url", job.server_url)
    if job.api_url:
        _put(told, "github.api-url", job.api_url)
    # Provision and release make no call to GitHub, and the settings insist on credentials.
    told["github"].setdefault("token", NO_TOKEN)


def _put(told: Document, place: str, value: Any, separator: str = ".") -> None:
    *tables, key = place.split(separator)
    for table in tables:
        told = told.setdefault(table, {})
    told[key] = value
