"""Control: how a test tells the cloud what shall go wrong, and looks at what came of it.

Named actions are EC2's and the others' own, such as `CreateFleet`, and may be patterns, such as `Describe*`. `times` is
for how many calls; None means until `reset`.
"""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from fakes.ec2 import ground


class Control:
    """Over HTTP and blocking: for a cloud that is a process of its own."""

    def __init__(self, url: str, pid: int = 0) -> None:
        self.url = url
        self.pid = pid
        self.folders: list[Path] = []  # where it launches for real, to be searched should it be killed

    def settings(self) -> dict[str, Any]:
        """What `bullpen.config.Aws` needs to launch here: region, endpoints, and six subnets of six zones."""
        services = ("ec2", "sts", "iam", "service-quotas")
        return {
            "region": ground.REGION,
            "endpoints": dict.fromkeys(services, self.url),
            "image": ground.AMAZON_LINUX.id,
            "subnets": tuple(subnet.id for subnet in ground.SUBNETS),
            "security_groups": (ground.SECURITY_GROUP,),
            "instance_profile": ground.PROFILE,
            "instance_role": ground.ROLE_ARN,
        }

    # ------------------------------------------------------------------------------------------------------------ looks

    def look(self) -> dict[str, Any]:
        """Everything: instances, fleets, templates, calls, timings."""
        with urllib.request.urlopen(f"{self.url}/_control") as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def instances(self, *states: str) -> dict[str, dict[str, Any]]:
        """Id → state, type, market, zone, tags, fleet, reason; of all states unless some are named."""
        found: dict[str, dict[str, Any]] = self.look()["instances"]
        return {id: one for id, one in found.items() if not states or one["state"] in states}

    def fleets(self) -> dict[str, dict[str, Any]]:
        """Id → token, asked, instances, errors (their codes)."""
        found: dict[str, dict[str, Any]] = self.look()["fleets"]
        return found

    def calls(self) -> dict[str, int]:
        """Action → how often it was asked for, refusals included."""
        found: dict[str, int] = self.look()["calls"]
        return found

    # ----------------------------------------------------------------------------------------------------------- faults

    def reset(self) -> None:
        """An empty account without faults, counts and launcher; returns when every process of an instance is gone."""
        self.order("reset")

    def capacity(self, left: int, *, instance_type: str = "*", zone: str = "*", market: str = "*") -> None:
        """Only so many more machines, in all, of the types, zones and market (on-demand, spot) that match."""
        self.order("capacity", left=left, instance_type=instance_type, zone=zone, market=market)

    def quota(self, market: str, vcpus: float) -> None:
        """How many vCPUs may run at once; Service Quotas says so too."""
        self.order("quota", market=market, vcpus=vcpus)

    def refuse(
        self, action: str, code: str, message: str = "as told", *, status: int | None = None, times: int | None = 1
    ) -> None:
        """The action answers with this error and does nothing. The status is the code's usual one unless given."""
        self.order("refuse", action=action, code=code, message=message, status=status, times=times)

    def spoil(self, code: str, message: str = "as told", *, launches: int | None = 0, times: int | None = 1) -> None:
        """CreateFleet succeeds with this among its Errors, and launches at most so many (None: all asked for)."""
        self.order("spoil", code=code, message=message, launches=launches, times=times)

    def console(self, id: str, text: str) -> None:
        """What a machine has printed on its console."""
        self.order("console", id=id, text=text)

    def deny(self, action: str) -> None:
        """No permission for an action, named as a policy does, such as `ec2:CreateFleet`. No pattern."""
        self.order("deny", action=action)

    def allow(self, action: str) -> None:
        """Take a `deny` back."""
        self.order("allow", action=action)

    def lose_answer(self, action: str, *, times: int | None = 1) -> None:
        """The action is done and the connection breaks before the answer. The client's own retries count as calls."""
        self.order("lose_answer", action=action, times=times)

    def slow(self, action: str, seconds: float, *, before: bool = False, times: int | None = 1) -> None:
        """The answer comes so many seconds after the work; with `before`, the work begins so many seconds late."""
        self.order("slow", action=action, seconds=seconds, is_before=before, times=times)

    # ------------------------------------------------------------------------------------------------------------- time

    def timing(self, **seconds: float) -> None:
        """boot, shutdown, terminated_visible, describe_lag, terminate_lag; see `account.Timings`."""
        self.order("timing", **seconds)

    def advance(self, seconds: float) -> None:
        """Put the cloud's clock ahead."""
        self.order("advance", seconds=seconds)

    # -------------------------------------------------------------------------------------------------------- instances

    def interrupt(self, instance_id: str, *, seconds: float = 120.0, action: str = "terminate") -> None:
        """The spot market's notice; the instance is taken when the time is over."""
        self.order("interrupt", instance_id=instance_id, seconds=seconds, action=action)

    def rebalance(self, instance_id: str) -> None:
        """A recommendation to rebalance, from now on in the instance's metadata."""
        self.order("rebalance", instance_id=instance_id)

    def launch_for_real(self, folder: Path, environment: dict[str, str] | None = None, user: str = "") -> None:
        """From now on every launched instance is a tree of processes below `folder`, of this user's if one is named;
        see `machines`."""
        self.folders.append(folder)
        self.order("launch_for_real", folder=str(folder), environment=environment or {}, user=user)

    def order(self, name: str, /, **details: Any) -> None:
        body = json.dumps({"do": name, **details}).encode()
        asked = urllib.request.Request(f"{self.url}/_control", body, {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(asked).close()
        except urllib.error.HTTPError as refused:
            with refused:
                raise ValueError(refused.read().decode()) from None
