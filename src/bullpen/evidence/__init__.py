"""GatheredFiles: everything that is known about one record, for a person who was not there.

    manifest.json                  what is in the archive, and what is missing and why
    records/ID.json                each record with its story
    why.json                       what `bullpen why --json` prints: why it waits, or where its time went
    instances/ID/agent.log         logs of the machine, as far as they can be read from here; on EC2 console.log
    workers/KEY.json               what a worker reports about itself
    jobs/ID.attempt-N.log          what a job printed in its last attempt
    settings.json, versions.json   the settings without secrets, and the versions of what made the archive

Secrets are removed from every file (`scrub`). Each log is its end, and the whole is bounded: what did not fit is named.
"""

import asyncio
import platform
import sqlite3
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from bullpen import __version__
from bullpen.config import Settings
from bullpen.errors import BullpenError, NotFound
from bullpen.evidence.archive import EvidenceFile, safe_part
from bullpen.evidence.scrub import Scrubber
from bullpen.explain import why
from bullpen.inventory import Story, stories
from bullpen.model.instance import Instance
from bullpen.model.job import Job
from bullpen.model.provision import Provision
from bullpen.model.ticket import format_time
from bullpen.model.worker import Worker
from bullpen.ports import LOG_LIMIT, Ports
from bullpen.schema.story import story_of
from bullpen.schema.why import why_of
from bullpen.schema.worker import worker_of
from bullpen.settings.redaction import abridged

LOG_TAIL = 256 * 1024  # bytes of each log: the last thousands of lines
TOTAL = 16 * 1024 * 1024  # bytes of all files, before they are compressed
INSTANCES, JOBS = 20, 50  # of a run with more, the first ones: the archive is about one of them, and still readable
WORKERS = 4  # of one machine: each start of its agent is another one
READ = 256 * 1024  # bytes of a job's log in one request
SCRIPTS = ("agent.pre-runner-script",)  # settings whose text may contain anything
NOTE = (
    "Secrets that Bullpen knows, and what has the form of one, were removed. Jobs may print others: look through the"
    " logs before you hand this archive on."
)


class GatheredFiles:
    """The files so far. `missing` says of each other one why it is not there."""

    def __init__(self, scrubber: Scrubber) -> None:
        self.files: list[EvidenceFile] = []
        self.missing: dict[str, str] = {}
        self._scrubber = scrubber
        self._room = TOTAL

    def add_json(self, name: str, value: Any) -> None:
        tree = self._scrubber.tree(msgspec.to_builtins(value))
        self._add(name, msgspec.json.format(msgspec.json.encode(tree)) + b"\n")

    def add_log(self, name: str, content: bytes, size: int) -> None:
        """The end of a log. Where it is cut, it begins with a whole line: half of a secret has no form."""
        if size > len(content):
            content = content.partition(b"\n")[2] or content
        self._add(name, self._scrubber.log(content), size)

    def miss(self, name: str, why: str) -> None:
        self.missing[self._scrubber.text(name)] = self._scrubber.text(why)

    def _add(self, name: str, content: bytes, size: int | None = None) -> None:
        if any(one.name == name for one in self.files):
            self.miss(f"{name} (a second one)", "another record has the same name here")
        elif len(content) > self._room:
            self.miss(name, f"the archive is full: all files together have at most {TOTAL} bytes")
        else:
            self._room -= len(content)
            self.files.append(EvidenceFile(name, content, len(content) if size is None else size))


async def gather(ports: Ports, settings: Settings, subject: str, scrubber: Scrubber) -> list[EvidenceFile]:
    """The files of the archive, the manifest first. Raise NotFound for an unknown record."""
    found = await stories(ports, settings, subject)
    records = {one.id: one for one in found}
    evidence = GatheredFiles(scrubber)
    for id in await _related(ports, found):
        if id not in records:
            try:
                records |= {one.id: one for one in await stories(ports, settings, id) if one.id == id}
            except NotFound:
                evidence.miss(f"records/{safe_part(id)}.json", "the record was purged")
    for id, story in records.items():
        evidence.add_json(f"records/{safe_part(id)}.json", {"record": story.record, "story": story_of(story)})
        await asyncio.sleep(0)  # removing secrets takes milliseconds: other work has its turn between two files
    try:
        evidence.add_json("why.json", why_of(await why(ports, settings, subject)))
    except BullpenError as exc:
        evidence.miss("why.json", str(exc))
    evidence.add_json("settings.json", shown_settings(settings))
    evidence.add_json("versions.json", _versions(settings))
    everything = [story.record for story in records.values()]
    await _add_workers(ports, evidence, [one for one in everything if isinstance(one, Worker)])
    await _add_machines(ports, evidence, list(dict.fromkeys(_machines(everything))))
    await _add_jobs(ports, evidence, [one for one in everything if isinstance(one, Job)])
    manifest = {
        "subject": scrubber.text(subject),
        "madeAt": format_time(ports.clock.now()),
        "version": __version__,
        "note": NOTE,
        "files": [{"name": one.name, "bytes": len(one.content), "wholeBytes": one.size} for one in evidence.files],
        "missing": [{"name": name, "why": why} for name, why in evidence.missing.items()],
    }
    content = msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"
    return [EvidenceFile("manifest.json", content, len(content)), *evidence.files]


async def _related(ports: Ports, found: Sequence[Story]) -> list[str]:
    """The records that explain these: the machine of a job, the jobs and the worker of a machine."""
    ids: list[str] = []
    for story in found:
        match story.record:
            case Job() as job:
                ids += [job.instance_id, job.worker]
            case Worker() as worker:
                ids.append(worker.instance_id)
            case Provision() as provision:
                ids += provision.members[:INSTANCES]
    alone = found[0].record if len(found) == 1 else None
    if isinstance(alone, Instance):
        runs = dict.fromkeys([alone.run_id, *(line.run_id for line in found[0].lines)])
        for run_id in [one for one in runs if one]:
            jobs = await ports.jobs.of_run(run_id, JOBS)
            ids += [name for job in jobs if job.instance_id == alone.id for name in (job.id, job.worker)]
        ids.append(alone.provision_id)
    machines = [story.record.id for story in found if isinstance(story.record, Instance)]
    for id in machines[:INSTANCES]:
        ids += [one.id for one in await ports.workers.listed(WORKERS, f"{id}/") if one.id.startswith(f"{id}/")]
    return [id for id in dict.fromkeys(ids) if id]


def _machines(records: Sequence[object]) -> list[str]:
    found = []
    for one in records:
        match one:
            case Instance():
                found.append(one.id)
            case Worker() | Job() if one.instance_id:
                found.append(one.instance_id)
    return found


async def _add_machines(ports: Ports, evidence: GatheredFiles, ids: Sequence[str]) -> None:
    for id in ids[INSTANCES:]:
        evidence.miss(f"instances/{safe_part(id)}", f"only {INSTANCES} machines are in one archive: name this one")
    for id in ids[:INSTANCES]:
        place = f"instances/{safe_part(id)}"
        logs = await ports.machine_logs.read(id, LOG_TAIL)
        for name, log in logs.logs.items():
            evidence.add_log("/".join([place, *map(safe_part, name.split("/"))]), log.content, log.size)
            await asyncio.sleep(0)
        for name, reason in logs.missing.items():
            evidence.miss(f"{place}/{name}", reason)


async def _add_workers(ports: Ports, evidence: GatheredFiles, workers: Sequence[Worker]) -> None:
    cards = await ports.workers.cards([one.id for one in workers]) if workers else {}
    for one in workers:
        name = f"workers/{safe_part(one.id)}.json"
        if (card := cards.get(one.id)) is not None:
            evidence.add_json(name, worker_of(one, card))
        else:
            evidence.miss(name, "the worker has reported nothing about itself")


async def _add_jobs(ports: Ports, evidence: GatheredFiles, jobs: Sequence[Job]) -> None:
    for job in jobs[JOBS:]:
        evidence.miss(f"jobs/{safe_part(job.id)}", f"only the logs of {JOBS} jobs are in one archive: name this one")
    for job in jobs[:JOBS]:
        name = f"jobs/{safe_part(job.id)}.attempt-{job.fence}.log"
        if job.fence == 0:
            evidence.miss(name, "the job has never been given to a worker")
            continue
        try:
            content, size = await _log_of(ports, job)
        except BullpenError as exc:
            evidence.miss(name, str(exc))
            continue
        if size:
            evidence.add_log(name, content, size)
            await asyncio.sleep(0)
        else:
            evidence.miss(name, "the job has printed nothing, or its log is with GitHub")


async def _log_of(ports: Ports, job: Job) -> tuple[bytes, int]:
    """The end of a log, and its whole length."""
    content, size = b"", 0
    while size <= LOG_LIMIT:
        piece = await ports.logs.read(job.id, job.fence, size, READ)
        content, size = (content + piece)[-LOG_TAIL:], size + len(piece)
        if len(piece) < READ:
            break
    return content, size


def shown_settings(settings: Settings) -> dict[str, Any]:
    """Every setting by its dotted name, without secrets."""
    return _flat(msgspec.to_builtins(settings), "")


def _flat(tree: dict[str, Any], above: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            found |= _flat(value, f"{name}.")
        elif name in SCRIPTS and value:
            found[name] = f"({len(value)} characters)"
        else:
            found[name] = abridged(name, value)
    return found


def _versions(settings: Settings) -> dict[str, str]:
    return {
        "bullpen": __version__,
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "system": platform.platform(),
        "sqlite": sqlite3.sqlite_version,
        "engine": settings.engines.pool,
        "ci": settings.engines.ci,
    }
