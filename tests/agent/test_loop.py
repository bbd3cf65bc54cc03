"""A real agent in a real process, from boot to its end."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.agent.child_process import LOG_LIMIT
from bullpen.agent.config import Config
from bullpen.agent.decide import Step
from bullpen.agent.loop import RETRY_LONGEST, AgentLoop
from bullpen.agent.progress import AgentProgress, InstanceRecord, InstanceState, LeaseHolder
from bullpen.agent.store.base import Grant, StoreUnreachable
from bullpen.engines.sqlite.turnstile import Turnstile
from bullpen.host.processes import ProcessIdentity, identify
from bullpen.model.job import State as JobState
from bullpen.model.limits import REASON_LENGTH
from bullpen.model.signal import Kind
from bullpen.model.ticket import Requirements, UsageClass
from bullpen.ports import Registration
from real_machines import RealPool, a_pool, with_script

pytestmark = [pytest.mark.real_loop, pytest.mark.slow]

DOUBLE_FORK = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1] + ".part", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".part", sys.argv[1])
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
"""
WAITS = ("sh", "-c", "exec sleep 600")


async def a_daemon(pool: RealPool, run_id: str, note: Path) -> ProcessIdentity:
    """Let a job leave a double-forked process behind that has wiped its environment and cut every tie."""
    job = await pool.run_job(run_id, sys.executable, "-c", DOUBLE_FORK, str(note))
    assert job.exit_code == 0
    await pool.until(note.exists)
    process = noted(note)
    assert process is not None
    pool.strays.append(process)
    return process


def noted(note: Path) -> ProcessIdentity | None:
    """The process with the pid that a file names."""
    return identify(int(note.read_text()))


# ------------------------------------------------------------------------------------------------------------- one life


async def test_an_instance_serves_one_run_is_cleaned_and_serves_another(tmp_path: Path) -> None:
    async with a_pool(tmp_path / "home") as pool:
        instance = await pool.ready("run-1")
        assert await pool.ci.registrations() == [Registration(instance.id, "run-1", busy=False)]
        plant = 'echo token > planted; echo token > ../planted; echo > "$HOME/planted"; echo > "$TMPDIR/planted"'
        assert (await pool.run_job("run-1", "sh", "-c", plant)).exit_code == 0
        daemon = await a_daemon(pool, "run-1", tmp_path / "daemon")

        instance = await pool.release(instance)
        attested = await pool.reported(instance, Kind.CLEAN_OK)
        assert identify(daemon.pid) != daemon
        assert await pool.ci.registrations() == []
        places = [pool.directory(instance.id) / name for name in ("work", "home", "tmp")]
        assert [list(place.iterdir()) for place in places] == [[], [], []]
        assert not (pool.directory(instance.id) / "planted").exists()

        instance = await pool.claim(await pool.offer(instance, attested), "run-2")
        await pool.reported(instance, Kind.REG_OK)
        assert await pool.ci.registrations() == [Registration(instance.id, "run-2", busy=False)]
        await pool.commit(instance)
        assert (
            await pool.run_job("run-2", "sh", "-c", 'test -z "$(ls -A . "$HOME" "$TMPDIR" | grep planted)"')
        ).exit_code == 0


async def test_a_pre_warmed_instance_boots_waits_and_acknowledges_its_first_claim(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instance = await pool.launch(run_id="")
        booted = await pool.reported(instance, Kind.OK)
        await pool.beats_on(instance)
        assert await pool.reported(instance, Kind.OK) == booted
        instance = await pool.claim(await pool.adopt(instance, booted), "run-1")
        await pool.reported(instance, Kind.REG_OK)
        await pool.until(lambda: "UD_REG_OK" in pool.log(instance.id))
        said = [word for word in pool.log(instance.id).split() if word.startswith("UD_")]
        assert said == ["UD_OK", "UD_CLAIM_SEEN", "UD_REG_OK"]


async def test_a_job_runs_in_the_instance_s_own_places_and_knows_its_run(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instance = await pool.ready()
        said = 'echo "$PWD $HOME $TMPDIR $BULLPEN_RUN_ID $BULLPEN_INSTANCE"'
        job = await pool.run_job("run-1", "sh", "-c", said)
        here = pool.directory(instance.id).resolve()
        log = (pool.home / "jobs" / f"{job.id}.{job.fence}.log").read_text()
        assert log.split() == [f"{here}/work", f"{here}/home", f"{here}/tmp", "run-1", instance.id]


async def test_a_runner_is_busy_while_it_has_a_job_and_takes_one_at_a_time(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instance = await pool.ready()
        first = await pool.jobs.submit("run-1", WAITS)
        await pool.job_is(first, JobState.RUNNING)
        second = await pool.jobs.submit("run-1", ("true",))
        assert await pool.ci.registrations() == [Registration(instance.id, "run-1", busy=True)]
        await pool.beats_on(instance)
        assert (await pool.job_is(second, JobState.QUEUED)).instance_id == ""


async def test_a_release_ends_the_job_that_still_runs(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instance = await pool.ready()
        job_id = await pool.jobs.submit("run-1", WAITS)
        await pool.job_is(job_id, JobState.RUNNING)
        await pool.reported(await pool.release(instance), Kind.CLEAN_OK)
        assert (await pool.job_ended(job_id)).exit_code == -signal.SIGKILL


async def test_a_job_that_cannot_start_fails_and_the_next_one_runs(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        await pool.ready()
        assert (await pool.run_job("run-1", "/no/such/program")).exit_code == 127
        assert (await pool.run_job("run-1", "sh", "-c", "exit 3")).exit_code == 3


async def test_two_runners_end_hundreds_of_short_jobs(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instances = [await pool.ready(), await pool.ready()]
        agents = [await pool.agent(instance) for instance in instances]
        # Some end at once, some a little after their last words: the exit meets every turn of the loop.
        scripts = ("exit 0", "echo hi", "sleep 0.005; echo hi; echo ho")
        submitted = [await pool.jobs.submit("run-1", ("sh", "-c", scripts[n % 3])) for n in range(240)]
        assert {(await pool.job_ended(job_id)).exit_code for job_id in submitted} == {0}
        assert [identify(agent.pid) for agent in agents] == agents


async def test_a_job_that_prints_without_end_keeps_a_bounded_log(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        await pool.ready()
        job = await pool.run_job("run-1", "sh", "-c", f"head -c {3 * LOG_LIMIT} /dev/zero")
        log = pool.home / "jobs" / f"{job.id}.{job.fence}.log"
        assert job.exit_code == 0
        assert LOG_LIMIT <= log.stat().st_size < LOG_LIMIT + 1000


# -------------------------------------------------------------------------------------------------------------- hygiene


async def test_an_instance_whose_baseline_was_changed_is_never_attested(tmp_path: Path) -> None:
    async with a_pool(tmp_path, with_script('echo original > "$HOME/tool"')) as pool:
        instance = await pool.ready()
        assert (await pool.run_job("run-1", "sh", "-c", 'echo forged > "$HOME/tool"')).exit_code == 0
        said = await pool.reported(await pool.release(instance), Kind.CLEAN_FAILED)
        assert "home/tool was changed" in said.text


async def test_what_is_kept_survives_within_a_trust_domain_and_not_beyond(tmp_path: Path) -> None:
    async with a_pool(tmp_path, with_script("", keep=(".cache",))) as pool:
        instance = await pool.ready("run-1")
        cache = pool.directory(instance.id) / "home" / ".cache"
        assert (
            await pool.run_job("run-1", "sh", "-c", 'mkdir "$HOME/.cache"; echo wheel > "$HOME/.cache/w"')
        ).exit_code == 0
        instance = await pool.release(instance)
        instance = await pool.offer(instance, await pool.reported(instance, Kind.CLEAN_OK))
        assert (cache / "w").exists()

        other = Requirements("small", UsageClass.ON_DEMAND, trust_domain="other", inherits=("default",))
        instance = await pool.claim(instance, "run-2", other)
        await pool.reported(instance, Kind.REG_OK)
        assert not cache.exists()


# ------------------------------------------------------------------------------------------------ the pre-runner script


async def test_a_script_that_fails_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    async with a_pool(tmp_path, with_script("echo checking; echo no disk left >&2; exit 3")) as pool:
        said = await pool.reported(await pool.launch(), Kind.FAILED)
        assert "exit code 3" in said.text
        assert said.text.endswith("checking\nno disk left")


async def test_a_script_that_hangs_is_killed_with_all_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"sh -c 'echo $$ > {note}; exec sleep 600' & echo waiting; wait"
    async with a_pool(tmp_path / "home", with_script(script, timeout=2.0)) as pool:
        said = await pool.reported(await pool.launch(), Kind.FAILED)
        assert "did not end within 2 s" in said.text
        assert said.text.endswith("waiting")
        assert noted(note) is None


async def test_a_script_that_prints_megabytes_does_no_harm(tmp_path: Path) -> None:
    flood = "head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo the end"
    async with a_pool(tmp_path, with_script(flood)) as pool:
        await pool.reported(await pool.launch(), Kind.REG_OK)


async def test_of_a_failed_script_s_megabytes_the_last_lines_are_reported(tmp_path: Path) -> None:
    flood = "head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo the end; exit 1"
    async with a_pool(tmp_path, with_script(flood)) as pool:
        said = await pool.reported(await pool.launch(), Kind.FAILED)
        assert "exit code 1" in said.text
        assert said.text.endswith("the end")
        assert len(said.text) <= REASON_LENGTH


async def test_a_service_that_the_script_starts_belongs_to_the_machine(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"sh -c 'echo $$ > {note}; exec sleep 600' & while ! test -s {note}; do :; done"
    async with a_pool(tmp_path / "home", with_script(script)) as pool:
        instance = await pool.ready()
        await pool.reported(await pool.release(instance), Kind.CLEAN_OK)
        assert noted(note) is not None


# -------------------------------------------------------------------------------------------------------------- the end


async def test_an_agent_whose_record_is_terminated_exits(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instance = await pool.ready()
        agent = await pool.agent(instance)
        await pool.expire(instance)
        await pool.ended(agent)
        assert await pool.ci.registrations() == []


async def test_sigterm_ends_the_registration_and_the_agent_and_gives_its_job_back_to_the_queue(tmp_path: Path) -> None:
    async with a_pool(tmp_path / "home") as pool:
        instance = await pool.ready()
        daemon = await a_daemon(pool, "run-1", tmp_path / "daemon")
        job_id = await pool.jobs.submit("run-1", WAITS)
        await pool.job_is(job_id, JobState.RUNNING)
        agent = await pool.agent(instance)
        os.kill(agent.pid, signal.SIGTERM)
        await pool.ended(agent)
        assert identify(daemon.pid) != daemon
        job = await pool.job_is(job_id, JobState.QUEUED)
        assert (job.losses, job.worker) == (1, "")
        assert await pool.ci.registrations() == []


async def test_an_agent_whose_directory_is_gone_exits(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instance = await pool.launch()
        await pool.reported(instance, Kind.REG_OK)
        agent = await pool.agent(instance)
        pool.directory(instance.id).rename(tmp_path / "aside")
        try:
            await pool.ended(agent)
        finally:
            (tmp_path / "aside").rename(pool.directory(instance.id))


def test_an_agent_that_meets_something_unexpected_logs_it_and_leaves_properly(tmp_path: Path) -> None:
    agent = f"""
from pathlib import Path
from bullpen.agent.config import Config
from bullpen.agent.loop import AgentLoop
from bullpen.agent.wakeup import ThreadWakeup

class Surprise:
    def has_changed(self): raise RuntimeError("surprise")
    def deregister(self, runner): print("deregistered")
    def close(self): print("closed")

directory = Path({str(tmp_path)!r})
config = Config("i-{os.getpid():016x}", directory, directory, 5.0, 60.0, 60.0, "", 30.0, ())
print("well", AgentLoop(config, Surprise(), ThreadWakeup(), print).run())
"""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", agent]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "in has_changed" in said
    assert said.endswith("stops: unexpected error: RuntimeError('surprise')\nderegistered\nclosed\nwell False\n")


# ------------------------------------------------------------------------------------------------------ turn by turn


RUNNING = InstanceRecord(InstanceState.RUNNING, "run-1", "a1", threshold=1e12, has_job=True)
OURS = LeaseHolder("worker", 1)


class Scripted:
    """In place of a store: what was asked of it, in order. What is `away` is not answered, and no job waits."""

    def __init__(self, *away: str) -> None:
        self.jobs: Scripted | None = self
        self.away = away
        self.asked: list[str] = []
        self.changed = False

    def has_changed(self) -> bool:
        self._ask("changed")
        return self.changed

    def read_record(self) -> InstanceRecord:
        self._ask("read")
        return RUNNING

    def beat(self, job: object, leaving: object, activity: str) -> Grant:
        self._ask("beat")
        return Grant(OURS, next_in=60.0)

    def take_job(self, record: InstanceRecord) -> None:
        self._ask("take")

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.away:
            raise StoreUnreachable(f"no answer to {what}")


def a_runner(directory: Path, store: Scripted, beat_at: float = 0.0) -> AgentLoop:
    """An agent that serves a run and has seen that a job waits."""
    config = Config("i-1", directory, directory, 5.0, 60.0, 60.0, "", 30.0, ())
    agent = AgentLoop(config, store, None, print)  # type: ignore[arg-type]
    agent._progress = AgentProgress(seen=RUNNING, holder=OURS, began=0.0)
    agent._record, agent._must_read, agent._beat_at = RUNNING, False, beat_at
    return agent


def test_a_beat_that_is_due_goes_before_all_else(tmp_path: Path) -> None:
    store = Scripted()
    a_runner(tmp_path, store)._keep_in_touch()
    assert store.asked == ["beat", "changed", "read"]


@pytest.mark.parametrize("away", ["changed", "read", "take"])
def test_what_is_not_answered_delays_no_beat(tmp_path: Path, away: str) -> None:
    store = Scripted(away)
    agent = a_runner(tmp_path, store, beat_at=math.inf)
    agent._keep_in_touch()
    if away == "take":
        agent._carry_out(Step.TAKE_JOB)
    agent._retry_at, agent._beat_at = math.inf, 0.0
    agent._keep_in_touch()
    assert store.asked[-1] == "beat"


def test_a_beat_that_is_not_answered_is_tried_again_soon_and_the_record_stays_known(tmp_path: Path) -> None:
    store = Scripted("beat")
    agent = a_runner(tmp_path, store)
    before = time.monotonic()
    agent._keep_in_touch()
    assert store.asked == ["beat", "changed", "read"]
    assert agent._record == RUNNING
    assert before < agent._beat_at <= time.monotonic() + RETRY_LONGEST


def test_a_runner_that_asked_in_vain_neither_asks_again_nor_beats_until_a_while_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.agent.loop.TAKE_AGAIN", 3600.0)
    store = Scripted()
    agent = a_runner(tmp_path, store, beat_at=math.inf)
    agent._carry_out(Step.TAKE_JOB)
    agent._must_read = True
    agent._keep_in_touch()
    agent._keep_in_touch()
    assert store.asked == ["take", "changed", "read", "changed"]
    assert agent._record == replace(RUNNING, has_job=False)
    agent._take_at = 0.0  # the while is over
    agent._keep_in_touch()
    assert agent._record == RUNNING


def test_where_no_jobs_are_given_a_runner_looks_only_when_something_may_have_changed(tmp_path: Path) -> None:
    store = Scripted()
    store.jobs = None
    a_runner(tmp_path, store, beat_at=math.inf)._keep_in_touch()
    assert store.asked == ["changed"]


def test_news_let_a_runner_that_asked_in_vain_ask_again_at_once(tmp_path: Path) -> None:
    store = Scripted()
    agent = a_runner(tmp_path, store, beat_at=math.inf)
    agent._carry_out(Step.TAKE_JOB)
    store.changed = True
    agent._keep_in_touch()
    assert agent._record == RUNNING


# ------------------------------------------------------------------------------------------------- a store out of reach


async def test_an_agent_survives_a_store_that_is_moved_away_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instance = await pool.ready()
        agent = await pool.agent(instance)
        (tmp_path / "bullpen.db").rename(tmp_path / "aside")
        try:
            await pool.until(lambda: "cannot reach the store" in pool.log(instance.id))
        finally:
            (tmp_path / "aside").rename(tmp_path / "bullpen.db")
        await pool.reported(await pool.release(instance), Kind.CLEAN_OK)
        assert identify(agent.pid) == agent


async def test_an_agent_survives_a_writer_that_never_lets_go(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instance = await pool.ready()
        agent = await pool.agent(instance)
        with Turnstile(tmp_path).hold():
            await pool.until(lambda: "cannot reach the store" in pool.log(instance.id))
        await pool.beats_on(instance)
        assert identify(agent.pid) == agent


async def test_a_job_outlasts_a_store_out_of_reach_and_its_end_is_reported_later(tmp_path: Path) -> None:
    async with a_pool(tmp_path / "home") as pool:
        instance = await pool.ready()
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        job_id = await pool.jobs.submit("run-1", ("sh", "-c", f"read line < {gate}; exit 7"))
        await pool.job_is(job_id, JobState.RUNNING)
        with Turnstile(pool.home).hold():
            await asyncio.to_thread(gate.write_text, "go\n")
            await pool.until(lambda: "cannot reach the store" in pool.log(instance.id))
        assert (await pool.job_ended(job_id)).exit_code == 7
