"""The file of `bullpen run --jobs`: JSON lines, or one JSON list. An error names the line and the field."""

import json
from pathlib import Path
from typing import Any, NoReturn, TextIO

from bullpen.errors import ConfigError
from bullpen.jobs.request import JobRequest, checked
from bullpen.settings.redaction import shortened
from bullpen.settings.setting import nearest

LARGEST = 16 * 1024 * 1024  # bytes
MOST = 10_000  # jobs
FIELDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "name": (str, "a text"),
    "command": (list, "a list of words"),
    "timeout": ((int, float), "seconds"),
    "capability": (str, "a text"),
    "side-effects": (bool, "true or false"),
}


def read_jobs(name: str, stdin: TextIO | None) -> list[JobRequest]:
    """The jobs of a file, or of standard input for `-`, in order and without a run id. Raise ConfigError."""
    text = _read(name, stdin)
    entries = _entries(f"--jobs {name}", text)
    if not 1 <= len(entries) <= MOST:
        raise ConfigError(f"--jobs {name}: {len(entries)} jobs, must be 1 to {MOST}", field="--jobs")
    return [_job(where, index, entry) for index, (where, entry) in enumerate(entries)]


def _read(name: str, stdin: TextIO | None) -> str:
    if name == "-" and stdin is None:
        raise ConfigError("--jobs -: stdin is closed", field="--jobs")
    try:
        content = stdin.read(LARGEST + 1) if stdin and name == "-" else _start_of(Path(name))
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8"
        raise ConfigError(f"--jobs {name}: cannot be read ({reason})", field="--jobs") from exc
    if len(content) > LARGEST:
        raise ConfigError(f"--jobs {name}: longer than {LARGEST} bytes", field="--jobs")
    return content


def _start_of(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(LARGEST + 1).decode()


def _entries(file: str, text: str) -> list[tuple[str, Any]]:
    """Where each entry stands, and the entry."""
    if text.lstrip().startswith("["):
        return [(f"{file}, entry {number}", entry) for number, entry in enumerate(_parsed(file, text), 1)]
    lines = [(f"{file}, line {number}", line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    return [(where, _parsed(where, line)) for where, line in lines]


def _parsed(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{where}: not valid JSON ({exc})", field="--jobs") from exc


def _job(where: str, index: int, entry: Any) -> JobRequest:
    if not isinstance(entry, dict):
        _refuse(where, entry, 'an object such as {"command": ["make", "test"]}')
    for field, value in entry.items():
        if field not in FIELDS:
            meant = nearest(field, list(FIELDS))
            remedy = f"Did you mean {meant}?" if meant else f"The fields are {', '.join(FIELDS)}."
            raise ConfigError(f"{where}: {shortened(field)} is not a field of a job", remedy=remedy, field="--jobs")
        kind, allowed = FIELDS[field]
        if not isinstance(value, kind) or (field == "timeout" and not _is_time(value)):
            _refuse(f"{where}: {field}", value, allowed)
    command = entry.get("command", [])
    if not all(isinstance(word, str) for word in command):
        _refuse(f"{where}: command", command, "a list of words")
    request = JobRequest(
        run_id="-",
        command=tuple(word.replace("{index}", str(index)) for word in command),
        name=entry.get("name", f"job-{index}"),
        index=index,
        timeout=float(entry.get("timeout", 0.0)),
        capability=entry.get("capability", ""),
        side_effects=entry.get("side-effects", False),
    )
    try:
        return checked(request)
    except ConfigError as exc:
        raise ConfigError(f"{where}: {exc}", remedy=exc.remedy, field="--jobs") from exc


def _is_time(value: Any) -> bool:
    """In Python a bool is also an int, and an int of 400 digits does not fit into a float."""
    return not isinstance(value, bool) and abs(value) < 1e9


def _refuse(where: str, found: Any, allowed: str) -> NoReturn:
    raise ConfigError(f"{where} {shortened(json.dumps(found))}: must be {allowed}", field="--jobs")
