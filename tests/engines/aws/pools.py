"""Pools on the EC2 of the tests, and their processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from bullpen.config import Aws, ResourceClass, Settings
from bullpen.engines.aws import session as sessions
from bullpen.engines.aws.ec2 import compute
from bullpen.engines.aws.ec2.compute import Ec2Compute
from bullpen.engines.aws.session import opened
from fakes.ec2.control import Control
from fakes.ec2.ground import AMAZON_LINUX, PROFILE, REGION, SECURITY_GROUP, SUBNETS

UNKNOWN = "i-0ffffffffffffffff"


class SetClock:
    def __init__(self) -> None:
        self.time = datetime.now(UTC)

    def now(self) -> datetime:
        return self.time


class Notes:
    """Since when ids are missing, in memory."""

    def __init__(self) -> None:
        self.since: dict[str, datetime] = {}

    async def first_missing(self, id_: str, now: datetime) -> datetime:
        return self.since.setdefault(id_, now)


class AwsPool:
    """One pool and its processes; each `process()` has launched nothing yet."""

    def __init__(self, cloud: Control, session: sessions.Cloud, settings: Settings) -> None:
        self.cloud = cloud
        self.session = session
        self.settings = settings
        self.clock = SetClock()
        self.notes = Notes()
        self.stored: list[int] = []  # templates that there were when the agent was stored

    async def store_agent(self) -> None:
        self.stored.append(len(self.cloud.look()["templates"]))

    def process(self) -> Ec2Compute:
        return Ec2Compute(
            self.session,
            self.settings,
            self.clock,
            lambda: "#!/bin/sh",
            self.store_agent,
            self.notes.first_missing,
        )


@asynccontextmanager
async def a_pool(cloud: Control, **changes: Any) -> AsyncIterator[AwsPool]:
    fields: dict[str, Any] = {
        "pool": "ci-pool",
        "region": REGION,
        "endpoints": {"ec2": cloud.url},
        "image": AMAZON_LINUX.id,
        "subnets": tuple(subnet.id for subnet in SUBNETS),
        "security_groups": (SECURITY_GROUP,),
        "instance_profile": PROFILE,
        **changes,
    }
    settings = Settings(aws=Aws(**fields), classes={"small": ResourceClass(cpu=1, mem=1024)})
    with pytest.MonkeyPatch.context() as impatient:
        # No test waits for the client's own repeats, nor for a template to be seen.
        impatient.setattr(sessions, "ATTEMPTS", 1)
        impatient.setattr(compute, "UNTIL_VISIBLE", (0.0, 0.0))
        async with opened(settings.aws) as session:
            yield AwsPool(cloud, session, settings)


def running(cloud: Control) -> set[str]:
    return set(cloud.instances("pending", "running"))
