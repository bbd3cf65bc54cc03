"""`bullpen why` and `bullpen plan` on a real pool: real commands wait, and each has its cause."""

import signal
from typing import Any

from scenario.pool import Pool

IDLE_IS_KEPT = {"limits.max-instances": 1, "classes.small.idle-target": 1}


def explained(pool: Pool, id: str) -> dict[str, Any]:
    ran = pool.run("why", id, "--json")
    assert ran.code == 0, ran
    return ran.answer


def causes(pool: Pool, id: str) -> list[str]:
    return [wait["cause"] for wait in explained(pool, id)["waits"]]


def until_cause(pool: Pool, id: str, cause: str) -> dict[str, Any]:
    """The wait, once it has this cause. What another process has only begun may have another one for a moment."""
    pool.until(lambda: _has_begun(pool, id) and causes(pool, id) == [cause], f"{id} waits: {cause}")
    (wait,) = explained(pool, id)["waits"]
    assert wait["because"]
    assert wait["next"]
    found: dict[str, Any] = wait
    return found


def _has_begun(pool: Pool, id: str) -> bool:
    """Nothing is known of a command before its record is written."""
    return pool.run("why", id, "--json").code == 0


def test_a_full_cap_names_the_run_that_holds_it_and_a_pause_its_note(pool: Pool) -> None:
    pool.settings["limits.max-instances"] = 1
    pool.provision("holder", 1)
    command = pool.start_provision("waiter", 1, "--wait", "50m")
    assert "run holder holds 1" in until_cause(pool, "waiter", "cap")["because"]
    assert pool.run("pause", "--note", "a new image").code == 0
    assert "a new image" in until_cause(pool, "waiter", "paused")["because"]
    assert pool.run("resume").code == 0
    pool.release("holder")
    assert command.wait().code == 0
    timeline = explained(pool, "waiter")["timeline"]
    assert timeline["outcome"] == "met"
    assert {"claimed", "registered"} <= timeline["stages"].keys()


def test_a_runner_of_another_trust_domain_kind_or_image_is_the_cause(pool: Pool) -> None:
    pool.settings |= IDLE_IS_KEPT
    pool.provision("before", 1, "--trust-domain", "a")
    pool.release("before")
    pool.start_provision("domain", 1, "--wait", "50m", "--trust-domain", "b")
    wait = until_cause(pool, "domain", "trust-domain")
    assert [one["rule"] for one in wait["candidates"]] == ["trust-domain"]
    pool.kill_commands()
    pool.start_provision("kind", 1, "--wait", "50m", "--trust-domain", "a", "--usage-class", "spot")
    pool.until(lambda: _has_begun(pool, "kind"), "kind has begun")
    pool.until(lambda: "requirements" in causes(pool, "kind"), "the usage class is the cause", patience=120)
    pool.kill_commands()
    pool.settings["classes.small.image-generation"] = 2
    pool.start_provision("image", 1, "--wait", "50m", "--trust-domain", "a")
    pool.until(lambda: _has_begun(pool, "image"), "image has begun")
    pool.until(lambda: "image-retired" in causes(pool, "image") or bool(_queued(pool)), "image waits")
    pool.until(lambda: causes(pool, "image") == ["image-retired"], "the image is the cause", patience=120)


def _queued(pool: Pool) -> list[tuple[Any, ...]]:
    return pool.rows("SELECT run_id FROM provisions WHERE state = 'open' AND waits_since IS NOT NULL")


def test_a_runner_that_is_cleaned_and_a_machine_that_boots_are_causes(pool: Pool) -> None:
    pool.settings |= {"agent.pre-runner-script": "sleep 12", "agent.pre-runner-timeout": 15}
    pool.settings["limits.max-instances"] = 1
    command = pool.start_provision("holder", 1)
    assert until_cause(pool, "holder", "booting")["secondsLeft"] is None
    assert command.wait().code == 0
    (held,) = pool.live()
    pool.start_provision("waiter", 1, "--wait", "50m")
    until_cause(pool, "waiter", "cap")
    pool.signal(held, signal.SIGSTOP)
    release = pool.start("release", "--run-id", "holder")
    assert until_cause(pool, "waiter", "cleaning")["candidates"][0]["rule"] == "cleaning"
    pool.signal(held, signal.SIGCONT)
    assert release.wait().code == 0


def test_a_host_without_room_is_no_capacity(pool: Pool) -> None:
    pool.settings |= {"local.capacity": 0, "classes.small.attempts": 10}
    command = pool.start_provision("waiter", 1)
    until_cause(pool, "waiter", "no-capacity")
    assert command.wait().code == 1
    assert "no runner" in explained(pool, "waiter")["summary"]


def test_jobs_wait_for_runners_of_their_run_only(pool: Pool) -> None:
    pool.provision("run", 1)
    pool.submit("run", "sleep 300")
    second = pool.submit("run", "true")
    wait = until_cause(pool, second, "queued-behind")
    assert [one["rule"] for one in wait["candidates"]] == ["occupied"]
    unable = pool.run("job", "submit", "--run-id", "run", "--capability", "gpu", "--json", "--", "true")
    assert causes(pool, unable.answer["id"]) == ["no-match"]
    (only,) = pool.live()
    pool.release("run")
    last = pool.submit("run", "true")
    assert causes(pool, last) == ["run-over"]
    assert "is on offer" in explained(pool, only)["summary"]


def test_a_killed_provision_and_a_killed_runner_are_noticed(pool: Pool) -> None:
    pool.settings["limits.max-instances"] = 1
    pool.provision("run", 1)
    waiter = pool.start_provision("waiter", 1, "--wait", "50m")
    until_cause(pool, "waiter", "cap")
    waiter.kill()
    pool.until(lambda: causes(pool, "waiter") == ["no-server"], "its place runs out", patience=120)
    (only,) = pool.live()
    pool.signal(only, signal.SIGKILL)
    job = pool.submit("run", "true")
    pool.until(lambda: causes(pool, job) == ["runner-lost"], "its runner is silent", patience=120)


def test_a_plan_writes_nothing_into_the_store_and_is_what_the_provision_does(pool: Pool) -> None:
    pool.provision("before", 2)
    pool.release("before")
    before = dump(pool)
    ran = pool.run("plan", "--run-id", "next", "--count", "3", "--json")
    assert ran.code == 0, ran
    assert dump(pool) == before
    met = pool.provision("next", 3)
    launched = ran.answer["wouldLaunch"]["count"]
    assert (len(ran.answer["wouldClaim"]), launched) == (met["selected"], met["created"])


def dump(pool: Pool) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, but for what agents report on their own."""
    tables = [name for (name,) in pool.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    beating = ("heartbeats", "workers", "signals", "controls", "services")
    return {name: pool.rows(f"SELECT * FROM {name}") for name in sorted(tables) if name not in beating}
