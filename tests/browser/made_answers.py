"""What the server would answer about the made pool: waits, a run's timeline, loops, cost and activity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from browser.made_pool import CLASSES, RUNS, SHARES, MadePool
from browser.made_server import Answer
from bullpen.model.instance import State as InstanceState
from bullpen.model.provision import Origin, RunState
from bullpen.model.ticket import RefusalRule, UsageClass, format_time
from bullpen.model.usage import Owner
from bullpen.model.wait import SubjectKind, TimelineOutcome, WaitCause, WaitKind
from bullpen.schema.activity import ActivityList, NotedAction
from bullpen.schema.control import (
    WAITS,
    ControlsAnswer,
    LoopAnswer,
    LoopTurnAnswer,
    OwedAnswer,
    ReplicaAnswer,
    RunnerVersionAnswer,
    StoreAnswer,
    StoreKind,
)
from bullpen.schema.cost import (
    AmountAnswer,
    CostAnswer,
    CostRowAnswer,
    HourCostAnswer,
    HourCostList,
    MachineCostAnswer,
    OwnersAnswer,
    OwnerSeconds,
)
from bullpen.schema.instance import InstanceList
from bullpen.schema.job import JobAnswer
from bullpen.schema.pause import OperateAnswer, OperatorAction, PauseList
from bullpen.schema.plan import PlanAnswer, PlannedCap, PlannedClaim, PlannedLaunch, PlannedTarget
from bullpen.schema.queue import LatencyAnswer, QueueAnswer
from bullpen.schema.run import RunAnswer, RunPage, RunSummary
from bullpen.schema.series import ClassSeries, MarkAnswer, MinuteAnswer, SeriesAnswer
from bullpen.schema.status import RateLimitAnswer
from bullpen.schema.story import StoryAnswer, StoryLineAnswer
from bullpen.schema.why import (
    CandidateAnswer,
    LaneAnswer,
    RefusalCount,
    TimelineAnswer,
    WaitAnswer,
    WhyAnswer,
)
from bullpen.schema.worker import WorkerAnswer, WorkerList

RUN = "48226"
SESSION = {"name": "dashboard", "scope": "operate", "expiresAt": None}


def answers(pool: MadePool, **others: Answer) -> Mapping[str, Answer]:
    found: dict[str, Answer] = {
        "/v1/session": SESSION,
        "/v1/status": pool.status,
        "/v1/runs": _runs(pool),
        "/v1/runs/": lambda path: _run(pool, path.split("/")[3]),
        "/v1/instances": InstanceList(list(pool.instances.values()), ""),
        "/v1/instances/": lambda path: _instance(pool, path.rpartition("/")[2]),
        "/v1/stories/": lambda path: pool.stories(path.rpartition("/")[2]),
        "/v1/why/": lambda path: _why(pool, path.rpartition("/")[2]),
        "/v1/workers": _workers(pool),
        "/v1/queue": _queue(pool),
        "/v1/pauses": PauseList([]),
        "/v1/plan": PLAN,
        "/v1/pause": OperateAnswer(True, [OperatorAction("pause", "the pool", "no new claims and launches")]),
        "/v1/drain": OperateAnswer(True, [OperatorAction("drain", "i-1", "its run keeps it until it is released")]),
    }
    return {**found, **made_control(pool), **made_cost(pool), **made_activity(pool), **made_series(pool), **others}


def _instance(pool: MadePool, id: str) -> Answer:
    one = pool.instances.get(id)
    if one is None:
        return 404, {"code": "not-found", "error": f"{id}: no such instance"}
    return msgspec.structs.replace(one, story=pool.story_of(id), heartbeat_at=pool.before(3))


def _runs(pool: MadePool) -> RunPage:
    waiting = [
        RunSummary(
            "48233",
            RunState.WAITING,
            ["large"],
            4,
            0,
            0,
            0,
            pool.before(185),
            "acme/mobile",
            "classes.large.max-instances",
        ),
        RunSummary("48231", RunState.PROVISIONING, ["medium"], 6, 3, 0, 0, pool.before(137), "acme/billing", ""),
    ]
    running = [
        RunSummary(id, RunState.RUNNING, [name], count, count, 0, count, pool.before(180 + 97 * n), repository, "")
        for n, (id, (repository, name, count)) in enumerate(RUNS.items())
    ]
    return RunPage([*waiting, *running], "")


def made_jobs(pool: MadePool) -> tuple[list[JobAnswer], list[StoryAnswer]]:
    held = [one.id for one in pool.instances.values() if one.run_id == RUN]
    jobs, stories = [], []
    for n, id in enumerate(held):
        job: Any = {"state": "finished", "result": "succeeded"} if n % 5 else {"state": "running", "result": ""}
        lost = n == 6
        name, key = f"integration ({n + 1})", f"j-{n:016x}"
        taken = held[2] if lost else id
        took = 240 + 37 * ((n * 7) % 11)
        jobs.append(
            JobAnswer(
                id=key,
                run_id=RUN,
                name=name,
                index=n,
                command=("make", "test"),
                exit_code=0 if job["result"] else None,
                reason="",
                fence=2 if lost else 1,
                worker=f"{taken}/1",
                epoch=1,
                instance_id=taken,
                losses=int(lost),
                cancelling=False,
                timeout_seconds=0.0,
                capability="",
                side_effects=False,
                source="",
                artifacts=(),
                queued_at=pool.before(740),
                finished_at=pool.before(680 - took) if job["result"] else None,
                **job,
            )
        )
        lines = [("submit", "queued", 740.0, "run"), ("assign", "running", 680.0, f"{id}/1")]
        if lost:
            lines += [("lose", "queued", 268.0, "serve 7f31"), ("assign", "running", 260.0, f"{taken}/1")]
        if job["result"]:
            lines.append(("finish", "finished", 680.0 - took, f"{taken}/1"))
        stories.append(
            StoryAnswer(
                key,
                job["state"],
                None,
                None,
                None,
                [
                    StoryLineAnswer(v, step, state, pool.before(at), by, "")
                    for v, (step, state, at, by) in enumerate(lines)
                ],
            )
        )
    return jobs, stories


def _run(pool: MadePool, id: str) -> Answer:
    held = [one for one in pool.instances.values() if one.run_id == id]
    if not held and id not in ("48233", "48231"):
        return 404, {"code": "not-found", "error": f"{id}: no such run"}
    return RunAnswer(id, held, made_jobs(pool)[0] if id == RUN else [])


def _why(pool: MadePool, id: str) -> Answer:
    waits = [one for one in _waits(pool) if id in (one.subject, one.run_id)]
    kind = SubjectKind.INSTANCE if id.startswith("i-") else SubjectKind.RUN
    if id != RUN:
        return WhyAnswer(id, kind, waits[0].because if waits else "It does not wait.", waits, None, [])
    held = [one.id for one in pool.instances.values() if one.run_id == RUN]
    lanes = [
        LaneAnswer(one, Origin.SELECTED, 0.2, 0.3, 0.4 + n / 20, None, None, 0.56 + n / 10, 1.9, True, "", None)
        if n < 9
        else LaneAnswer(one, Origin.CREATED, None, None, None, 1.4, 49.0 + n / 2, 51.0 + n / 1.7, 59.0, True, "", None)
        for n, one in enumerate(held)
    ]
    fate: Any = "terminated"
    mute = "did not acknowledge its claim within 2 s; another was drawn"
    lanes.append(
        LaneAnswer("i-2c71f09a44e0b6d1", Origin.SELECTED, 0.2, 0.4, None, None, None, None, None, False, mute, fate)
    )
    timeline = TimelineAnswer(
        provision_id="p-8219a4d904229c0e",
        asked_at=pool.before(760),
        ended_at=pool.before(702),
        seconds=58.2,
        outcome=TimelineOutcome.MET,
        reason="",
        stages={"claimed": 0.4, "booted": 50.5, "registered": 58.2},
        phases={},
        lanes=lanes,
    )
    return WhyAnswer(id, kind, "It has all 12 runners.", [], timeline, made_jobs(pool)[1])


def _waits(pool: MadePool) -> list[WaitAnswer]:
    candidates = [
        CandidateAnswer(one.id, one.state, RefusalRule.TAKEN if one.run_id else RefusalRule.TRUST_DOMAIN, one.run_id)
        for one in pool.instances.values()
        if one.resource_class == "medium"
    ][:60]
    rules = [
        RefusalCount(RefusalRule.TAKEN, 52),
        RefusalCount(RefusalRule.TRUST_DOMAIN, 9),
        RefusalCount(RefusalRule.CLEANING, 4),
    ]
    return [
        WaitAnswer(
            "gpu-bench",
            WaitKind.JOB,
            "48223",
            "acme/ml",
            "",
            pool.before(700),
            WaitCause.NO_MATCH,
            "No class and no set has the label bullpen-gpu.",
            "Configure a set with this label, or change runs-on.",
            None,
        ),
        WaitAnswer(
            "48233",
            WaitKind.RUN,
            "48233",
            "acme/mobile",
            "large",
            pool.before(185),
            WaitCause.CAP,
            "Class large is at its cap: classes.large.max-instances is 20.",
            "It goes on when a run gives runners back.",
            None,
        ),
        WaitAnswer(
            "48231",
            WaitKind.RUN,
            "48231",
            "acme/billing",
            "medium",
            pool.before(137),
            WaitCause.NO_CAPACITY,
            "EC2 has no spot machine of m7i.xlarge or m7a.xlarge in eu-west-1a and eu-west-1b; 3 of 6 are missing.",
            "The next attempt begins in 24 s. Spot fallback is off for this class.",
            24.0,
            rules,
            candidates,
        ),
        WaitAnswer(
            "48232",
            WaitKind.RUN,
            "48232",
            "acme/web",
            "medium",
            pool.before(74),
            WaitCause.TRUST_DOMAIN,
            "The instances on offer were used by other trust domains.",
            "Machines of its own are launched.",
            61.0,
        ),
        WaitAnswer(
            "48230",
            WaitKind.RUN,
            "48230",
            "acme/web",
            "small",
            pool.before(18),
            WaitCause.BOOTING,
            "2 of 6 runners boot.",
            "They are ready in about 20 s.",
            20.0,
        ),
    ]


def _queue(pool: MadePool) -> QueueAnswer:
    waits = _waits(pool)
    latencies = [
        LatencyAnswer(name, repository, 40, p50, 40 * p50, 100 * p50, None)
        for name, repository, p50 in (
            ("small", "acme/web", 0.62),
            ("small", "acme/api", 0.55),
            ("medium", "acme/billing", 0.38),
            ("medium", "acme/web", 1.3),
            ("large", "acme/mobile", 1.7),
            ("large", "acme/ml", 2.1),
        )
    ]
    return QueueAnswer(waits, 0, waits[:1], latencies, pool.before(30_000))


def _workers(pool: MadePool) -> WorkerList:
    silent = {one.instance_id for one in pool.silent}
    found = []
    for one in pool.silent:
        state: Any = one.state
        found.append(
            WorkerAnswer(
                key=one.key,
                state=state,
                instance_id=one.instance_id,
                domain="eu-west-1c",
                epoch=1,
                token=44,
                lease_seconds=15.0,
                deadline=pool.before(20),
                cleanup_at=pool.after(3300) if state == "inactive" else None,
                heartbeat_at=one.heartbeat_at,
                owes_reschedule=False,
            )
        )
    for n, id in enumerate(pool.instances):
        if id not in silent and pool.instances[id].state is not InstanceState.CREATED:
            active: Any = "active"
            found.append(
                WorkerAnswer(
                    key=f"{id}/1",
                    state=active,
                    instance_id=id,
                    domain="eu-west-1a",
                    epoch=1,
                    token=44,
                    lease_seconds=15.0,
                    deadline=pool.after(600 + n % 9),
                    cleanup_at=None,
                    heartbeat_at=pool.before(1),
                    owes_reschedule=False,
                )
            )
    return WorkerList(found, "")


PLAN = PlanAnswer(
    blocked_by=None,
    run_id="manual-1",
    requested=3,
    serving=[],
    would_claim=[PlannedClaim(f"i-{n:016x}", "small", "c7i.large", UsageClass.ON_DEMAND) for n in (1, 2)],
    would_end=[],
    would_launch=PlannedLaunch(1, "small", UsageClass.ON_DEMAND, ["*"], 2, 4096, 7),
    refusals=[RefusalCount(RefusalRule.TAKEN, 66), RefusalCount(RefusalRule.TRUST_DOMAIN, 3)],
    refused=[],
    price_per_hour=0.2679,
    missing_prices=[],
    caps=[PlannedCap("classes.small.max-instances", 120, 104, 105)],
    idle_target=PlannedTarget("classes.small.idle-target", 24, 22, 20),
)


def made_control(pool: MadePool) -> Mapping[str, Answer]:
    return {
        "/v1/control": ControlsAnswer(
            loops=[
                _loop(pool, "debts", 1, 0.014),
                _loop(pool, "sweep", 1, 0.009),
                _loop(pool, "reap", 5, 0.031),
                _loop(pool, "warm", 5, 0.21, (38, 39, 45)),
                _loop(pool, "reconcile", 60, 1.8),
            ],
            debts=[
                OwedAnswer(one.id, one.owes.kind, one.owes.due_at, WAITS[one.owes.kind])
                for one in pool.instances.values()
                if one.owes
            ],
            more_debts=False,
            hold="",
            protection=pool.status.controls,
            pauses=[],
            rate_limits=[
                RateLimitAnswer("core", 5000, 3812, pool.after(1080)),
                RateLimitAnswer("graphql", 5000, 4988, pool.after(1080)),
            ],
            runner_version=RunnerVersionAnswer("2.331.0", pool.after(26 * 86400)),
            store=StoreAnswer(True, StoreKind.DYNAMODB),
            replicas=[
                ReplicaAnswer("serve on ci-1 (4711)", pool.before(1)),
                ReplicaAnswer("serve on ci-2 (911)", pool.before(2)),
            ],
        )
    }


def _loop(pool: MadePool, name: str, every: float, seconds: float, bad: tuple[int, ...] = ()) -> LoopAnswer:
    turns = [
        LoopTurnAnswer(pool.before((60 - n) * every), seconds * (1 + 0.6 * math.sin(n * n)), n not in bad)
        for n in range(60)
    ]
    return LoopAnswer(
        "serve on ci-1 (4711)",
        name,
        every,
        True,
        pool.before(every / 2),
        seconds,
        turns,
        False,
        "no capacity" if bad else "",
    )


def made_cost(pool: MadePool) -> Mapping[str, Answer]:
    def row(name: str, run: float, idle: float, boot: float, cleaning: float) -> CostRowAnswer:
        whole = run + idle + boot + cleaning
        seconds = OwnerSeconds(*(36000 * value for value in (run, idle, boot, cleaning)))
        return CostRowAnswer(name, seconds, 36000 * whole, whole)

    def amount(value: float) -> AmountAnswer:
        return AmountAnswer(36000 * value, value)

    on_demand, spot = UsageClass.ON_DEMAND, UsageClass.SPOT
    by_repository = [
        row("(no run)", 0, 61.14, 2, 1),
        row("acme/mobile", 43.24, 0, 2.45, 1.28),
        row("acme/web", 31.49, 0, 1.79, 0.93),
        row("acme/api", 23.74, 0, 1.35, 0.70),
        row("acme/data", 18.34, 0, 1.04, 0.54),
    ]
    by_class = [
        row("large", 51.91, 15.89, 2.5, 1),
        row("medium", 37.62, 25.07, 3, 2),
        row("small", 27.28, 20.18, 3.13, 1.45),
    ]
    whole = sum(one.money for one in by_repository)
    owners = OwnersAnswer(*(amount(value) for value in (116.81, 61.14, 8.63, 4.45)))
    base = CostAnswer(
        since=pool.before(86400),
        until=pool.before(0),
        data_since=pool.before(86400),
        by="repository",
        total=amount(whole),
        owners=owners,
        rows=by_repository,
        more_rows=0,
        machines=amount(whole),
        types=[
            MachineCostAnswer("m7i.4xlarge", on_demand, 0.8064, 300_000.0, 67.2),
            MachineCostAnswer("m7i.xlarge", spot, 0.0781, 900_000.0, 19.5),
            MachineCostAnswer("c7i.large", on_demand, 0.0893, 800_000.0, 19.8),
            MachineCostAnswer("c6i.large", on_demand, None, 40_000.0, 0.0),
        ],
        missing_prices=["c6i.large"],
        reused=939,
        avoided_seconds=54_420.0,
        saved_seconds=-12_000.0,
        saved_money=-3.2,
    )
    hours = []
    busy = [4 + 9 * max(0.0, math.sin((n - 9) / 5)) for n in range(25)]
    for n, part in enumerate(busy):
        hour = format_time((pool.at - timedelta(hours=24 - n)).replace(minute=0, second=0, microsecond=0))
        for owner in Owner:  # the hours of an owner add up to what it has in the range
            value = getattr(owners, owner.value).money * part / sum(busy)
            hours.append(HourCostAnswer(hour, owner, 36000 * value, value))
    return {
        "/v1/cost": base,
        "/v1/cost?since=24h&by=class": msgspec.structs.replace(base, by="class", rows=by_class),
        "/v1/cost/hours": HourCostList(pool.before(86400), pool.before(0), hours),
    }


def made_activity(pool: MadePool) -> Mapping[str, Answer]:
    ids = list(pool.instances)
    serve = "serve on ci-1 (4711)"
    kinds = [
        ("release of 48206", "release", "48206", "its run has ended on GitHub", False),
        (f"{serve}/reconcile", "drop stale tickets", "5", "their instances have moved on", False),
        (f"{serve}/warm", "create", "3 of small", "the idle target is 24", False),
        (
            f"{serve}/sweep",
            "lose lease",
            ids[40],
            "eu-west-1c: no beat for 31 s; the brake lets one pass each 10 s",
            True,
        ),
        (f"{serve}/reap", "terminate", ids[2], "idle: its threshold has passed", False),
        (f"{serve}/sweep", "brake", "eu-west-1c", "14 of 24 workers are silent: losses are limited", True),
        (f"{serve}/reconcile", "deregister", ids[3], "a registration without an instance", False),
        (f"{serve}/debts", "offer", ids[4], "attested clean", False),
    ]
    actions = [
        NotedAction(pool.before(4 + 5 * n), by, did, subject, reason, True, trouble and n % 40 < 8)
        for n in range(200)
        for by, did, subject, reason, trouble in [kinds[(n * 7) % 8]]
    ]
    return {"/v1/activity": ActivityList(actions, "")}


def made_series(pool: MadePool) -> Mapping[str, Answer]:
    start = pool.at.replace(second=0, microsecond=0) - timedelta(minutes=29)

    def minute(name: str, n: int) -> MinuteAnswer:
        offered, now, busy = CLASSES[name][3], SHARES[name][0], {"small": 30, "medium": 18, "large": 6}[name]
        slump = max(0, n - 22) * (offered - now) / 7  # down to what the pool has on offer at the end
        cold = busy // 7 if 14 < n < 18 or n > 26 else int(n % 7 == 0)
        return MinuteAnswer(
            at=format_time(start + timedelta(minutes=n)),
            provisions=6,
            selected=busy - cold,
            created=cold,
            cold_starts=cold,
            wait_p50=0.5 + 0.2 * math.sin(n) + cold / 10,
            wait_p95=4 + 40 * cold + n,
            on_offer=now if n == 29 else max(0, round(offered - slump + busy / 19 * math.sin(n * 1.3))),
        )

    classes = []
    for name in CLASSES:
        points = [minute(name, n) for n in range(30)]
        selected, created = sum(one.selected for one in points), sum(one.created for one in points)
        classes.append(ClassSeries(name, 180, selected, created, sum(one.cold_starts for one in points), points))
    marks = [
        MarkAnswer(pool.before(240), "lose lease", "i-8bd38d6f", "no beat"),
        MarkAnswer(pool.before(60), "brake", "eu-west-1c", "14 of 24 workers are silent"),
    ]
    return {"/v1/series": SeriesAnswer(format_time(start), pool.before(0), pool.before(7200), classes, marks)}
