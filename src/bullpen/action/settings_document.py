"""What the inputs say of a pool's settings, as a document like bullpen.toml: for the engines in this job.

With `table-name` alone the archived original's defaults hold: refresh writes them down, and what it was told stands in
the pool's table, where provision and release find what they are not told. With a bullpen.toml the file decides.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bullpen.action.input_specs import REFRESH
from bullpen.action.inputs import StepInputs
from bullpen.action.job_context import JobContext
from bullpen.action.pool_location import REGIONS
from bullpen.config import Settings

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
_NO_CREDENTIALS = {"token": "not needed: only refresh speaks with GitHub", "app-id": "", "private-key": ""}
"""Provision and release make no call to GitHub, and the settings insist on credentials."""


def document_of(asked: StepInputs, environ: Mapping[str, str]) -> Document:
    """The settings that the inputs stand for."""
    told: Document = {}
    for name, (place, convert) in SETTINGS.items():
        if name in asked.given:
            _put(told, place, convert(asked.given[name]))
    if asked.mode == REFRESH and "max-runtime-min" in asked.given:
        _put(told, "timings.max-runtime", 60 * asked.given["max-runtime-min"])
    if "table-name" in asked.given:
        _put(told, "engines.pool", "aws")
        if "aws-region" not in asked.given:
            _put(told, "aws.region", next(environ[name] for name in REGIONS if environ.get(name)))
    if asked.mode != REFRESH and _is_on_github(asked):
        told.setdefault("github", {}).update(_NO_CREDENTIALS)
    return told


def with_fallback(asked: StepInputs, document: Document, settings: Settings) -> Document:
    """What spot-fallback adds: for the class that is asked for, in refresh for all unless one is named. Raise
    ConfigError for one that nobody knows."""
    kinds = list(settings.classes)
    if asked.mode != REFRESH or "resource-class" in asked.given:
        kinds = [request_of(asked)["resource-class"]]
        settings.resource_class(kinds[0])
    says, classes = asked.given["spot-fallback"] == "on-demand", document.get("classes", {})
    told = {kind: {**classes.get(kind, {}), "spot-fallback": says} for kind in kinds}
    return {**document, "classes": {**classes, **told}}


def defaults(asked: StepInputs, job: JobContext) -> Document:
    """What is taken for granted, beneath everything that anybody says: that the pool is the repository's own, and in
    refresh what the original has."""
    place = {"engines": {"ci": "github"}, "github": _place(job)} if _is_on_github(asked) else {}
    if asked.mode != REFRESH or "table-name" not in asked.given or "config" in asked.given:
        return place
    classes = {name: {"cpu": cpu, "mem": mem} for name, (cpu, mem) in CLASSES.items()}
    return {
        **place,
        "timings": {"idle": 300, "max-runtime": 1800},
        "github": {**_place(job), "token-rotation": 1800},
        "agent": {"pre-runner-script": SCRIPT},
        "classes": {} if "resource-class-config" in asked.given else classes,
    }


def request_of(asked: StepInputs) -> dict[str, Any]:
    """What provision asks for: as the workflow says, else as the original would, else as the command line would."""
    asks: dict[str, Any] = {"resource-class": "small", "usage-class": "on-demand", "allowed-instance-types": ["*"]}
    if "table-name" in asked.given:
        asks |= REQUEST
    if asked.word == "start":
        asks["usage-class"] = "on-demand"
    return asks | {name: asked.given[name] for name in asks if name in asked.given}


def _is_on_github(asked: StepInputs) -> bool:
    return "github-token" in asked.given or ("table-name" in asked.given and "config" not in asked.given)


def _place(job: JobContext) -> Document:
    """The job's own repository, where its GitHub is."""
    place = {"scope": job.repository, "url": job.server_url}
    return place | {"api-url": job.api_url} if job.api_url else place


def _put(told: Document, place: str, value: Any) -> None:
    *tables, key = place.split(".")
    for table in tables:
        told = told.setdefault(table, {})
    told[key] = value
