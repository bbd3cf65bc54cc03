"""What may be asked of a job, and its first step: into the queue."""

import math
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NoReturn

from bullpen.config import Settings
from bullpen.errors import ConfigError, Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model import job as steps
from bullpen.model import limits
from bullpen.model.job import Job
from bullpen.model.manifest import is_hash
from bullpen.ports import Ports


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job as a user asks for it. `timeout` 0: only the run's maximum runtime bounds it."""

    run_id: str
    command: tuple[str, ...]
    name: str = ""
    index: int = 0
    timeout: float = 0.0
    capability: str = ""
    side_effects: bool = False
    source: str = ""
    artifacts: tuple[str, ...] = ()


def checked(request: JobRequest) -> JobRequest:
    """The request, or ConfigError naming the field, its value and what is allowed."""
    if not limits.is_run_id(request.run_id):
        _refuse("run-id", request.run_id, limits.run_id_allowed())
    _check_command(request.command)
    if len(request.name) > limits.JOB_NAME_LENGTH or not request.name.isprintable():
        _refuse("name", request.name, f"at most {limits.JOB_NAME_LENGTH} printable characters")
    low, high = limits.JOB_TIMEOUT
    if request.timeout != 0 and not (math.isfinite(request.timeout) and low <= request.timeout <= high):
        _refuse("timeout", request.timeout, f"{low:g} to {high:g} seconds")
    if request.capability and not limits.is_word(request.capability, limits.CAPABILITY_LENGTH):
        _refuse("capability", request.capability, limits.word_allowed(limits.CAPABILITY_LENGTH))
    if request.source and not is_hash(request.source):
        _refuse("source", request.source, "the id of a source: 64 hexadecimal digits")
    _check_artifacts(request.artifacts)
    return request


def check_served(settings: Settings) -> None:
    """Raise ConfigError where no agent would ever ask for a job: if it executes GitHub's; and on AWS, where they do so
    through `serve` only, without one."""
    if settings.on_github:
        raise ConfigError(
            'engines.ci is "github": runners execute only the jobs of its workflows',
            remedy="Let jobs of the workflow ask for the run's label in runs-on; or use a pool of its own for this.",
        )
    if settings.engines.pool == "aws" and not settings.agent.serve_url:
        raise ConfigError(
            'agent.serve-url is not set: with engines.pool = "aws" jobs reach their runners through `bullpen serve`',
            remedy="Set agent.serve-url to where the machines reach `bullpen serve`, or let your CI run the jobs.",
        )


async def submit(ports: Ports, requests: Sequence[JobRequest], *, by: str, avoid: str = "", id: str = "") -> list[Job]:
    """Queue jobs, in order. Every request is checked before the first is written. No job goes to the worker `avoid`
    while another one of the run lives. A single job can have an `id`; one that is stored already stays as it is."""
    for request in requests:
        checked(request)
    for source in sorted({request.source for request in requests} - {""}):
        await ports.sources.keep(source)  # from now on until the job, once it is stored, keeps it
    if any(request.artifacts for request in requests):
        await ports.artifacts.read("any", 0, 0, 1)  # raises where there is no store for them
    now = ports.clock.now()
    changes = [
        steps.submit(
            steps.absent(id or f"j-{ports.chance.token()}", request.run_id, request.command),
            steps.Submitted(
                at=now,
                by=by,
                name=request.name,
                index=request.index,
                timeout=request.timeout,
                capability=request.capability,
                side_effects=request.side_effects,
                avoid=avoid,
                source=request.source,
                artifacts=request.artifacts,
            ),
        )
        for request in requests
    ]
    landed = await ports.records.apply_each(changes)
    # The id was drawn just now, or stands for this request: it is taken by the write whose answer was lost.
    return [one.found if isinstance(one, Conflict) else one for one in landed]


def id_of_key(run_id: str, key: str, by: str) -> str:
    """The id of the job that a caller asks for with a key of its own: asked twice, it is one job."""
    return f"j-{sha256(chr(0).join((by, run_id, key)).encode()).hexdigest()[:16]}"


def request_of(job: Job) -> JobRequest:
    """What it was submitted with."""
    return JobRequest(
        run_id=job.run_id,
        command=job.command,
        name=job.name,
        index=job.index,
        timeout=job.timeout,
        capability=job.own_capability,
        side_effects=job.side_effects,
        source=job.source,
        artifacts=job.artifacts,
    )


def _check_command(command: tuple[str, ...]) -> None:
    if not 1 <= len(command) <= limits.COMMAND_WORDS:
        _refuse("command", f"{len(command)} words", f"1 to {limits.COMMAND_WORDS} words")
    if not command[0]:
        _refuse("command", "", "a program and its arguments")
    if any("\0" in word for word in command):
        _refuse("command", "a word with a NUL character", "words without one")
    try:
        size = sum(len(word.encode()) for word in command)
    except UnicodeEncodeError:
        _refuse("command", "a word that is not UTF-8", "text")
    if size > limits.COMMAND_BYTES:
        _refuse("command", f"{size} bytes", f"at most {limits.COMMAND_BYTES} bytes in all")


def _check_artifacts(patterns: tuple[str, ...]) -> None:
    if len(patterns) > limits.ARTIFACT_PATTERNS:
        _refuse("artifacts", f"{len(patterns)} patterns", f"at most {limits.ARTIFACT_PATTERNS} patterns")
    for pattern in patterns:
        names = pattern.split("/")
        is_inside = not pattern.startswith("/") and ".." not in names and any(name not in ("", ".") for name in names)
        if not (is_inside and pattern.isprintable() and len(pattern) <= limits.ARTIFACT_PATTERN_LENGTH):
            allowed = (
                f"a path or pattern below the job's directory, at most {limits.ARTIFACT_PATTERN_LENGTH} characters"
            )
            _refuse("artifacts", pattern, allowed)


def _refuse(field: str, found: Any, allowed: str) -> NoReturn:
    shown = repr(found) if not isinstance(found, str) or len(found) <= 40 else f"{found[:40]!r}…"
    raise ConfigError(f"{field} {shown}: must be {allowed}", field=field, value=found, allowed=allowed)
