"""The inputs as a settings document like bullpen.toml, for the engines in this job.

With `table-name` and without a file, the defaults of the archived original apply: refresh publishes its settings in the
pool's table, where provision and release find them. With a bullpen.toml the file decides.
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
"""Packages that Amazon Linux 2023 lacks. The original also updates all packages, which takes minutes per boot."""

CPUS = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32, "12xlarge": 48, "16xlarge": 64}
CLASSES: Mapping[str, Document] = {name: {"cpu": cpu, "mem": 2048 * cpu} for name, cpu in CPUS.items()}
"""The classes of the original: 2 GiB of memory for each processor."""

REQUEST = {"resource-class": "large", "usage-class": "spot", "allowed-instance-types": ["c*", "m*", "r*"]}
"""The default request of the original."""

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
    # The input is an age, the setting the time that must be left of GitHub's hour.
    "github-reg-token-refresh-min": ("github.token-rotation", lambda minutes: HOUR - 60 * minutes),
    "idle-time-sec": ("timings.idle", int),
    "startup-timeout-minutes": ("timings.validation", lambda minutes: 60 * minutes),
    "pre-runner-script": ("agent.pre-runner-script", str),
    "resource-class-config": ("classes", dict),
}
_NO_CREDENTIALS = {"token": "not needed: only refresh calls GitHub", "app-id": "", "private-key": ""}
"""Provision and release make no call to GitHub, but the validation of the settings requires credentials."""


def document_of(asked: StepInputs, environ: Mapping[str, str]) -> Document:
    """The settings that the inputs set."""
    document: Document = {}
    for name, (place, convert) in SETTINGS.items():
        if name in asked.given:
            _put(document, place, convert(asked.given[name]))
    if asked.mode == REFRESH and "max-runtime-min" in asked.given:
        _put(document, "timings.max-runtime", 60 * asked.given["max-runtime-min"])
    if "table-name" in asked.given:
        _put(document, "engines.pool", "aws")
        if "aws-region" not in asked.given:
            _put(document, "aws.region", next(environ[name] for name in REGIONS if environ.get(name)))
    if asked.mode != REFRESH and _is_on_github(asked):
        document.setdefault("github", {}).update(_NO_CREDENTIALS)
    return document


def with_fallback(asked: StepInputs, document: Document, settings: Settings) -> Document:
    """The document with spot-fallback: for the requested class, in refresh for all classes unless one is named.

    Raise ConfigError for an unknown class.
    """
    kinds = list(settings.classes)
    if asked.mode != REFRESH or "resource-class" in asked.given:
        kinds = [request_of(asked)["resource-class"]]
        settings.resource_class(kinds[0])
    says, classes = asked.given["spot-fallback"] == "on-demand", document.get("classes", {})
    changed = {kind: {**classes.get(kind, {}), "spot-fallback": says} for kind in kinds}
    return {**document, "classes": {**classes, **changed}}


def defaults(asked: StepInputs, job: JobContext) -> Document:
    """The defaults beneath all other sources: this repository's pool, and in refresh the values of the original."""
    place = {"engines": {"ci": "github"}, "github": _place(job)} if _is_on_github(asked) else {}
    if asked.mode != REFRESH or "table-name" not in asked.given or "config" in asked.given:
        return place
    return {
        **place,
        "timings": {"idle": 300, "max-runtime": 1800},
        "github": {**_place(job), "token-rotation": 1800},
        "agent": {"pre-runner-script": SCRIPT},
        "classes": {} if "resource-class-config" in asked.given else CLASSES,
    }


def request_of(asked: StepInputs) -> dict[str, Any]:
    """The request of provision: from the inputs, else as in the original, else as on the command line."""
    asks: dict[str, Any] = {"resource-class": "small", "usage-class": "on-demand", "allowed-instance-types": ["*"]}
    if "table-name" in asked.given:
        asks |= REQUEST
    if asked.word == "start":
        asks["usage-class"] = "on-demand"
    return asks | {name: asked.given[name] for name in asks if name in asked.given}


def _is_on_github(asked: StepInputs) -> bool:
    return "github-token" in asked.given or ("table-name" in asked.given and "config" not in asked.given)


def _place(job: JobContext) -> Document:
    """The repository of the job and the URLs of its GitHub."""
    place = {"scope": job.repository, "url": job.server_url}
    return place | {"api-url": job.api_url} if job.api_url else place


def _put(document: Document, place: str, value: Any) -> None:
    *tables, key = place.split(".")
    for table in tables:
        document = document.setdefault(table, {})
    document[key] = value
