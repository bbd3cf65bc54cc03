"""The files that `bullpen run --artifact` brings back: where they go, and how they get there."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from bullpen.cli.backend import Backend
from bullpen.cli.runs import refusal
from bullpen.cli.text import plural
from bullpen.errors import BullpenError
from bullpen.lazy_dataclass import dataclass
from bullpen.model.job import FINISHED, Job
from bullpen.settings.redaction import shortened
from bullpen.sources import fetch_artifacts

DEFAULT = "artifacts"


@dataclass(frozen=True, slots=True)
class Collected:
    """The files that came back, below `out` and by the id of their job, and why those of other jobs did not."""

    out: Path
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: Sequence[str] = ()

    def summary(self, patterns: Sequence[str]) -> str:
        """Empty if only problems came of it: they say why."""
        count = sum(map(len, self.files.values()))
        if not count:
            # A runner leaves files out that are too large, and says so in the job's log.
            wanted = " or ".join(map(shortened, patterns))
            return "" if self.problems else f"no artifacts: no file that matches {wanted} came back"
        jobs = sum(bool(paths) for paths in self.files.values())
        return f"artifacts: {plural(count, 'file')} of {plural(jobs, 'job')} in {self.out}"


def checked_out(out: str | None, patterns: Sequence[str], run_id: str) -> Path:
    """Where artifacts go. Raise ConfigError, before any work, if they could not go there."""
    if out is not None and not patterns:
        raise refusal("--out", "no --artifact names the files to bring back", remedy="Add --artifact GLOB.")
    if out == "":
        raise refusal("--out", "must name a directory", "''", f"Leave it out for {DEFAULT}/<run id>.")
    path = Path(out) if out is not None else Path(DEFAULT) / directory_name(run_id)
    if not patterns:
        return path
    if out is None and os.path.islink(DEFAULT):  # the project has it: the user did not choose where it leads
        raise refusal("--out", f"{DEFAULT} is a symlink", f"{DEFAULT}/<run id>", "Name a directory with --out DIR.")
    standing = next(one for one in (path, *path.absolute().parents) if os.path.lexists(one))
    if not standing.is_dir():
        raise refusal("--out", f"{standing} is not a directory", repr(str(path)), "Name another directory.")
    if not os.access(standing, os.W_OK | os.X_OK):
        raise refusal("--out", f"{standing} cannot be written", repr(str(path)), "Name another directory.")
    return path


async def collect(pool: Backend, jobs: Sequence[Job], out: Path) -> Collected:
    """Write what each job left below a directory of its own."""
    files: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    is_new = _makes_the_default(out)
    for job, name in zip(jobs, directories(jobs), strict=True):
        if job.state is not FINISHED or not job.fence:
            continue

        async def read(offset: int, job: Job = job) -> bytes:
            return await pool.artifacts(job.id, job.fence, offset)

        try:
            found = await fetch_artifacts(read, out / name)
        except BullpenError as exc:
            problems.append(f"{job.name or job.id}: {exc}")
            continue
        files[job.id] = tuple(f"{name}/{path}" for path in found)
    if is_new:
        _keep_out_of_git(Path(DEFAULT))
    return Collected(out, files, problems)


def _makes_the_default(out: Path) -> bool:
    return out.parent == Path(DEFAULT) and not os.path.lexists(DEFAULT)


def _keep_out_of_git(made: Path) -> None:
    """What jobs left is no part of the project: the next run would send it to every job."""
    with suppress(OSError):  # it does not exist if nothing came
        (made / ".gitignore").write_text("*\n")


def directories(jobs: Sequence[Job]) -> list[str]:
    """A directory for each job, named after it; no two jobs share one."""
    names = [directory_name(job.name or job.id) for job in jobs]
    folded = [name.casefold() for name in names]  # a file system may not tell A from a
    pairs = zip(names, jobs, strict=True)
    return [name if folded.count(name.casefold()) == 1 else f"{name}-{job.id}" for name, job in pairs]


def directory_name(name: str) -> str:
    """One part of a path, whatever a job is called."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100]
    return safe if safe.strip(".") else f"_{safe}"
