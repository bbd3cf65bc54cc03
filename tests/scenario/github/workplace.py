"""One box that serves GitHub: the embedded engines, with processes as machines."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bullpen.host.processes import TreeSurvived, end_tree, identify, mark_of
from fakes.github.hub import FakeGithub
from scenario import processes
from scenario.audit import audit
from scenario.github.fixtures import PATIENCE, SECRET, GithubSite, a_ground
from server.served import CHECKOUT, ServeProcess, a_server, command, environment
from users import lent

__all__ = ["SECRET", "Workplace", "a_workplace"]

MOST = 4  # instances at once: each has a user of its own


@dataclass(kw_only=True)
class Workplace(GithubSite):
    served: ServeProcess

    def bullpen(self, *arguments: str) -> dict[str, Any]:
        """A command of the operator's, on this box."""
        line = command(self.home, *arguments, "--config", str(self.config), "--json")
        ran = subprocess.run(line, capture_output=True, text=True, env=environment(), timeout=PATIENCE)
        assert ran.returncode == 0, f"{arguments}: {ran.stdout}{ran.stderr}"
        answer: dict[str, Any] = json.loads(ran.stdout)
        return answer

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.home / 'bullpen.db'}?mode=ro", uri=True)) as connection:
            return connection.execute(query, parameters).fetchall()

    def ids(self, where: str) -> list[str]:
        return [id for (id,) in self.rows(f"SELECT id FROM instances WHERE {where} ORDER BY id")]

    def live(self) -> list[str]:
        return self.ids("state <> 'terminated'")

    def on_offer(self) -> list[str]:
        return self.ids("attested = 1")

    def told_of_job(self, id: str) -> bool:
        return bool(self.rows("SELECT 1 FROM workers WHERE instance_id = ? AND activity <> ''", id))

    def kill_machine(self, id: str) -> None:
        (agent,) = [one.pid for one in processes.of_home(self.home) if one.is_agent and one.instance_id == id]
        os.kill(agent, 9)
        end_tree(identify(agent), mark_of(id), patience=5.0)

    def audit(self) -> list[str]:
        return audit(self.home)

    def logs(self) -> list[Path]:
        return [self.ground / "serve.log", *sorted(self.home.glob("instances/*/agent.log"))]

    def stop(self) -> None:
        assert self.served.end() == 0

    def down(self) -> None:
        self.bullpen("down", "--yes")

    def end(self) -> None:
        for id in dict.fromkeys(one.instance_id for one in processes.of_home(self.home)):
            with suppress(TreeSurvived):
                end_tree(None, mark_of(id), patience=5.0)


@contextmanager
def a_workplace(
    hub: FakeGithub,
    *,
    sets: str = "",
    has_webhook: bool = True,
    program: Sequence[str] = CHECKOUT,
    **told: str,
) -> Iterator[Workplace]:
    """Serving until the block ends; then every process of it is ended, each by its pid. `told` as `a_ground` has it,
    `sets` are the tables of scale sets, `program` is what serves."""
    with lent(MOST) as users:
        more = f"[local]\nrunner-users = {json.dumps(users)}\n{sets}"
        with a_ground(hub, more=more, **told) as (ground, port):
            arguments = ("--port", str(port), "--config", str(ground / "bullpen.toml"))
            with a_server(ground / "home", *arguments, program=program) as served:
                place = Workplace(ground=ground, port=port, hub=hub, served=served)
                if has_webhook:
                    hub.webhook(f"{place.url}/v1/github/webhook", SECRET)
                try:
                    yield place
                finally:
                    place.end()
