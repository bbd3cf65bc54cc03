"""A table, its `serve` and its agents are upgraded in the middle of a job: see `scenario.upgrade.test_home`.

The machines have fetched the agents of the version before from the table. One uses the table itself, the other `serve`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from free_ports import a_free_port
from scenario.aws.pool import CloudPool
from scenario.test_everyday import ids
from scenario.upgrade.installed import Installed
from scenario.upgrade.steps import (
    SETTINGS,
    check_answers,
    check_way_back,
    end,
    gated,
    launch,
    launched,
    make_token,
    operations,
    serve,
    well,
)


class Before(CloudPool):
    """A pool as the version before uses it, in a folder inside the pool's own."""

    @property
    def machines(self) -> Path:
        return self.folder.parent / "machines"


@pytest.fixture
def before(pool: CloudPool) -> Iterator[Before]:
    folder = pool.folder / "before"
    folder.mkdir()
    # Where the proof of a machine is checked.
    pool.settings |= {**SETTINGS, "aws.endpoints": f'{{sts = "{pool.cloud.url}"}}'}
    made = Before(
        home=pool.home,
        folder=folder,
        starter=Installed.before(folder / "installed"),
        settings={**pool.settings},
        name=pool.name,
        cloud=pool.cloud,
        engines=pool.engines,
        ledger=pool.ledger,
    )
    yield made
    made.kill_commands()


def beats(pool: CloudPool, instance_id: str) -> tuple[float, float]:
    """The epoch of its worker, and how often that has renewed its lease."""
    (worker,) = (one for one in pool.ledger.items("Heartbeat").values() if one.get("instanceId") == instance_id)
    return worker["epoch"], worker["seq"]


def test_a_table_is_upgraded_in_the_middle_of_a_job(before: Before, pool: CloudPool) -> None:
    # The version before: one agent that uses the table itself, and one behind `serve` that runs the job of a `run`.
    gate, port = pool.folder / "gate", a_free_port()
    well(before.run("refresh"))
    launching = launch(before, "direct")
    token = make_token(before)
    direct = launched(launching)
    for one in (before, pool):
        one.settings["agent.serve-url"] = f"http://127.0.0.1:{port}"
    serving = serve(before, port)
    running = before.start("run", "--run-id", "ran", "--count", "1", "--", *gated(gate))
    before.until(lambda: [one["state"] for one in pool.ledger.items("Job").values()] == ["running"], "it runs")
    (served,) = {*pool.live()} - {direct}
    (job,) = pool.ledger.items("Job")

    # The agents of before go on with the `serve` of this version.
    offered_before = operations(port, token)
    end(serving)
    at_upgrade = {id: beats(pool, id) for id in (direct, served)}
    serving = serve(pool, port)
    pool.until(lambda: all(beats(pool, id) > at_upgrade[id] for id in at_upgrade), "the agents beat on")
    check_answers(pool, [direct, served], [job, "direct"])
    assert offered_before - operations(port, token) == set()
    assert "operator" in well(pool.run("token", "list")).out

    # The job ends where it runs.
    gate.touch()
    well(running.wait())
    found = pool.ledger.items("Job")[job]
    assert [found[name] for name in ("result", "exitCode", "fence", "losses")] == ["succeeded", 0, 1, 0]
    assert well(pool.run("job", "logs", job)).out == "began\nended\n"
    assert {beats(pool, id)[0] for id in at_upgrade} == {1}, "none was lost"

    # What the agents of before have cleaned goes to the next run.
    assert pool.release("direct")["offered"] == [direct]
    assert pool.on_offer() == sorted([direct, served])
    again = pool.provision("next", 2)
    assert (again["selected"], again["created"], ids(again)) == (2, 0, sorted([direct, served]))
    check_way_back(before)
    assert sorted(pool.release("next")["offered"]) == ids(again)
    pool.refresh()
    assert (pool.live(), pool.audit()) == (ids(again), [])
    end(serving)
    assert well(pool.run("down", "--yes", "--json")).answer["terminated"] == ids(again)
    assert (pool.live(), pool.existing(), pool.audit()) == ([], [], [])
