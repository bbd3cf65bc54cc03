"""GitHub's own description of its API, and its examples of webhooks, reduced to what Bullpen meets.

    fetch     two packages by npm, once, into the user's cache
    reduce    of 811 paths those below; references stay references, prose and pictures go
    load      a JSON file of a few hundred kilobytes, made again when this file changes

Everything waits for a bounded time. `python tests/fakes/github/description.py` fetches beforehand.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = {"@octokit/openapi": "23.0.2", "@octokit/webhooks-examples": "7.6.1"}
FETCHING_TAKES = 180.0  # seconds; 12 MB
REMEDY = "install npm (on Debian and Ubuntu: apt-get install npm), then `python tests/fakes/github/description.py`"

_RUNNERS = """
    get  {scope}/actions/runners
    post {scope}/actions/runners/registration-token
    post {scope}/actions/runners/remove-token
    post {scope}/actions/runners/generate-jitconfig
    get  {scope}/actions/runners/{runner_id}
    delete {scope}/actions/runners/{runner_id}
    get  {scope}/actions/runners/{runner_id}/labels
    post {scope}/actions/runners/{runner_id}/labels
    put  {scope}/actions/runners/{runner_id}/labels
    delete {scope}/actions/runners/{runner_id}/labels
    get  {scope}/installation
"""
_OTHERS = """
    get  /repos/{owner}/{repo}
    get  /repos/{owner}/{repo}/releases
    get  /repos/{owner}/{repo}/releases/latest
    get  /repos/{owner}/{repo}/deployments
    get  /repos/{owner}/{repo}/deployments/{deployment_id}/statuses
    get  /repos/{owner}/{repo}/actions/runs
    get  /repos/{owner}/{repo}/actions/runs/{run_id}
    get  /repos/{owner}/{repo}/actions/runs/{run_id}/jobs
    get  /repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}
    get  /repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}/jobs
    get  /repos/{owner}/{repo}/actions/runs/{run_id}/pending_deployments
    post /repos/{owner}/{repo}/actions/runs/{run_id}/cancel
    post /repos/{owner}/{repo}/actions/runs/{run_id}/force-cancel
    post /repos/{owner}/{repo}/actions/runs/{run_id}/rerun
    post /repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs
    get  /repos/{owner}/{repo}/actions/jobs/{job_id}
    post /repos/{owner}/{repo}/actions/jobs/{job_id}/rerun
    get  /orgs/{org}
    get  /orgs/{org}/actions/runner-groups
    get  /orgs/{org}/actions/runner-groups/{runner_group_id}/repositories
    get  /rate_limit
    get  /app
    get  /app/installations
    get  /app/installations/{installation_id}
    post /app/installations/{installation_id}/access_tokens
"""
_SCOPES = ("/repos/{owner}/{repo}", "/orgs/{org}")
OPERATIONS = [
    (method, path)
    for listed in (*(_RUNNERS.replace("{scope}", scope) for scope in _SCOPES), _OTHERS)
    for method, path in (line.split() for line in listed.splitlines() if line.strip())
]
WEBHOOKS = (
    "ping",
    "workflow-job-queued",
    "workflow-job-in-progress",
    "workflow-job-completed",
    "workflow-run-requested",
    "workflow-run-in-progress",
    "workflow-run-completed",
)
EXAMPLES = ("ping", "workflow_job", "workflow_run")
PROSE = {"description", "example", "examples", "externalDocs", "summary", "title", "tags", "deprecated"}

Json = dict[str, Any]


class DescriptionMissing(Exception):
    """It is not available here; the message says why, and what to do."""


@functools.cache
def load() -> Json:
    """`operations`, `webhooks` (both: schemas), `schemas` (what they refer to) and `examples`, of which the first of
    each response and every one of a webhook are kept."""
    loaded: Json = json.loads(fetch().read_bytes())
    return loaded


def fetch() -> Path:
    """The reduced description, made if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bullpen" / "test-engines"
    reduced = cache / f"github-{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]}.json"
    if reduced.exists():
        return reduced
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "github.lock").open("w") as lock, tempfile.TemporaryDirectory(prefix="github-", dir=cache) as aside:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes that fetch at once, one does
        if not reduced.exists():
            # Made aside and renamed: a file of this name is always whole, even if its maker was killed.
            described = _read("@octokit/openapi", "generated/api.github.com.json", cache, Path(aside))
            examples = _read("@octokit/webhooks-examples", "api.github.com/index.json", cache, Path(aside))
            made = Path(aside) / "reduced.json"
            made.write_text(json.dumps(reduce(described, examples)))
            made.rename(reduced)
    return reduced


def reduce(described: Json, examples: list[Json]) -> Json:
    operations = {}
    for method, path in OPERATIONS:
        found = described["paths"][path][method]
        answers = {status: _deref(answer, described) for status, answer in found["responses"].items()}
        operations[f"{method} {path}"] = {
            "parameters": [
                {name: bare(value) for name, value in _deref(parameter, described).items() if name not in PROSE}
                for parameter in found.get("parameters", ())
            ],
            "body": bare(_content(found.get("requestBody", {})).get("schema")),
            "answers": {status: bare(_content(answer).get("schema")) for status, answer in answers.items()},
            "example": next((_example(answer, described) for status, answer in answers.items() if status < "3"), None),
        }
    webhooks = {
        name: bare(_content(described["x-webhooks"][name]["post"]["requestBody"])["schema"]) for name in WEBHOOKS
    }
    return {
        "operations": operations,
        "webhooks": webhooks,
        "schemas": _schemas_behind([operations, webhooks], described),
        "examples": {one["name"]: one["examples"] for one in examples if one["name"] in EXAMPLES},
    }


def bare(schema: Any) -> Any:
    """Without prose; a property that is called like prose stays."""
    match schema:
        case dict():
            if schema.get("nullable") and "enum" in schema:
                # Strictly an enumeration without null allows none; GitHub means that it does, and answers so.
                schema = schema | {"enum": [*schema["enum"], None]}
            return {
                name: {prop: bare(value) for prop, value in below.items()} if name == "properties" else bare(below)
                for name, below in schema.items()
                if name not in PROSE and not name.startswith("x-")
            }
        case list():
            return [bare(below) for below in schema]
    return schema


def _schemas_behind(roots: Any, described: Json) -> Json:
    found: Json = {}
    left = list(_references(roots))
    while left:
        name = left.pop().rpartition("/")[2]
        if name not in found:
            found[name] = bare(described["components"]["schemas"][name])
            left.extend(_references(found[name]))
    return found


def _references(tree: Any) -> Iterator[str]:
    below: list[Any] = []
    if isinstance(tree, dict):
        if isinstance(reference := tree.get("$ref"), str):
            yield reference
        below = list(tree.values())
    elif isinstance(tree, list):
        below = tree
    for one in below:
        yield from _references(one)


def _deref(found: Json, described: Json) -> Json:
    if "$ref" not in found:
        return found
    _, _, kind, name = found["$ref"].split("/")
    referred: Json = described["components"][kind][name]
    return referred


def _content(found: Json) -> Json:
    content: Json = found.get("content", {}).get("application/json", {})
    return content


def _example(answer: Json, described: Json) -> Any:
    first = next(iter(_content(answer).get("examples", {}).values()), None)
    return first and _deref(first, described).get("value")


def _read(package: str, member: str, cache: Path, aside: Path) -> Any:
    """A file of a package, whose archive stays in the cache."""
    archive = cache / f"{package.removeprefix('@').replace('/', '-')}-{PACKAGES[package]}.tgz"
    if not archive.exists():
        if shutil.which("npm") is None:
            raise DescriptionMissing(f"no npm on the PATH to fetch {package}: {REMEDY}")
        command = ["npm", "pack", "--silent", "--pack-destination", str(aside), f"{package}@{PACKAGES[package]}"]
        try:
            packing = subprocess.run(command, cwd=aside, capture_output=True, text=True, timeout=FETCHING_TAKES)
        except subprocess.TimeoutExpired:
            raise DescriptionMissing(f"npm has not fetched {package} within {FETCHING_TAKES:.0f} s") from None
        if packing.returncode:
            raise DescriptionMissing(f"npm could not fetch {package}: {packing.stderr.strip()[-500:]}")
        (aside / archive.name).rename(archive)
    with tarfile.open(archive) as packed:
        file = packed.extractfile(f"package/{member}")
        assert file is not None, f"{archive} has no {member}"
        return json.load(file)


if __name__ == "__main__":
    try:
        print(f"GitHub's description for the tests: {fetch()}")
    except DescriptionMissing as exc:
        sys.exit(str(exc))
