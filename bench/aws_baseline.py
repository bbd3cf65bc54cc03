"""The baseline on the AWS engines, with the calls by which the warm pool was first described.

    ReceiveMessage 1, DeleteMessage 1, judge, SendMessage 1 with a delay on a miss      one after the other
    UpdateItem idle → claimed; GetItem of the heartbeat; GetItem of the signal, every half second for 10 seconds
    UpdateItem claimed → running

It keeps no provision record, no story and no index, so it writes less than Bullpen.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.baseline import POLL
from bullpen.config import Settings
from bullpen.engines.aws.dynamodb.items import moment, raw_key, text
from bullpen.engines.aws.errors import Declined, call
from bullpen.engines.aws.session import Cloud
from bullpen.engines.aws.sqs.schema import queue_name
from bullpen.model.signal import Kind
from bullpen.model.ticket import Requirements, Ticket, Verdict, judge, parse_ticket, parse_time

UNMET = "ConditionalCheckFailedException"


@dataclass(slots=True)
class Baseline:
    """One provision. `clients` are opened beforehand, as for Bullpen."""

    clients: dict[str, Any]
    settings: Settings
    needs: Requirements
    run_id: str
    queue: str = ""
    sightings: Counter[str] = field(default_factory=Counter)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    async def of(cls, cloud: Cloud, settings: Settings, needs: Requirements, run_id: str) -> "Baseline":
        return cls({name: await cloud.client(name) for name in ("dynamodb", "sqs")}, settings, needs, run_id)

    async def provision(self, count: int) -> list[str]:
        """Claim workers in parallel, one pickup manager for all; returns the instances that run."""
        name = queue_name(self.settings.aws.pool, self.needs.resource_class)
        self.queue = (await self._sqs("get_queue_url", QueueName=name))["QueueUrl"]
        found = await asyncio.gather(*(self._work() for _ in range(count)))
        members = [id for id in found if id is not None]
        until = self._later(self.settings.timings.max_runtime)
        await asyncio.gather(*(self._move(id, "claimed", self.run_id, "running", until) for id in members))
        return members

    async def _work(self) -> str | None:
        while (ticket := await self._pick_up()) is not None:
            id = ticket.instance_id
            if not await self._move(id, "idle", "", "claimed", self._later(self.settings.timings.provision)):
                continue
            if await self._is_healthy(id) and await self._registers(id):
                return id
            await self._move(id, "claimed", self.run_id, "terminated", self._later(0.0))
        return None

    async def _pick_up(self) -> Ticket | None:
        """The pickup manager: a singleton, so one message after the other."""
        resource_class = self.settings.resource_class(self.needs.resource_class)
        async with self.turn:
            while messages := (await self._sqs("receive_message", MaxNumberOfMessages=1)).get("Messages"):
                (message,) = messages
                await self._sqs("delete_message", ReceiptHandle=message["ReceiptHandle"])
                ticket = parse_ticket(message["Body"])
                if not isinstance(ticket, Ticket):
                    continue
                self.sightings[ticket.instance_id] += 1
                if self.sightings[ticket.instance_id] >= self.settings.pickup.sightings:
                    return None
                judged = judge(ticket, self.needs, resource_class.cpu, resource_class.mem, datetime.now(UTC))
                if judged is Verdict.TAKE:
                    return ticket
                if judged is Verdict.PUT_BACK:
                    delay = int(self.settings.timings.put_back)
                    await self._sqs("send_message", MessageBody=message["Body"], DelaySeconds=delay)
        return None

    async def _is_healthy(self, id: str) -> bool:
        found = await self._get("Heartbeat", id)
        age = datetime.now(UTC) - parse_time(found["updatedAt"]["S"]) if found else timedelta.max
        return age <= timedelta(seconds=self.settings.timings.alive)

    async def _registers(self, id: str) -> bool:
        said = {"signal": text(Kind.REG_OK.value), "runId": text(self.run_id)}
        give_up = datetime.now(UTC) + timedelta(seconds=self.settings.timings.registration)
        while datetime.now(UTC) < give_up:
            if (await self._get("WS", id)).get("value") == {"M": said}:
                return True
            await asyncio.sleep(POLL)
        return False

    async def _move(self, id: str, before: str, owner: str, after: str, until: str) -> bool:
        request = {
            "Key": raw_key("Instance", id),
            "UpdateExpression": "SET #state = :after, runId = :run, threshold = :until",
            "ConditionExpression": "#state = :before AND runId = :owner",
            "ExpressionAttributeNames": {"#state": "state"},
            "ExpressionAttributeValues": {
                ":before": text(before),
                ":after": text(after),
                ":owner": text(owner),
                ":run": text(self.run_id),
                ":until": text(until),
            },
        }
        try:
            await self._dynamodb("update_item", expecting=(UNMET,), **request)
        except Declined:
            return False
        return True

    async def _get(self, kind: str, id: str) -> dict[str, Any]:
        answer = await self._dynamodb("get_item", Key=raw_key(kind, id), ConsistentRead=True)
        found: dict[str, Any] = answer.get("Item", {})
        return found

    async def _dynamodb(self, method: str, **request: Any) -> dict[str, Any]:
        return await call(self.clients["dynamodb"], method, TableName=self.settings.aws.pool, **request)

    async def _sqs(self, method: str, **request: Any) -> dict[str, Any]:
        queue = {"QueueUrl": self.queue} if self.queue else {}
        return await call(self.clients["sqs"], method, **queue, **request)

    def _later(self, seconds: float) -> str:
        return moment(datetime.now(UTC) + timedelta(seconds=seconds))
