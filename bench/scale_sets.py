"""Scale sets with real processes, at 50 ms per request to GitHub: from a queued job to its runner, what a job costs in
requests, many jobs at once, and what an idle `serve` needs.

    queued ── 25 ms ──▶ message ── decide, claim ──▶ asks for a configuration ── 25 ms ──▶ GitHub makes it
                                   (ours: claim)                                                  │
    online ◀── 500 ms ── the runner starts ◀── agent gets it, starts run.sh ◀───── 25 ms ─────────┘
                                                        (ours: start)
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from statistics import median

from bench.set_stage import LATENCY, STARTS_IN, RunnerTimes, Stage, a_stage
from bench.table import Measurement, Row, row

SET = "bullpen-small"
SUBJECT = "scale set"
TAKING_TURNS = 4
BUDGETED = 200
PACE = 1.0  # seconds between two jobs
SETS = 5
HELD = 120  # seconds that the jobs of a burst last: no runner becomes free for another one meanwhile
SETTLED = 20.0  # seconds after which nothing of a start is left to do


def isolated(jobs: int = 20) -> Iterator[Row]:
    """One job after the other, each into a set without a registered runner. There are a few sets, because a runner is
    given back only some seconds after its job."""
    found: list[RunnerTimes] = []
    queued: list[float] = []
    names = [f"set-{number}" for number in range(min(jobs, TAKING_TURNS))]
    with a_stage(dict.fromkeys(names, "linger = 0.1"), warm=len(names), probed=False) as stage:
        stage.is_warm(len(names))
        before = _costs(stage)
        for number in range(jobs):
            name = names[number % len(names)]
            stage.has_no_member(name)
            run, at = stage.queue(name)
            stage.completed(run)
            found.append(stage.times[run.job("job-0").runner_name])
            queued.append(at)
        stage.is_warm(len(names))
        spent = _costs(stage) - before
    online = [one.online - at for one, at in zip(found, queued, strict=True)]
    claim = [one.configured - at - LATENCY for one, at in zip(found, queued, strict=True)]
    start = [one.online - one.configured - LATENCY / 2 - STARTS_IN for one in found]
    ours = [one + other for one, other in zip(claim, start, strict=True)]
    name = f"{SUBJECT}: job queued to runner online, warm, {jobs} jobs"
    yield row(f"{name}: p50", median(online), "s", "< 1.5")
    yield row(f"{name}: p95", _quantile(online, 0.95), "s", "< 3")
    yield row(f"{name}: p50 of ours, without GitHub and the runner's start of 0.5 s", median(ours) * 1000, "ms")
    yield row(f"{name}: p50 of ours until GitHub is asked for a configuration", median(claim) * 1000, "ms")
    yield row(f"{name}: p50 of ours from its answer to the start of the runner", median(start) * 1000, "ms")
    after = spent["configure"] - jobs + spent["remove"]
    name = f"{SUBJECT}: isolated job, no runner registered"
    yield row(f"{name}: requests for the job", (spent.total() - after) / jobs, "requests/job", "≤ 7")
    yield row(f"{name}: requests for the runner that waits for another job after it", after / jobs, "requests/job")


def paced(jobs: int = 40, alone: int = 5) -> Iterator[Row]:
    """Jobs of a set with registered runners: first one by one, then one every second."""
    with a_stage({SET: "min = 2"}, warm=1, machines=8) as stage:
        _has_idle(stage, 2)
        before = _costs(stage)
        for _ in range(alone):
            stage.completed(stage.queue(SET)[0])
            _has_idle(stage, 2)
        yield row(
            f"{SUBJECT}: isolated job, an idle runner registered: requests",
            (_costs(stage) - before).total() / alone,
            "requests/job",
            "≤ 7",
        )
        before, cpu, began = _costs(stage), stage.cpu(), time.monotonic()
        runs = []
        for number in range(jobs):
            time.sleep(max(0.0, began + number * PACE - time.monotonic()))
            runs.append(stage.queue(SET)[0])
        for run in runs:
            stage.completed(run)
        _has_idle(stage, 2)
        spent, cpu = _costs(stage) - before, stage.cpu() - cpu
    name = f"{SUBJECT}: a job a second, an idle runner registered"
    yield row(f"{name}: requests", spent.total() / jobs, "requests/job", "≤ 4")
    yield row(f"{name}: processor time of serve", cpu / jobs * 1000, "ms/job")


def burst(sizes: Sequence[int] = (BUDGETED,)) -> Iterator[Row]:
    """Every machine is a real agent. Only GitHub's runner is a shell script here, which needs a few milliseconds: the
    processors of one machine could not start so many others within seconds."""
    for size in sizes:
        with a_stage({SET: ""}, warm=size, probed=False) as stage:
            stage.is_warm(size)
            before, cpu = _costs(stage), stage.cpu()
            run, at = stage.queue(SET, size, f"sleep {HELD}")
            began = _times_of_begin(stage, size)
            lasted, cpu, spent = max(began) - at, stage.cpu() - cpu, _costs(stage) - before
            made = [stage.times[job.runner_name] for job in run.jobs(1)]
        name = f"{SUBJECT}: {size} jobs at once on {size} warm agents, each a process of this machine"
        yield row(f"{name}: all run", lasted, "s", "< 10" if size == BUDGETED else "")
        yield row(f"{name}: all runners online", max(one.online for one in made) - at, "s")
        yield row(f"{name}: all configurations made", max(one.configured for one in made) - at, "s")
        yield row(f"{name}: first runner online", min(one.online for one in made) - at, "s")
        yield row(f"{name}: requests until then", spent.total() / size, "requests/job")
        yield row(f"{name}: processor time of serve", cpu, "s")


def idle(seconds: float = 60.0, settled: float = SETTLED) -> Iterator[Row]:
    """Four servers side by side, so that it shows what the sets cost, and what the agents do."""
    names, machines = [f"set-{number}" for number in range(SETS)], SETS + 1
    with ExitStack() as stack:
        bare = stack.enter_context(a_stage({}, warm=0, machines=1))
        sets = stack.enter_context(a_stage(dict.fromkeys(names, ""), warm=0, machines=1, probed=False))
        agents = stack.enter_context(a_stage({}, warm=machines))
        runners = stack.enter_context(a_stage(dict.fromkeys(names, "min = 1"), warm=1, machines=machines))
        agents.is_warm(machines)
        _has_idle(runners, SETS)
        runners.is_warm(1)
        time.sleep(settled)
        stages = (bare, sets, agents, runners)
        before, began = [(one.cpu(), len(one.hub.calls)) for one in stages], time.monotonic()
        time.sleep(seconds)
        lasted = time.monotonic() - began
        cpu = [(one.cpu() - had) / lasted * 100 for one, (had, _) in zip(stages, before, strict=True)]
        asked = [len(one.hub.calls) - had for one, (_, had) in zip(stages, before, strict=True)]
    name, unit = f"{SUBJECT}: idle serve, processor time", "% of a core"
    yield row(f"{name}: no set, no machine", cpu[0], unit)
    yield row(f"{name}: {SETS} sets without a runner", cpu[1], unit, "< 1")
    yield row(f"{name}: no set, {machines} machines on offer", cpu[2], unit)
    yield row(f"{name}: {SETS} sets with an idle runner each, 1 machine on offer", cpu[3], unit, "< 1")
    name = f"{SUBJECT}: idle serve, requests to GitHub"
    yield row(f"{name}: {SETS} sets without a runner", asked[1] / SETS / lasted * 3600, "requests/set/h")
    yield row(f"{name}: {SETS} sets with an idle runner each", asked[3] / SETS / lasted * 3600, "requests/set/h")


def _has_idle(stage: Stage, count: int) -> None:
    """So many runners are online without a job, no message waits, and serve has heard all there is."""

    def holds() -> bool:
        waits = [one for one in stage.hub.runners() if one.is_session_open and one.job is None]
        sets = stage.hub.sets.all()
        return len(waits) >= count and all(
            one.session and one.session.polls and not one.entries and all(m.is_acknowledged for m in one.messages)
            for one in sets
        )

    stage.until(holds, f"{count} runners are idle, and all messages acknowledged")


def _times_of_begin(stage: Stage, count: int) -> list[float]:
    """When the jobs of the only run began; returns once all have."""
    begun: dict[int, float] = {}

    def all_begun() -> bool:
        now = time.monotonic()
        with stage.hub._state.lock:
            for run in stage.hub._state.runs.values():
                for job in run.jobs(1):
                    if job.status == "in_progress":
                        begun.setdefault(job.id, now)
        return len(begun) == count

    stage.until(all_begun, f"{count} jobs run")
    return list(begun.values())


def _costs(stage: Stage) -> "Counter[str]":
    """The requests for jobs and their runners so far, by kind. What is asked every minute, whatever runs, is not among
    them: the row of an idle `serve` has it."""
    found: Counter[str] = Counter()
    for call in stage.hub.calls:
        if " /scalesets/message" in call:
            found["message"] += 1
        elif "/generatejitconfig" in call:
            found["configure"] += 1
        elif "/pools/0/agents" in call:
            found["remove"] += 1
    return found


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


MEASUREMENTS = (
    Measurement("scale set isolated", isolated),
    Measurement("scale set paced", paced),
    Measurement("scale set burst", burst),
    Measurement("scale set idle", idle),
)
