"""A home, its `serve` and its agents are upgraded in the middle of their jobs: nothing is lost.

The version before provisions, submits and serves. Then every command is this version's, and so is `serve`, while the
agents and one `bullpen run` go on as they are. What fails here would fail at a user's site: something that is stored,
or that travels between the two versions, has changed its name or its meaning.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.agent import config
from free_ports import a_free_port
from scenario.pool import Pool
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
    names,
    operations,
    serve,
    well,
)
from sources.trees import a_project, write


@pytest.fixture
def before(folder: Path, pool: Pool) -> Iterator[Pool]:
    """The same home, used by the version before."""
    own = folder / "before"
    own.mkdir()
    pool.settings = {**SETTINGS}
    made = Pool(home=pool.home, folder=own, starter=Installed.before(folder / "installed"), settings={**SETTINGS})
    yield made
    made.kill_commands()


def submit(before: Pool, run_id: str, *command: str) -> str:
    ran = before.run("job", "submit", "--run-id", run_id, "--json", "--", *command)
    return str(well(ran).answer["jobId"])


def job(pool: Pool, id: str) -> tuple[Any, ...]:
    (found,) = pool.rows("SELECT state, result, exit_code, fence, losses FROM jobs WHERE id = ?", id)
    return found


def beats(pool: Pool, instance_id: str) -> tuple[int, int]:
    """The epoch of its worker, and how often that has renewed its lease."""
    ((epoch, token),) = pool.rows("SELECT epoch, token FROM workers WHERE instance_id = ?", instance_id)
    return int(epoch), int(token)


def documents(pool: Pool) -> dict[tuple[str, str], set[str]]:
    """Of every document in the store its place and the names in it."""
    places = {
        "tickets": "SELECT id, body FROM tickets",
        "cards": "SELECT worker, card FROM cards",
        "needs": "SELECT id, needs FROM provisions",
        "fleets": "SELECT id, fleets FROM provisions",
    }
    return {
        (place, str(key)): names(json.loads(text)) for place, query in places.items() for key, text in pool.rows(query)
    }


def by_place(found: dict[tuple[str, str], set[str]]) -> dict[str, set[str]]:
    places: dict[str, set[str]] = {}
    for (place, _), some in found.items():
        places.setdefault(place, set()).update(some)
    return places


def test_a_home_is_upgraded_in_the_middle_of_its_jobs(before: Pool, pool: Pool) -> None:
    # The version before: agents beside the store and behind `serve`, jobs that run and one that waits, one machine on
    # offer, and a `run` in the middle.
    gate, port = pool.folder / "gate", a_free_port()
    url = f"http://127.0.0.1:{port}"
    token = make_token(before)
    serving = serve(before, port)
    before.settings["agent.serve-url"] = url
    launching = [launch(before, "served")]
    del before.settings["agent.serve-url"]
    launching += [launch(before, "kept"), launch(before, "early")]
    running = before.start("run", "--run-id", "ran", "--count", "1", "--", *gated(gate))
    served, kept, early = map(launched, launching)
    over_http, embedded = submit(before, "served", *gated(gate)), submit(before, "kept", *gated(gate))
    queued = submit(before, "kept", "echo", "from the queue")
    at_work = "SELECT run_id FROM jobs WHERE state = 'running' AND bound"
    before.until(lambda: len(before.rows(at_work)) == 3, "three jobs run, and their agents have said so")
    (ran_on,) = {*before.live()} - {served, kept, early}
    ((ran,),) = before.rows("SELECT id FROM jobs WHERE run_id = 'ran'")

    # Commands are upgraded first: an agent that they launch meets the `serve` of before.
    pool.settings["agent.serve-url"] = url
    (newer,) = ids(pool.provision("newer", 1))
    assert pool.run_job("newer", "true") == newer
    del pool.settings["agent.serve-url"]
    pool.release("early")
    assert before.on_offer() == [early]

    # Then `serve` is: the agents of before go on with this one.
    offered_before, documents_before = operations(port, token), documents(pool)
    end(serving)
    at_upgrade = {id: beats(pool, id) for id in pool.live() if id != early}
    serving = serve(pool, port)
    pool.until(lambda: all(beats(pool, id) > at_upgrade[id] for id in at_upgrade), "the agents beat on")
    check_answers(pool, [served, kept, early, ran_on], [ran, over_http, queued, "kept"])
    assert offered_before - operations(port, token) == set()
    assert "operator" in well(pool.run("token", "list")).out
    told = pool.home / "instances" / served / "agent.json"
    assert {name for name in json.loads(told.read_text()) if not hasattr(config.load(told), name)} == set()

    # The jobs of before end where they run; the waiting one is taken, and one that is submitted now and cancelled.
    gate.touch()
    well(running.wait())
    for id in (ran, over_http, embedded, queued):
        pool.until(lambda id=id: job(pool, id)[0] == "finished", "the job ends")  # type: ignore[misc]
        assert job(pool, id) == ("finished", "succeeded", 0, 1, 0)
        said = "from the queue\n" if id == queued else "began\nended\n"
        assert well(pool.run("job", "logs", id)).out == said
    cancelled = pool.submit("kept", "sleep 600")
    pool.until(lambda: job(pool, cancelled)[0] == "running", "an agent of before takes a job of now")
    well(pool.run("job", "cancel", cancelled))
    pool.until(lambda: job(pool, cancelled)[0] == "finished", "it ends the job")
    assert job(pool, cancelled)[1] == "cancelled"
    assert {beats(pool, id)[0] for id in (served, kept, newer)} == {1}, "none was lost"

    # What the agents of before have cleaned goes to the next run, with one that is launched beside them.
    for run_id, one in (("served", served), ("kept", kept), ("newer", newer)):
        assert pool.release(run_id)["offered"] == [one]
    assert pool.on_offer() == sorted([served, kept, early, ran_on, newer])
    again = pool.provision("next", 6)
    assert (again["selected"], again["created"]) == (5, 1)
    assert pool.run_job("next", "true") in ids(again)
    check_way_back(before)
    assert sorted(pool.release("next")["offered"]) == ids(again)
    pool.refresh()
    assert (pool.live(), pool.audit()) == (ids(again), [])
    written = by_place({key: found for key, found in documents(pool).items() if key not in documents_before})
    for place, found in by_place(documents_before).items():
        assert found - written[place] == set(), f"{place}: names that are not written any more"
    end(serving)
    assert well(pool.run("down", "--json")).answer["terminated"] == ids(again)
    assert (pool.live(), pool.audit()) == ([], [])


def test_a_job_with_files_never_runs_on_an_agent_of_before(before: Pool, pool: Pool) -> None:
    """It would run in an empty directory."""
    # First: git would add the home too, which the version before does not hide from it, and fails if a file of it
    # changes meanwhile, as the database does with every heartbeat.
    write(a_project(pool.folder), {".git/info/exclude": "*\n"})
    early = launched(launch(before, "early"))
    well(before.run("release", "--run-id", "early"))
    assert before.on_offer() == [early]
    ran = well(pool.run("run", "--count", "1", "--", "cat", "tracked"))
    assert "job-0 | 1\n" in ran.out
    assert "its agent is of an earlier version" in pool.story(early)
    assert early not in pool.live()


def test_a_runner_with_a_bare_trust_domain_goes_to_the_repository_that_is_seen_first(before: Pool, pool: Pool) -> None:
    """And not to one that was created again under the same name."""
    for run in ("first", "second"):
        well(before.run("provision", "--run-id", run, "--count", "1", "--trust-domain", "acme/widgets"))
    for run in ("first", "second"):
        well(before.run("release", "--run-id", run))
    warm = before.on_offer()
    assert len(warm) == 2
    own = pool.provision("own", 1, "--trust-domain", "acme/widgets/42")
    assert (own["selected"], own["created"]) == (1, 0)
    other = pool.provision("other", 1, "--trust-domain", "acme/widgets/43")
    assert (other["selected"], other["created"]) == (0, 1)
    assert pool.on_offer() == [id for id in warm if id not in ids(own)]
    assert pool.audit() == []
