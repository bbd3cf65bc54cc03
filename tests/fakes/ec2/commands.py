"""The control endpoint: one JSON object {"do": name, …} per POST, and a look at everything per GET. Loopback only.

`Control` is its client; each method here is documented there.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from fakes.ec2.account import Ec2Account, Ec2Instance, Notice
from fakes.ec2.catalogue import SPOT
from fakes.ec2.faults import EVER, Capacity, Lost, RefusedAction, SlowAction, Spoiled
from fakes.ec2.machines import Machines

LOOPBACK = ("127.0.0.1", "::1")


@dataclass
class ControlCommands:
    account: Ec2Account
    machines: Machines

    async def serve(self, request: web.Request) -> web.Response:
        if request.remote not in LOOPBACK:
            return web.Response(status=403)
        if request.method == "GET":
            return web.json_response(self.look())
        try:
            await self.do(await request.json())
        except (KeyError, TypeError, ValueError) as mistake:
            return web.json_response({"mistake": f"{type(mistake).__name__}: {mistake}"}, status=400)
        return web.json_response({})

    async def do(self, order: dict[str, Any]) -> None:
        """Carry out one order; ValueError, KeyError or TypeError for one that makes no sense."""
        rest = dict(order)
        name = rest.pop("do")
        if name == "reset":
            await self.machines.close()
            self.account.forget()
        elif name in self._orders():
            self._orders()[name](**rest)
        else:
            raise ValueError(f"there is no order {name!r}")

    def _orders(self) -> dict[str, Callable[..., None]]:
        faults = self.account.faults
        return {
            "capacity": lambda **entry: faults.capacity.append(Capacity(**entry)),
            "refuse": lambda times, **entry: faults.refused.append(RefusedAction(times=_times(times), **entry)),
            "spoil": lambda times, launches, **entry: faults.spoiled.append(
                Spoiled(times=_times(times), launches=_times(launches), **entry)
            ),
            "lose_answer": lambda times, **entry: faults.lost.append(Lost(times=_times(times), **entry)),
            "slow": lambda times, **entry: faults.slow.append(SlowAction(times=_times(times), **entry)),
            "console": lambda id, text: self.account.consoles.update({id: text.encode()}),
            "deny": lambda action: faults.denied.add(action),
            "allow": lambda action: faults.denied.discard(action),
            "quota": lambda market, vcpus: faults.quotas.update({market: vcpus}),
            "timing": self._set_timing,
            "advance": self._advance,
            "interrupt": self._interrupt,
            "rebalance": self._rebalance,
            "launch_for_real": lambda folder, **told: self.machines.enable(Path(folder), **told),
        }

    def look(self) -> dict[str, Any]:
        account = self.account
        return {
            "instances": {id: self._shown(instance) for id, instance in account.instances.items()},
            "fleets": account.fleets,
            "templates": {template.name: template.id for template in account.templates.values()},
            "calls": dict(account.calls),
            "timings": asdict(account.timings),
        }

    def _shown(self, instance: Ec2Instance) -> dict[str, Any]:
        return {
            "state": self.account.state_of(instance),
            "type": instance.kind.name,
            "market": instance.market,
            "zone": instance.subnet.zone,
            "tags": instance.tags,
            "fleet": instance.fleet_id,
            "reason": instance.end_reason,
        }

    def _set_timing(self, **seconds: float) -> None:
        for name, value in seconds.items():
            if not hasattr(self.account.timings, name):
                raise ValueError(f"there is no timing {name!r}")
            setattr(self.account.timings, name, value)

    def _advance(self, seconds: float) -> None:
        self.account.clock.ahead += timedelta(seconds=seconds)
        self.account.carry_out_notices()

    def _interrupt(self, instance_id: str, seconds: float, action: str) -> None:
        instance = self.account.instances[instance_id]
        if instance.market != SPOT:
            raise ValueError(f"{instance_id} is {instance.market}: only the spot market takes its instances back")
        instance.notice = Notice(action, self.account.clock.now() + timedelta(seconds=seconds))

    def _rebalance(self, instance_id: str) -> None:
        self.account.instances[instance_id].rebalance_at = self.account.clock.now()


def _times(count: int | None) -> int:
    return EVER if count is None else count
