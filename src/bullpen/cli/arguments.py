"""Validation of command-line arguments before any work: each error names the option, the value and what is allowed."""

import re
from typing import TYPE_CHECKING, NoReturn

from bullpen.cli.runs import LABELS, label_of, named_run, refusal, repository_of
from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.model import limits
from bullpen.model.ticket import Requirements, UsageClass
from bullpen.model.times import WAITS, parse_wait
from bullpen.provision.outcome import Request
from bullpen.settings.redaction import shortened
from bullpen.settings.setting import nearest

if TYPE_CHECKING:
    from bullpen.jobs.request import JobRequest


def checked_request(
    settings: Settings | None,
    *,
    run_id: str,
    count: str,
    resource_class: str,
    usage_class: str,
    allowed_types: str,
    cpu: str,
    mem: str,
    max_runtime_min: str | None,
    trust_domain: str,
    allow_partial: bool,
    wait: str | None = None,
    repository: str = "",
    label_by: str = "run",
    attempt: str | None = None,
) -> Request:
    """The provision request that these options describe. Raise ConfigError. Without settings, what depends on them is
    left to the server, which has them; `max_runtime` is then 0 unless it is given."""
    patterns = allowed_types.replace(",", " ").split()
    if not 1 <= len(patterns) <= limits.TYPE_PATTERNS:
        allowed = f"1 to {limits.TYPE_PATTERNS} patterns such as 'local.* c*'"
        _refuse("--allowed-instance-types", f"{len(patterns)} patterns in {shortened(allowed_types)}", allowed)
    for pattern in patterns:
        if not re.fullmatch(limits.TYPE_PATTERN, pattern):
            _refuse("--allowed-instance-types", shortened(pattern), limits.TYPE_PATTERN_ALLOWED)
    if not re.fullmatch(limits.TRUST_DOMAIN, trust_domain):
        _refuse("--trust-domain", shortened(trust_domain), limits.TRUST_DOMAIN_ALLOWED)
    if settings is not None:
        resource_class = _one_of("--resource-class", resource_class, list(settings.classes))
    run = named_run(run_id)
    number = 0 if attempt is None else _whole("--attempt", attempt, 1, limits.ATTEMPTS)
    label = label_of(settings, run, _one_of("--label-by", label_by, list(LABELS)), number, resource_class)
    asked = (
        resource_class,
        UsageClass(_one_of("--usage-class", usage_class, [one.value for one in UsageClass])),
        tuple(patterns),
        _whole("--cpu", cpu, 0, limits.CPU),
        _whole("--mem", mem, 0, limits.MEM, "MiB"),
        trust_domain,
    )
    of_run = repository_of(settings, run, repository)
    needs = settings.requirements(*asked, of_run) if settings else Requirements(*asked, repository=of_run)
    runtime = settings.timings.max_runtime if settings else 0.0
    if max_runtime_min is not None:
        runtime = 60.0 * _whole("--max-runtime-min", max_runtime_min, 1, limits.RUNTIME_MINUTES, "minutes")
    return Request(
        run_id=label,
        count=_count(settings, count),
        needs=needs,
        max_runtime=runtime,
        allow_partial=allow_partial,
        wait=0.0 if wait is None else _wait(wait),
    )


def checked_job(
    run_id: str, words: tuple[str, ...], *, name: str, timeout: str | None, capability: str, side_effects: bool
) -> "JobRequest":
    """The job that these options describe. Raise ConfigError."""
    from bullpen.jobs.request import JobRequest, checked

    if not words:
        remedy = "Put the command last, after --, as in `-- make test`."
        raise ConfigError("COMMAND: must be a program and its arguments", remedy=remedy, field="COMMAND")
    seconds = 0.0
    if timeout is not None:
        seconds = float(timeout) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", timeout) else -1.0
        if seconds <= 0:
            _refuse("--timeout", shortened(timeout), "{} to {} seconds".format(*limits.JOB_TIMEOUT))
    try:
        return checked(JobRequest(checked_run_id(run_id), words, name, 0, seconds, capability, side_effects))
    except ConfigError as exc:
        if exc.field == "command":
            raise
        raise ConfigError(f"--{exc}", remedy=exc.remedy, field=f"--{exc.field}") from exc


def checked_artifacts(job: "JobRequest") -> "JobRequest":
    """The job, with patterns of files that can be collected. Raise ConfigError."""
    from bullpen.jobs.request import checked

    try:
        return checked(job)
    except ConfigError as exc:
        if exc.field != "artifacts":
            raise
        text = str(exc).removeprefix("artifacts ")
        raise ConfigError(f"--artifact {text}", remedy=exc.remedy, field="--artifact") from exc


def checked_retries(text: str) -> int:
    """How often a job that failed runs again. Raise ConfigError."""
    return _whole("--retries", text, 0, limits.RETRIES)


def checked_run_id(run_id: str) -> str:
    """The run id for records, labels and messages; if the URL of a run's page was given, the run's number."""
    return named_run(run_id).id


def checked_id(id: str) -> str:
    """The id of any record: a run's own id, or a generated one. A run may also be given by the URL of its page."""
    if id.startswith(("http://", "https://")):
        return named_run(id).id
    if not id or not id.isprintable() or " " in id:
        _refuse(
            "ID", shortened(id), "printable characters without spaces", "Run `bullpen status` to list the instances."
        )
    return id


def _whole(option: str, text: str, low: int, high: int, unit: str = "") -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text) or not low <= int(text) <= high:
        found = text if re.fullmatch(r"-?[0-9]{1,20}", text) else shortened(text)
        _refuse(option, found, f"a whole number from {low} to {high} {unit}".rstrip())
    return int(text)


def _count(settings: Settings | None, text: str) -> int:
    if settings is None:
        return _whole("--count", text, 1, limits.COUNT)
    return _whole("--count", text, 1, settings.limits.max_count, "(limits.max-count)")


def _wait(text: str) -> float:
    seconds = parse_wait(text)
    return _refuse("--wait", shortened(text), WAITS) if seconds is None else seconds


def _one_of(option: str, text: str, known: list[str]) -> str:
    if text not in known:
        meant = nearest(text, known)
        _refuse(option, shortened(text), f"one of {', '.join(known)}", f"Did you mean {meant}?" if meant else "")
    return text


def _refuse(option: str, found: str, allowed: str, remedy: str = "") -> NoReturn:
    raise refusal(option, f"must be {allowed}", found, remedy)
