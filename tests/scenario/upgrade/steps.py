"""What the tests of an upgrade do with both versions.

Settings, options and answers of the version before are as its archive has them, and stay so: nothing here follows a
change of this version's.
"""

import json
import re
import signal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from scenario.commands import PATIENCE, Command, Commands, Ran

# Nothing is lost, replaced or given up, though a busy machine may let a process wait for many seconds.
SETTINGS = {
    "timings.heartbeat": 0.5,
    "timings.lease": 30,
    "timings.alive": 30,
    "timings.hedge": 10,
    "timings.registration": 20,
    "timings.validation": 40,
    "timings.provision": 60,
    "timings.claim-grace": 20,
    "timings.orphan": 120,
    "timings.cleaning": 1000,
    "timings.idle": 2000,
}


def gated(gate: Path) -> list[str]:
    """A job that ends when the gate is there."""
    return ["sh", "-c", f'echo began; while ! test -e "{gate}"; do sleep 0.05; done; echo ended']


def well(ran: Ran) -> Ran:
    """It succeeded, or the test fails."""
    assert (ran.code, "Traceback" in ran.err) == (0, False), ran
    return ran


def launch(before: Commands, run_id: str) -> Command:
    """One runner, by the version before."""
    return before.start("provision", "--run-id", run_id, "--count", "1", "--json")


def launched(launching: Command) -> str:
    (instance,) = well(launching.wait()).answer["instances"]
    return str(instance["instanceId"])


def make_token(before: Commands) -> str:
    return well(before.run("token", "create", "--scope", "admin", "--name", "operator")).out.strip()


def serve(pool: Commands, port: int) -> Command:
    serving = pool.start("serve", "--port", str(port))
    pool.until(lambda: "listening" in serving.said() or serving.has_ended(), "it listens")
    return serving


def end(serving: Command) -> None:
    serving.send(signal.SIGTERM)
    well(serving.wait())


def operations(port: int, token: str) -> set[tuple[str, str]]:
    """What `serve` offers to an operator and to agents: path, without the names of its parameters, and method."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    paths: dict[str, dict[str, object]] = {}
    try:
        for path in ("/v1/status", "/v1/openapi.json", "/v1/openapi-agents.json"):
            connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            body = json.loads(answer.read() or b"{}")
            # The release before describes everything in one document.
            assert answer.status == 200 or path.endswith("agents.json"), (path, body)
            paths |= body.get("paths", {})
    finally:
        connection.close()
    return {(re.sub("{.*?}", "{}", path), method) for path, methods in paths.items() for method in methods}


def check_answers(pool: Commands, ids: list[str], others: list[str]) -> None:
    """`status` names all these instances, and `why` knows them and the others."""
    shown = well(pool.run("status", "--json")).out
    assert [id for id in ids if id not in shown] == []
    for id in (*ids, *others):
        assert well(pool.run("why", id, "--json")).out


def check_way_back(before: Commands) -> None:
    """The version before answers, or refuses what a newer version has written; it never breaks down."""
    ran: Ran = before.run("status", "--json")
    assert "Traceback" not in ran.err
    if ran.code != 0:
        assert ran.code == 2, ran
        assert "newer" in ran.err, ran


def names(value: Any, path: str = "") -> set[str]:
    """The names of all fields in something that is stored, each with those above it."""
    if isinstance(value, list):
        return {name for one in value for name in names(one, path)}
    if not isinstance(value, dict):
        return {path}
    # The numbers of a story's lines are no names.
    return {found for name, one in value.items() for found in names(one, f"{path}.{'#' if name.isdecimal() else name}")}
