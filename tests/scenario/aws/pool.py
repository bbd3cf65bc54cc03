"""A pool on the AWS engines: real commands, DynamoDB Local and ElasticMQ, and machines that are real processes.

Each machine is launched by the cloud of `tests/fakes/ec2` with the user data of the launch template, which fetches the
agent from the table and starts it: nothing of the way from CreateFleet to the first heartbeat is left out.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fakes.ec2.control import Control
from fakes.java_engines import Engines
from scenario import processes
from scenario.audit import Row, astray, disagreements
from scenario.aws.ledger import Ledger
from scenario.commands import Commands


def endpoints(urls: Mapping[str, str]) -> dict[str, str]:
    """Variables that lead every AWS SDK to these services."""
    return {f"AWS_ENDPOINT_URL_{service.replace('-', '_').upper()}": url for service, url in urls.items()}


# Nothing is hedged, replaced or given up because a busy machine lets agents wait for many seconds: a dozen of them ask
# the same engine. All of them pass within `commands.AHEAD`.
TIMINGS = {
    "lease": 30,
    "alive": 30,
    "hedge": 10,
    "registration": 30,
    "validation": 60,
    "provision": 80,
}
EXISTING = ("pending", "running", "stopped", "stopping")


@dataclass(kw_only=True)
class CloudPool(Commands):
    """`name` is that of the table; everything else of the pool is named after it."""

    name: str
    cloud: Control
    engines: Engines
    ledger: Ledger
    machine_user: str = ""  # as which user machines run; empty: as the user of the tests
    look_again: ClassVar[float] = 0.05  # a look is a request

    def __post_init__(self) -> None:
        found = self.cloud.settings()
        self.settings |= {f"timings.{name}": seconds for name, seconds in TIMINGS.items()}
        self.settings |= {
            "engines.pool": "aws",
            "aws.pool": self.name,
            "aws.region": found["region"],
            "aws.image": found["image"],
            "aws.subnets": ",".join(found["subnets"]),
            "aws.security-groups": ",".join(found["security_groups"]),
            "aws.instance-profile": found["instance_profile"],
            "aws.instance-role": found["instance_role"],
        }
        # As the SDK itself finds them: not a setting, so machines know nothing of a proxy in front of a command.
        own = {"dynamodb": self.engines.dynamodb, "sqs": self.engines.sqs, **found["endpoints"]}
        self.environ |= endpoints(own)
        told = {"AWS_ENDPOINT_URL_DYNAMODB": self.engines.dynamodb}
        self.cloud.launch_for_real(self.machines, told, self.machine_user)

    @property
    def machines(self) -> Path:
        return self.folder / "machines"

    def warm(self, count: int) -> list[str]:
        """From nothing to a pool with so many machines on offer, none of them ever used."""
        self.settings["classes.small.idle-target"] = count
        self.refresh()
        self.until(lambda: len(self.ledger.items("WS")) == count, "all have booted")
        self.refresh()
        del self.settings["classes.small.idle-target"]
        assert len(self.on_offer()) == count, self._told()
        return self.on_offer()

    # ------------------------------------------------------------------------------------------------------------ looks

    def instances(self, *, unless: str = "") -> dict[str, Row]:
        found = self.ledger.items("Instance", unless=unless)
        return {id: item for id, item in found.items() if item["state"] != unless}

    def ids(self, state: str) -> list[str]:
        return sorted(id for id, item in self.instances().items() if item["state"] == state)

    def on_offer(self) -> list[str]:
        return sorted(id for id, item in self.instances(unless="terminated").items() if item.get("attested"))

    def live(self) -> list[str]:
        return sorted(self.instances(unless="terminated"))

    def provisions(self, run_id: str) -> list[Row]:
        return [item for item in self.ledger.items("Provision").values() if item["runId"] == run_id]

    def has_committed(self, run_id: str) -> bool:
        return any(item["state"] == "committed" for item in self.provisions(run_id))

    def story(self, id: str) -> str:
        lines = self.instances()[id]["story"].values()
        return "\n".join(line["why"] for line in sorted(lines, key=lambda line: line["version"]))

    def existing(self) -> list[str]:
        """The machines that EC2 would charge for."""
        return sorted(self.cloud.instances(*EXISTING))

    def is_calm(self) -> bool:
        signals = self.ledger.items("WS")
        standing = self.instances(unless="terminated")
        return all(
            signals[id]["round"] == one["round"] and signals[id]["value"]["signal"].startswith("UD_CLEAN_")
            for id, one in standing.items()
            if one["state"] == "idle" and not one.get("attested")
        )

    # ----------------------------------------------------------------------------------------------------------- agents

    def agent(self, id: str) -> int:
        """The pid of an instance's agent."""
        pids = [one.pid for one in processes.below(self.machines) if one.is_agent and one.instance_id == id]
        assert len(pids) == 1, f"agents of {id}: {pids}\n{self._told()}"
        return pids[0]

    def signal(self, id: str, number: signal.Signals) -> None:
        os.kill(self.agent(id), number)

    # ------------------------------------------------------------------------------------------------------------ audit

    def audit(self) -> list[str]:
        """Machines that are ending are waited for: they serve no run any more."""
        self.until(lambda: not self.cloud.instances("shutting-down"), "what was terminated has ended")
        books = self.ledger.books()
        return [
            *disagreements(books),
            *self._machines(books.live),
            *astray(books.live, processes.below(self.machines)),
        ]

    def _machines(self, live: dict[str, Row]) -> Iterator[str]:
        existing = self.cloud.instances(*EXISTING)
        for id, one in existing.items():
            if id not in live:
                yield f"machine {id} is {one['state']} without a live record"
        for id, row in live.items():
            if id not in existing:
                yield f"{id} is {row['state']} and has no machine"

    def logs(self) -> list[Path]:
        """What commands and machines have written."""
        below = ("console.log", "var/log/*.log", "var/lib/bullpen/agent.log")
        return [*sorted(self.folder.glob("*.err")), *(file for log in below for file in self.machines.glob(f"*/{log}"))]

    def _told(self) -> str:
        return self._last_words(self.logs(), self.folder)
