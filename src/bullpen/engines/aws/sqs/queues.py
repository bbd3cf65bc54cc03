"""Finds, creates, corrects and deletes the queues of a pool.

Nothing is made, corrected or deleted that does not carry the tag of the pool: names alone prove nothing.
"""

from functools import partial
from typing import Any

from bullpen.concurrency import gather_or_cancel
from bullpen.engines.aws.errors import Declined, all_pages, call
from bullpen.engines.aws.session import Cloud
from bullpen.engines.aws.sqs.schema import ATTRIBUTES, class_of, corrections, queue_name, tags
from bullpen.errors import Refused, Unavailable

PAGE = 1000
"""Queues that one ListQueues names. Without a number SQS names as many, and does not say that there are more."""

_MISSING = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
_MAKE_IT = "Run `bullpen refresh`, which creates it; SQS says the same of a queue that these credentials may not use."
_MADE_OTHERWISE = ("QueueAlreadyExists", "QueueNameExists")
_JUST_DELETED = ("AWS.SimpleQueueService.QueueDeletedRecently", "QueueDeletedRecently")


class Missing(Refused):
    """There is no such queue: deleted underneath, or not made yet."""


class Queues:
    """Of one pool, by resource class. Addresses are asked once, and kept until a queue turns out to be gone."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._pool = cloud.settings.pool
        self._urls: dict[str, str] = {}
        self._known_as_ours: set[str] = set()

    def name(self, resource_class: str) -> str:
        return queue_name(self._pool, resource_class)

    async def url(self, resource_class: str) -> str:
        if resource_class not in self._urls:
            answer = await self._call("get_queue_url", resource_class, QueueName=self.name(resource_class))
            self._urls[resource_class] = answer["QueueUrl"]
        return self._urls[resource_class]

    async def ask(self, method: str, resource_class: str, **request: Any) -> dict[str, Any]:
        """A call about one queue. Raise Missing if there is none."""
        return await self._call(method, resource_class, QueueUrl=await self.url(resource_class), **request)

    async def names(self) -> list[str]:
        """The resource classes that have a queue of this pool."""
        found = {class_of(self._pool, url.rpartition("/")[2]): url for url in await self._listed()}
        found = {one: url for one, url in found.items() if url.rpartition("/")[2] == self.name(one)}
        self._urls |= found
        ours = await gather_or_cancel([self._is_listed_as_ours(one) for one in found])
        return sorted(one for one, is_ours in zip(found, ours, strict=True) if is_ours)

    async def ensure(self, resource_class: str) -> None:
        """Make the queue, or correct one of this pool. Another one of the same name is refused."""
        try:
            await self._require_ours(resource_class)
        except Missing:
            await self._make(resource_class)
            return
        if wrong := await self._corrections(resource_class):
            values = {name: value for name, (value, _) in wrong.items()}
            await self.ask("set_queue_attributes", resource_class, Attributes=values)

    async def misfits(self) -> dict[str, str]:
        """The classes whose queue is not as it should be, and why; changes nothing."""
        classes = await self.names()
        wrong = await gather_or_cancel([self._corrections(one) for one in classes])
        whys = ["; ".join(why for _, why in one.values()) for one in wrong]
        return {one: why for one, why in zip(classes, whys, strict=True) if why}

    async def retire(self, resource_class: str) -> None:
        self._known_as_ours.discard(resource_class)  # asked again: deleting is final
        try:
            await self._require_ours(resource_class)
            await self.ask("delete_queue", resource_class)
        except Missing:
            return
        self._forget(resource_class)

    async def _listed(self) -> list[str]:
        """The addresses of all queues whose name starts like those of this pool."""
        list_page = partial(call, await self._cloud.client("sqs"), "list_queues")
        return await all_pages(list_page, "QueueUrls", QueueNamePrefix=f"{self._pool}-", MaxResults=PAGE)

    async def _make(self, resource_class: str) -> None:
        name = self.name(resource_class)
        expecting = (*_MADE_OTHERWISE, *_JUST_DELETED)
        request = {"QueueName": name, "Attributes": ATTRIBUTES, "tags": tags(self._pool)}
        try:
            answer = await call(await self._cloud.client("sqs"), "create_queue", expecting=expecting, **request)
        except Declined as declined:
            if declined.code in _JUST_DELETED:
                text = f"SQS CreateQueue: queue {name} was deleted less than 60 s ago, and SQS keeps its name that long"
                raise Unavailable(text, remedy="Run `bullpen refresh` again in a minute.") from declined
            text = f"SQS CreateQueue: another process has just created queue {name} with other attributes"
            raise Unavailable(text, remedy="Run `bullpen refresh` again, which corrects them.") from declined
        self._urls[resource_class] = answer["QueueUrl"]

    async def _corrections(self, resource_class: str) -> dict[str, tuple[str, str]]:
        answer = await self.ask("get_queue_attributes", resource_class, AttributeNames=["All"])
        return corrections(answer["Attributes"])

    async def _is_ours(self, resource_class: str) -> bool:
        """Whether it carries the tag of this pool; asked until it does."""
        if resource_class not in self._known_as_ours:
            answer = await self.ask("list_queue_tags", resource_class)
            if not tags(self._pool).items() <= answer.get("Tags", {}).items():
                return False
            self._known_as_ours.add(resource_class)
        return True

    async def _is_listed_as_ours(self, resource_class: str) -> bool:
        try:
            return await self._is_ours(resource_class)
        except Missing:  # a deleted queue is listed for another minute
            return False

    async def _require_ours(self, resource_class: str) -> None:
        if not await self._is_ours(resource_class):
            ((key, value),) = tags(self._pool).items()
            raise Refused(
                f"SQS queue {self.name(resource_class)}: it does not belong to this pool, because it"
                f" has no tag {key} = {value}",
                remedy="Name another pool in aws.pool, or tag the queue if it is meant for this one.",
            )

    async def _call(self, method: str, resource_class: str, **request: Any) -> dict[str, Any]:
        client = await self._cloud.client("sqs")
        try:
            return await call(client, method, expecting=_MISSING, **request)
        except Declined as declined:
            self._forget(resource_class)
            operation = client.meta.method_to_api_mapping[method]
            where = f"queue {self.name(resource_class)} in region {client.meta.region_name}"
            raise Missing(f"SQS {operation}: {where} does not exist", remedy=_MAKE_IT) from declined

    def _forget(self, resource_class: str) -> None:
        self._urls.pop(resource_class, None)
        self._known_as_ours.discard(resource_class)
