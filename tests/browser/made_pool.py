"""A pool with a bit of everything, as the server would answer: for pictures, and for pages that show all they can."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from bullpen.model.instance import State as InstanceState
from bullpen.model.ticket import UsageClass, format_time
from bullpen.schema.instance import InstanceAnswer
from bullpen.schema.status import ControlAnswer, DomainAnswer, PoolAnswer, ServerStatus, SettingsAnswer
from bullpen.schema.story import DebtAnswer, StoryAnswer, StoryLineAnswer
from bullpen.schema.worker import SilentWorker

CLASSES = {
    "small": (2, 4096, ["c7i.large", "c7a.large", "c6i.large"], 24),
    "medium": (4, 16384, ["m7i.xlarge", "m7a.xlarge"], 16),
    "large": (16, 65536, ["m7i.4xlarge", "m7a.4xlarge"], 4),
}
RUNS = {
    "48229": ("acme/api", "small", 32),
    "48228": ("acme/mobile", "large", 6),
    "48226": ("acme/api", "medium", 12),
    "48225": ("acme/web", "medium", 24),
    "48221": ("acme/web", "small", 34),
    "48219": ("acme/data", "large", 10),
}
SHARES = {"small": (22, 6, 4, 5, 1), "medium": (9, 4, 3, 3, 1), "large": (3, 1, 1, 1, 0)}
ZONES = ["eu-west-1a", "eu-west-1b", "eu-west-1c"]


def now() -> datetime:
    return datetime.now(UTC)


class MadePool:
    """`instances` by id; `answers` by path."""

    def __init__(self, at: datetime | None = None) -> None:
        self.at = at or now()
        self._chance = random.Random(14)
        self.instances: dict[str, InstanceAnswer] = {}
        for run_id, (repository, name, count) in RUNS.items():
            for _ in range(count):
                self._add(name, InstanceState.RUNNING, run_id, repository)
        for name, (offer, cleaning, claimed, created, ended) in SHARES.items():
            for _ in range(offer):
                self._add(name, InstanceState.IDLE, attested=True)
            for _ in range(cleaning):
                self._add(name, InstanceState.IDLE, owes="await-and-offer")
            for _ in range(claimed):
                self._add(name, InstanceState.CLAIMED, "48231", "acme/billing")
            for _ in range(created):
                self._add(name, InstanceState.CREATED)
            for _ in range(ended):
                self._add(name, InstanceState.TERMINATED, owes="terminate")
        of_run = [one.id for one in self.instances.values() if one.run_id == "48225"]
        self.silent = [self._silent(id, lost=n < 3) for n, id in enumerate(of_run[:14])]

    def before(self, seconds: float) -> str:
        return format_time(self.at - timedelta(seconds=seconds))

    def after(self, seconds: float) -> str:
        return format_time(self.at + timedelta(seconds=seconds))

    def _hex(self, digits: int) -> str:
        return f"{self._chance.getrandbits(4 * digits):0{digits}x}"

    def _add(
        self,
        name: str,
        state: InstanceState,
        run_id: str = "",
        repository: str = "",
        attested: bool = False,
        owes: str = "",
    ) -> None:
        cpu, mem, types, _ = CLASSES[name]
        debt: Any = DebtAnswer(owes, self.after(self._chance.randint(3, 90))) if owes else None  # type: ignore[arg-type]
        one = InstanceAnswer(
            id=f"i-{self._hex(16)}",
            state=state,
            run_id=run_id,
            round=self._hex(16),
            version=self._chance.randint(1, 60),
            threshold=self.after(self._chance.randint(60, 1700)),
            attested=attested,
            trust_domain=repository or self._chance.choice(["", "acme/api", "acme/web", "acme/data"]),
            image_generation=7,
            resource_class=name,
            instance_type=self._chance.choice(types),
            usage_class=self._chance.choice([UsageClass.ON_DEMAND, UsageClass.SPOT]),
            cpu=cpu,
            mem=mem,
            provision_id=f"p-{self._hex(16)}",
            repository=repository,
            offered_at=self.before(self._chance.randint(1, 400)) if attested else None,
            owes=debt,
            purge_at=None,
        )
        self.instances[one.id] = one

    def _silent(self, id: str, *, lost: bool) -> SilentWorker:
        state: Any = "inactive" if lost else "active"
        return SilentWorker(
            key=f"{id}/{self._hex(8)}",
            state=state,
            may_return=lost,
            instance_id=id,
            epoch=1,
            heartbeat_at=self.before(240 if lost else self._chance.randint(30, 40)),
            job_ids=() if lost else (f"j-{self._hex(16)}",),
        )

    @property
    def beginning(self) -> list[tuple[str, object]]:
        events: list[tuple[str, object]] = [("instance", one) for one in self.instances.values()]
        return [*events, ("workers", {"workers": self.domains}), ("ready", {"instances": len(events), "jobs": 0})]

    @property
    def domains(self) -> list[DomainAnswer]:
        count = len(self.instances)
        return [
            DomainAnswer(ZONES[0], count // 2, 0),
            DomainAnswer(ZONES[1], count // 2 - 25, 0),
            DomainAnswer(ZONES[2], 21, 3),
        ]

    @property
    def status(self) -> ServerStatus:
        counts: dict[str, dict[str, int]] = {}
        for one in self.instances.values():
            of_class = counts.setdefault(one.resource_class, {})
            of_class[one.state.value] = of_class.get(one.state.value, 0) + 1
        held: Any = "held"
        is_open: Any = "open"
        return ServerStatus(
            counts=counts,
            pools=[
                PoolAnswer(
                    name,
                    SHARES[name][0],
                    False,
                    SHARES[name][0],
                    idle_target=target,
                    schedule_entry="weekdays" if name != "large" else "",
                    next_target=target // 4 if name != "large" else None,
                    next_target_at=self.after(4 * 3600) if name != "large" else None,
                )
                for name, (_, _, _, target) in CLASSES.items()
            ],
            workers=self.domains,
            silent_workers=self.silent,
            hold="",
            controls=[
                ControlAnswer("eu-west-1a", is_open, "", None, None),
                ControlAnswer("eu-west-1b", is_open, "", None, None),
                ControlAnswer(
                    "eu-west-1c",
                    held,
                    "14 of 24 workers are silent: one loss is declared every 10 s",
                    self.before(17),
                    None,
                ),
                ControlAnswer("ingest", is_open, "", None, self.before(90_000)),
            ],
            waiting=[],
            failing_loops=[],
            loops=dict.fromkeys(("infrastructure", "debts", "sweep", "reap", "reconcile", "warm", "health"), True),
            settings=SettingsAnswer("/etc/bullpen/bullpen.toml"),
        )

    def story_of(self, id: str) -> list[StoryLineAnswer]:
        steps = [
            ("register", "created", 2010, "serve 7f31, warm", "the idle target is 16"),
            ("adopt", "idle", 1950, "serve 7f31, warm", "booted"),
            ("claim", "claimed", 1935, "provision p-67533dc0", ""),
            ("commit", "running", 1930, "provision p-67533dc0", ""),
            ("release", "idle", 1520, "release of 48194", "its run was released"),
            ("offer", "idle", 1514, "release of 48194", "attested clean"),
            ("claim", "claimed", 1466, "provision p-ef95ec86", ""),
            ("commit", "running", 1465, "provision p-ef95ec86", ""),
            ("release", "idle", 958, "release of 48202", "its run was released"),
            ("offer", "idle", 952, "release of 48202", "attested clean"),
            ("claim", "claimed", 702, "provision p-8219a4d9", ""),
            ("commit", "running", 700, "provision p-8219a4d9", ""),
        ]
        return [
            StoryLineAnswer(version, step, state, self.before(ago), by, why)
            for version, (step, state, ago, by, why) in enumerate(steps, start=28)
        ]

    def stories(self, id: str) -> dict[str, object]:
        one = self.instances.get(id)
        return {
            "id": id,
            "stories": [StoryAnswer(id, one.state.value if one else None, None, None, None, self.story_of(id))],
        }


def ids_of(instances: Sequence[InstanceAnswer], run_id: str) -> list[str]:
    return [one.id for one in instances if one.run_id == run_id]
