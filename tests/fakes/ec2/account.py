"""Account: everything the cloud remembers, and the clock that it goes by.

States of an instance follow from times, so that nothing has to happen for them to change:

    launched ──boot──▶ running ──ended──▶ shutting-down ──shutdown, processes gone──▶ terminated ──visible──▶ unknown
    (pending)              └──shut itself down, template without `terminate`──▶ stopped
"""

import dataclasses
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fakes.ec2.catalogue import InstanceType
from fakes.ec2.faults import Ec2Faults
from fakes.ec2.ground import Subnet

STATE_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopped": 80}


@dataclass
class Timings:
    """Seconds. Tests change them, or put the clock ahead, instead of waiting."""

    boot: float = 0.0  # pending for so long
    shutdown: float = 0.0  # shutting down for so long, and at least until its processes have ended
    terminated_visible: float = 3600.0
    describe_lag: float = 0.0  # DescribeInstances does not know a new instance for so long
    terminate_lag: float = 0.0  # nor does TerminateInstances


@dataclass
class AccountClock:
    ahead: timedelta = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Template:
    id: str
    name: str
    created_at: datetime
    tags: dict[str, str]
    versions: dict[int, dict[str, Any]]  # LaunchTemplateData as given
    described: dict[int, str] = field(default_factory=dict)
    default: int = 1


@dataclass
class Notice:
    action: str
    at: datetime


@dataclass
class Ec2Instance:
    id: str
    kind: InstanceType
    market: str
    subnet: Subnet
    template: Template
    version: int
    data: dict[str, Any]  # what the template and the override say of it
    tags: dict[str, str]
    fleet_id: str
    reservation_id: str  # shared by those launched from one pool
    client_token: str
    launched_at: datetime
    ended_at: datetime | None = None
    end_reason: str = ""
    is_stopped: bool = False
    has_processes: bool = False
    notice: Notice | None = None  # of the spot market
    rebalance_at: datetime | None = None


@dataclass(frozen=True)
class InstanceCredentials:
    """What the metadata service handed out to an instance."""

    key: str
    secret: str
    token: str
    expiry: datetime
    instance_id: str


@dataclass
class Ec2Account:
    clock: AccountClock = field(default_factory=AccountClock)
    timings: Timings = field(default_factory=Timings)
    faults: Ec2Faults = field(default_factory=Ec2Faults)
    templates: dict[str, Template] = field(default_factory=dict)
    instances: dict[str, Ec2Instance] = field(default_factory=dict)
    fleets: dict[str, dict[str, Any]] = field(default_factory=dict)
    replays: dict[tuple[str, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """(action, client token) → the request and its answer"""
    calls: Counter[str] = field(default_factory=Counter)
    consoles: dict[str, bytes] = field(default_factory=dict)  # by instance
    credentials: dict[str, InstanceCredentials] = field(default_factory=dict)  # by access key
    launched: Callable[[Ec2Instance], None] = lambda instance: None
    ended: Callable[[Ec2Instance], None] = lambda instance: None

    def forget(self) -> None:
        """Back to an empty account; what hears of launches and ends still does, and ends what runs."""
        for instance in self.instances.values():
            self.end(instance, "reset")
        self.faults.withdrawn.set()
        fresh = Ec2Account(launched=self.launched, ended=self.ended)
        for each in dataclasses.fields(self):
            setattr(self, each.name, getattr(fresh, each.name))

    def state_of(self, instance: Ec2Instance) -> str:
        now = self.clock.now()
        if instance.is_stopped:
            return "stopped"
        if instance.ended_at is None:
            booted_at = instance.launched_at + timedelta(seconds=self.timings.boot)
            return "running" if now >= booted_at else "pending"
        over_at = instance.ended_at + timedelta(seconds=self.timings.shutdown)
        return "terminated" if now >= over_at and not instance.has_processes else "shutting-down"

    def seen_after(self, lag: float) -> dict[str, Ec2Instance]:
        """Those launched at least `lag` seconds ago, until some time after their end, when EC2 forgets them."""
        now, visible = self.clock.now(), timedelta(seconds=self.timings.terminated_visible)
        return {
            id: one
            for id, one in self.instances.items()
            if now >= one.launched_at + timedelta(seconds=lag) and (not one.ended_at or now < one.ended_at + visible)
        }

    def end(self, instance: Ec2Instance, reason: str) -> None:
        """Terminate, unless that has happened."""
        if instance.ended_at is None:
            instance.ended_at = self.clock.now()
            instance.end_reason = reason
            instance.is_stopped = False
            self.ended(instance)

    def shut_itself_down(self, instance: Ec2Instance) -> None:
        """What the template says of a shutdown from inside; by default the machine is only stopped, and still there."""
        if instance.data.get("InstanceInitiatedShutdownBehavior") == "terminate":
            self.end(instance, "Client.InstanceInitiatedShutdown")
        elif instance.ended_at is None:
            instance.is_stopped = True

    def carry_out_notices(self) -> None:
        """Take the spot instances whose two minutes are over."""
        for instance in self.instances.values():
            if instance.notice and instance.notice.at <= self.clock.now():
                self.end(instance, "Server.SpotInstanceTermination")


def new_id(prefix: str) -> str:
    return f"{prefix}-0{secrets.token_hex(8)}"
