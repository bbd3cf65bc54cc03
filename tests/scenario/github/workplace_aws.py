"""GitHub served from AWS: DynamoDB, SQS and EC2, with machines that boot from their user data and prove who they are.

Such a machine is a folder, without users of its own: jobs run as its agent does. So as root, machines run as a user
that nothing else runs as.
"""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fakes.ec2.control import Control
from fakes.github.hub import FakeGithub
from fakes.java_engines import Engines
from scenario.aws.ledger import Ledger
from scenario.aws.pool import CloudPool
from scenario.commands import Command, Starter
from scenario.github.fixtures import SECRET, GithubSite, a_ground
from users import lent


@dataclass(kw_only=True)
class CloudWorkplace(GithubSite):
    pool: CloudPool
    serving: Command

    def live(self) -> list[str]:
        return self.pool.live()

    def on_offer(self) -> list[str]:
        return self.pool.on_offer()

    def told_of_job(self, id: str) -> bool:
        beats = self.pool.ledger.items("Heartbeat").values()
        return any(beat.get("instanceId") == id and "activity" in beat for beat in beats)

    def kill_machine(self, id: str) -> None:
        """With its agent ends the machine, and the cloud says so."""
        self.pool.signal(id, signal.SIGKILL)
        self.until(lambda: id not in self.pool.existing(), f"{id} is gone")

    def audit(self) -> list[str]:
        return self.pool.audit()

    def logs(self) -> list[Path]:
        return self.pool.logs()

    def stop(self) -> None:
        self.serving.send(signal.SIGTERM)
        assert self.serving.wait().code == 0

    def down(self) -> None:
        assert self.pool.run("down", "--yes", "--json").code == 0


@contextmanager
def a_cloud_workplace(
    hub: FakeGithub, starter: Starter, engines: Engines, cloud: Control, **told: str
) -> Iterator[CloudWorkplace]:
    """Serving until the block ends, with commands that end then; machines end with the cloud. `told` as `a_ground` has
    it."""
    name = f"test-{secrets.token_hex(6)}"
    with lent(1) as users, a_ground(hub, **told) as (ground, port):
        pool = CloudPool(
            home=ground / "home",
            folder=ground,  # where the settings are
            starter=starter,
            settings={"aws.endpoints": f'{{sts = "{cloud.url}"}}'},  # where the proof of a machine is checked
            name=name,
            cloud=cloud,
            engines=engines,
            ledger=Ledger.of(name, engines),
            machine_user="".join(users),
        )
        try:
            pool.refresh()
            serving = pool.start("serve", "--port", str(port))
            place = CloudWorkplace(ground=ground, port=port, hub=hub, pool=pool, serving=serving)
            place.until(lambda: "listening" in serving.said() or serving.has_ended(), "it listens")
            assert not serving.has_ended(), place.told()
            hub.webhook(f"{place.url}/v1/github/webhook", SECRET)
            yield place
        finally:
            pool.kill_commands()
            cloud.reset()
