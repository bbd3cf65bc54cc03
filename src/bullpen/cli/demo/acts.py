"""The acts of the demo. Each one verifies every line against the pool; all numbers are measured."""

import os
import signal
from pathlib import Path

from bullpen.audit import audit
from bullpen.cli.demo.stage import Answer, DemoStage
from bullpen.cli.text import plural
from bullpen.model.instance import CLAIMED, IDLE, RUNNING, Instance
from bullpen.model.job import Job
from bullpen.model.transition import StoryLine
from bullpen.ports import Ports

RUNNERS = 3

PLANT = """
echo s3cret > "$HOME/token"
(setsid sleep 600 >/dev/null 2>&1 & echo $! > "$HOME/pid")
pwd > "$HOME/where"
"""
WORK = ("sh", "-c", "sleep 2; echo done")

IMPATIENT = ("--set", "timings.provision=4", "--set", "timings.validation=4", "--set", "timings.orphan=1")
"""Short deadlines for the provision that is killed: with the defaults its claims would last ten minutes, and a machine
that it launched without registering it another one."""

FIND = 'test -e "$HOME/token"'


def play(stage: DemoStage) -> None:
    stage.run("refresh")  # creates the queues, so that a later refresh reports only repairs
    cold = cold_start(stage)
    warm_start(stage, cold)
    race(stage)
    mute(stage)
    failed_fleet(stage)
    lost(stage)
    killed(stage)
    curtain(stage)


def cold_start(stage: DemoStage) -> Answer:
    stage.title(f"Cold start: the pool is empty, a run requests {RUNNERS} runners")
    answer = stage.provision("cold", RUNNERS)
    stage.check(answer["created"] == RUNNERS, f"{answer['created']} created in {answer['durationSeconds']:.2f} s")
    stage.check(_running(stage, "cold") == sorted(_ids(answer)), "all are running, registered and verified")
    return answer


def warm_start(stage: DemoStage, cold: Answer) -> None:
    stage.title("Cleaning: a job leaves a token and a background process behind, then the run is released")
    (code,) = stage.run_jobs("cold", [["sh", "-c", PLANT]])
    stage.check(code == 0, "the job succeeded")
    (home,) = [path.parent for path in (stage.home / "instances").glob("*/home/token")]
    left_behind = int((home / "pid").read_text())
    stage.check(_lives(left_behind), f"its token is on {home.parent.name}, its process {left_behind} still runs")
    released = stage.run("release", "--run-id", "cold")
    stage.check(len(released["offered"]) == RUNNERS, f"{len(released['offered'])} runners cleaned and on offer again")
    stage.check(not (home / "token").exists(), "the token is gone")
    stage.check(not _lives(left_behind), f"process {left_behind} is gone")

    stage.title(f"Warm start: the next run requests {RUNNERS} runners")
    warm = stage.provision("warm", RUNNERS)
    times = cold["durationSeconds"] / max(warm["durationSeconds"], 0.001)
    stage.check(
        sorted(_ids(warm)) == sorted(_ids(cold)) and warm["created"] == 0,
        f"the same {warm['selected']} in {warm['durationSeconds']:.3f} s: {times:.1f} times as fast, none created",
    )
    codes = stage.run_jobs("warm", [["sh", "-c", FIND]] * RUNNERS)
    stage.check(all(code != 0 for code in codes), "jobs of this run find no token")
    stage.run("release", "--run-id", "warm")


def race(stage: DemoStage) -> None:
    on_offer = len(_on_offer(stage))
    each = on_offer - 1
    stage.title(f"Race: two runs request {each} runners each, {on_offer} are on offer")
    racers = [stage.start("provision", "--run-id", name, "--count", str(each)) for name in ("left", "right")]
    left, right = (stage.answer(racer) for racer in racers)
    both = _ids(left) + _ids(right)
    stage.check(len(set(both)) == 2 * each, f"each run has its {each} runners, and no runner is claimed twice")
    created = left["created"] + right["created"]
    stage.check(
        created == 2 * each - on_offer, f"{2 * each - created} were reused, only the missing {created} was created"
    )
    for name in ("left", "right"):
        stage.run("release", "--run-id", name)


def mute(stage: DemoStage) -> None:
    on_offer = _on_offer(stage)
    stage.title(f"Frozen runner: one of the {len(on_offer)} runners on offer does not answer")
    victim = on_offer[0].id
    pid = stage.pids()[victim]
    os.kill(pid, signal.SIGSTOP)
    answer = stage.provision("mute", len(on_offer))
    ready = _ids(answer)
    stage.check(
        len(ready) == len(on_offer) and victim not in ready,
        f"{len(ready)} runners are ready, without the frozen one",
    )
    reason = {one["instanceId"]: one["reason"] for one in answer["discarded"]}.get(victim, "")
    stage.check(bool(reason), f"{victim}: {reason}")
    stage.check(not _lives(pid), "it was ended, and a new runner replaced it")
    stage.run("release", "--run-id", "mute")


def failed_fleet(stage: DemoStage) -> None:
    before = sorted(one.id for one in _on_offer(stage))
    wanted = len(before) + 2
    capacity = len(before) + 1
    stage.title(f"No capacity: a run requests {wanted} runners, this host may run {capacity}")
    answer = stage.provision("short", wanted, "--set", f"local.capacity={capacity}")
    stage.check(answer["exitCode"] == 1 and answer["state"] == "failed", f"provision fails: {answer['reason']}")
    stage.check(not _running(stage, "short"), "the run has no runner: all or nothing")
    _settle(stage)
    after = sorted(one.id for one in _on_offer(stage))
    stage.check(after == before, f"the {len(after)} selected runners are on offer again, the created one is gone")


def lost(stage: DemoStage) -> None:
    on_offer = len(_on_offer(stage))
    stage.title(f"Lost runner: {on_offer} jobs on {on_offer} runners, and one runner is killed")
    run = stage.start("run", "--run-id", "rescue", "--count", str(on_offer), "--", *WORK)

    async def all_work(ports: Ports) -> list[Job]:
        jobs = await ports.jobs.of_run("rescue", on_offer)
        return jobs if len(jobs) == on_offer and all(job.bound for job in jobs) else []

    victim = stage.until("every job on its runner", all_work)[0]
    pid = stage.pids()[victim.instance_id]
    os.kill(pid, signal.SIGKILL)
    stage.check(True, f"kill -9 of {victim.instance_id} while {victim.name} runs on it")
    answer = stage.answer(run)
    results = [job["result"] for job in answer["jobs"]]
    stage.check(results == ["succeeded"] * on_offer, f"all {len(results)} jobs succeeded, each with one result")
    rescued = next(job for job in answer["jobs"] if job["id"] == victim.id)
    stage.check(
        rescued["losses"] == 1 and rescued["instanceId"] != victim.instance_id,
        f"{rescued['name']} lost its runner {rescued['losses']} time and finished on {rescued['instanceId']}",
    )
    step = next(line for line in reversed(_story(stage, victim.id)) if line.step == "reschedule")
    stage.check(bool(step.why), f"`bullpen why` gives the reason: {step.why}")


def killed(stage: DemoStage) -> None:
    on_offer = len(_on_offer(stage))
    stage.title(f"Crash: kill -9 in the middle of a provision of {on_offer + 1} runners")
    victim = stage.start("provision", "--run-id", "killed", "--count", str(on_offer + 1), *IMPATIENT)

    async def claimed(ports: Ports) -> list[Instance]:
        return [one for one in await ports.records.run_instances("killed") if one.state is CLAIMED]

    caught = stage.until("the first claim", claimed)
    victim.kill()
    victim.communicate()
    stage.check(victim.returncode == -signal.SIGKILL, f"killed with {plural(len(caught), 'runner')} claimed")
    stage.check(bool(stage.ask(audit)), "the audit finds unfinished work")

    async def is_overdue(ports: Ports) -> bool:
        held = await ports.records.run_instances("killed")
        return all(one.threshold <= ports.clock.now() for one in held)

    stage.until("its deadline", is_overdue)
    actions = stage.run("refresh", *IMPATIENT)["actions"]
    stage.check(
        bool(actions),
        f"refresh took {plural(len(actions), 'action')}, first: {actions[0]['what']} {actions[0]['subject']}",
    )
    _settle(stage)
    _audit(stage)
    stage.check(not _running(stage, "killed"), "the run has no runner: all or nothing")


def curtain(stage: DemoStage) -> None:
    stage.title("Shutdown: every runner is ended")
    stage.run("refresh")
    _audit(stage)
    machines = set(stage.pids().values())
    ended = stage.run("down")
    left = [pid for pid in machines if _lives(pid)]
    runners = plural(len(ended["terminated"]), "runner")
    stage.check(not stage.pids() and not left, f"{runners} ended, no process remains")


def _settle(stage: DemoStage) -> None:
    """Let refresh finish what commands left, such as an offer of a runner that cleans for longer than they wait."""

    async def is_clean(ports: Ports) -> bool:
        live = await ports.records.live(1000)
        machines = {seen.id for seen in await ports.compute.sightings() if seen.alive}
        return machines <= {one.id for one in live} and not any(o.is_pending or o.state is CLAIMED for o in live)

    while not stage.ask(is_clean):
        stage.run("refresh", *IMPATIENT)


def _audit(stage: DemoStage) -> None:
    found = stage.ask(audit)
    live = plural(len(stage.live()), "runner")
    stage.check(
        not found,
        "; ".join(found) or f"audit of processes, records, tickets and registrations: {live}, nothing lost",
    )


def _ids(answer: Answer) -> list[str]:
    return [one["instanceId"] for one in answer["instances"]]


def _story(stage: DemoStage, id: str) -> list[StoryLine]:
    async def asked(ports: Ports) -> list[StoryLine]:
        return (await ports.records.stories([id]))[id]

    return stage.ask(asked)


def _running(stage: DemoStage, run_id: str) -> list[str]:
    return sorted(one.id for one in stage.live() if one.state is RUNNING and one.run_id == run_id)


def _on_offer(stage: DemoStage) -> list[Instance]:
    return [one for one in stage.live() if one.state is IDLE and one.attested]


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
