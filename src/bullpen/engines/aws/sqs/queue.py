"""Pool queues on SQS: one standard queue per resource class.

A ticket is deleted as soon as it was received, before its content is judged: a process that dies with tickets in its
hands loses hints, which the last look at the index makes good. All else that SQS is known for is harmless here as well:
it delivers a message twice now and then, it may show nothing of a queue that is nearly empty, and its counts are rough.
"""

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from bullpen.engines.aws.session import Cloud
from bullpen.engines.aws.sqs.queues import Missing, Queues
from bullpen.errors import Refused, Unavailable
from bullpen.model.limits import DELAY_SECONDS
from bullpen.ports import Chance, Clock, Message
from bullpen.structured_log import get_logger

BATCH = 10  # messages that one request carries

ATTEMPTS = 6
FIRST_WAIT = 0.1
"""Seconds before jitter, doubled each time: what was left out of a batch is sent again for about three seconds."""

EXPIRES = "expires"
"""The message attribute with the time, in seconds since 1970, after which no process must see the message."""

log = get_logger("bullpen.engines.aws")

_COUNTS = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed", "ApproximateNumberOfMessagesNotVisible"]


class SqsQueue(Queues):
    """`ports.PoolQueue` of one pool: its queues, and the tickets in them."""

    counts_expired = True  # SQS knows nothing of `expires`: an expired message counts until `take` deletes it

    def __init__(self, cloud: Cloud, clock: Clock, chance: Chance) -> None:
        super().__init__(cloud)
        self._clock = clock
        self._chance = chance

    async def take(self, resource_class: str, limit: int) -> list[str]:
        await self.url(resource_class)  # asked once, before several ask at once
        shares = [min(BATCH, limit - at) for at in range(0, limit, BATCH)]
        batches = (self._take_batch(resource_class, share) for share in shares)
        outcomes = await asyncio.gather(*batches, return_exceptions=True)
        taken = [body for outcome in outcomes if not isinstance(outcome, BaseException) for body in outcome]
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures and not taken:  # with some taken, a failure is left to the next call: they are deleted already
            raise failures[0]
        return taken

    async def send(self, resource_class: str, messages: Sequence[Message], delay: float = 0.0) -> None:
        now = self._clock.now()
        lasting = [one for one in messages if one.expires is None or one.expires > now]
        if not lasting:
            return
        try:
            await self._send(resource_class, lasting, delay)
        except Missing as gone:
            # The offers stand in the records. A run that asks for this class gets the error from `take`.
            remedy = "Refresh sends them again once the queue exists."
            log.warning("tickets lost", tickets=len(lasting), error=gone, remedy=remedy)

    async def count(self, resource_class: str) -> int:
        try:
            answer = await self.ask("get_queue_attributes", resource_class, AttributeNames=_COUNTS)
        except Missing:
            return 0
        return sum(int(answer["Attributes"][name]) for name in _COUNTS)

    async def _take_batch(self, resource_class: str, most: int) -> list[str]:
        request = {"MaxNumberOfMessages": most, "WaitTimeSeconds": 0, "MessageAttributeNames": [EXPIRES]}
        answer = await self.ask("receive_message", resource_class, **request)
        messages = answer.get("Messages", [])
        if not messages:
            return []
        entries = [{"Id": str(at), "ReceiptHandle": one["ReceiptHandle"]} for at, one in enumerate(messages)]
        # Without an answer it is unknown which are deleted; to drop them would lose those that are. The others, like
        # those that the answer names as failed, are seen once more, and found stale by their version.
        with suppress(Unavailable):
            await self.ask("delete_message_batch", resource_class, Entries=entries)
        now = self._clock.now().timestamp()
        return [one["Body"] for one in messages if _expiry(one) > now]

    async def _send(self, resource_class: str, messages: Sequence[Message], delay: float) -> None:
        await self.url(resource_class)
        # A ticket that was put back for longer is seen early, judged, and put back once more.
        hidden = min(math.ceil(delay), DELAY_SECONDS)
        entries = [
            {"Id": str(at), "MessageBody": one.body, "DelaySeconds": hidden, **_attributes(one)}
            for at, one in enumerate(messages)
        ]
        portions = [entries[at : at + BATCH] for at in range(0, len(entries), BATCH)]
        batches = (self._send_batch(resource_class, portion) for portion in portions)
        outcomes = await asyncio.gather(*batches, return_exceptions=True)  # all are tried, whatever becomes of one
        for failure in outcomes:
            if failure is not None:
                raise failure

    async def _send_batch(self, resource_class: str, entries: list[dict[str, Any]]) -> None:
        """Send up to ten. What SQS leaves out is sent again; what it refuses is refused, once all else was sent."""
        refused: list[dict[str, Any]] = []
        left: list[dict[str, Any]] = []
        for attempt in range(ATTEMPTS):
            answer = await self.ask("send_message_batch", resource_class, Entries=entries)
            failed = answer.get("Failed", [])
            refused += [one for one in failed if one["SenderFault"]]
            left = [one for one in failed if not one["SenderFault"]]
            if not left:
                break
            again = {one["Id"] for one in left}
            entries = [one for one in entries if one["Id"] in again]
            await asyncio.sleep(self._chance.uniform(0, FIRST_WAIT * 2**attempt))
        subject = f"SQS SendMessageBatch: queue {self.name(resource_class)}"
        if refused:
            raise Refused(f"{subject} refused {len(refused)} messages: {_reason(refused[0])}")
        if left:
            raise Unavailable(f"{subject} did not take {len(left)} messages: {_reason(left[0])}")


def _attributes(message: Message) -> dict[str, Any]:
    if message.expires is None:
        return {}
    value = f"{message.expires.timestamp():.6f}"
    return {"MessageAttributes": {EXPIRES: {"DataType": "Number", "StringValue": value}}}


def _expiry(message: dict[str, Any]) -> float:
    """When a message ends. One of another program may not say: its ticket does."""
    try:
        return float(message["MessageAttributes"][EXPIRES]["StringValue"])
    except (KeyError, ValueError):
        return math.inf


def _reason(failed: dict[str, Any]) -> str:
    return f"{failed.get('Message') or 'no message'} ({failed['Code']})"
