"""IAM's judgement of our policies by a simulator that is not ours: npm's @cloud-copilot/iam-simulate, run by node.

It knows which resources and condition keys each action of AWS has, and refuses a policy that IAM would refuse. Fetched
once, as four pinned packages, into the user's cache; `python tests/fakes/iam_simulator.py` fetches beforehand.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCOPE = "@cloud-copilot"
PACKAGES = {
    "iam-simulate": "0.1.173",
    "iam-data": "0.21.202609231",
    "iam-policy": "0.1.109",
    "iam-utils": "0.1.82",
}
FETCHING_TAKES = 180.0  # seconds; 4 MB
JUDGING_TAKES = 180.0  # seconds; hundreds of requests take one
REMEDY = "install node and npm (on Debian and Ubuntu: apt-get install npm), then `python tests/fakes/iam_simulator.py`"
DRIVER = Path(__file__).with_name("judge.mjs")


class SimulatorMissing(Exception):
    """It cannot be fetched or run here; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class AwsRequest:
    """A request to AWS. `context` are its condition keys."""

    action: str
    resource: str
    context: Mapping[str, str | Sequence[str]] = field(default_factory=dict)


Judge = Callable[[Mapping[str, Any], Sequence[AwsRequest], str], list[bool]]


def allowed(policy: Mapping[str, Any], requests: Sequence[AwsRequest], principal: str) -> list[bool]:
    """Whether the policy, attached to the principal, allows each request. AssertionError for a question that AWS does
    not know: an action on a resource that it is not done to, or a condition key that the action does not have."""
    account = principal.split(":")[4]
    asked = [
        {
            "policy": policy,
            "principal": principal,
            "action": one.action,
            "resource": one.resource,
            "account": account,
            "context": dict(one.context),
        }
        for one in requests
    ]
    ran = subprocess.run(
        ["node", str(DRIVER), str(fetch())],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=JUDGING_TAKES,
    )
    assert ran.returncode == 0, ran.stderr
    verdicts = json.loads(ran.stdout)
    for one, verdict in zip(requests, verdicts, strict=True):
        assert verdict["result"] in ("Allowed", "ImplicitlyDenied", "ExplicitlyDenied"), (one, verdict)
        assert verdict["ignored"] == [], (one, verdict)
    return [verdict["result"] == "Allowed" for verdict in verdicts]


def fetch() -> Path:
    """The simulator's module, with what it imports beside it; made if it is not there."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise SimulatorMissing(f"no npm or no node on the PATH to judge policies: {REMEDY}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bullpen" / "test-engines"
    pinned = hashlib.sha256(json.dumps(PACKAGES).encode()).hexdigest()[:16]
    modules = cache / f"iam-{pinned}"
    if not modules.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "iam.lock").open("w") as lock, tempfile.TemporaryDirectory(prefix="iam-", dir=cache) as aside:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes that fetch at once, one does
            if not modules.exists():
                made = Path(aside) / "made"
                for name in PACKAGES:
                    _unpack(name, Path(aside), made / "node_modules" / SCOPE / name)
                made.rename(modules)  # whole or not there
    return modules / "node_modules" / SCOPE / "iam-simulate/dist/esm/index.js"


def _unpack(name: str, aside: Path, target: Path) -> None:
    package = f"{SCOPE}/{name}@{PACKAGES[name]}"
    command = ["npm", "pack", "--silent", "--pack-destination", str(aside), package]
    try:
        packing = subprocess.run(command, cwd=aside, capture_output=True, text=True, timeout=FETCHING_TAKES)
    except subprocess.TimeoutExpired:
        raise SimulatorMissing(f"npm has not fetched {package} within {FETCHING_TAKES:.0f} s") from None
    if packing.returncode:
        raise SimulatorMissing(f"npm could not fetch {package}: {packing.stderr.strip()[-500:]}")
    with tarfile.open(aside / f"{SCOPE.removeprefix('@')}-{name}-{PACKAGES[name]}.tgz") as packed:
        packed.extractall(aside, filter="data")
    target.parent.mkdir(parents=True, exist_ok=True)
    (aside / "package").rename(target)


if __name__ == "__main__":
    try:
        print(f"the IAM simulator for the tests: {fetch()}")
    except SimulatorMissing as exc:
        sys.exit(str(exc))
