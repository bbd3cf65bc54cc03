"""The connection to AWS: one session, its clients opened when first asked for, and closed together.

Region and credentials are found as every AWS tool finds them; `aws.region` and `aws.endpoints` come first. Timeouts are
short and attempts few: a caller learns within seconds that there is no answer, and decides what that means.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession, get_session

from bullpen.config import Aws
from bullpen.engines.aws.counting import count_calls
from bullpen.engines.aws.errors import translated_opening
from bullpen.ports.traffic import Traffic

ATTEMPTS = 4
"""Of one call. A throttled or unanswered one is repeated by the client, after longer and longer waits; out of a store
of repeats that all its calls share, and that about a hundred at once use up."""

_LONGEST_ANSWERS = {"ec2": 60, "dynamodb": 5}  # seconds: a fleet of hundreds takes its time, and no item does


class Cloud:
    """The clients of one pool."""

    def __init__(
        self, settings: Aws, session: AioSession, stack: AsyncExitStack, traffic: Traffic | None = None
    ) -> None:
        self.settings = settings
        self._session = session
        self._stack = stack
        self._traffic = traffic or Traffic()
        self._clients: dict[tuple[str, bool], Any] = {}
        self._opening = asyncio.Lock()

    async def client(self, service: str, *, repeats: bool = True) -> Any:
        """The client of a service (`dynamodb`, `sqs`, `ec2`, ...): opened on first use, closed with the cloud.

        One that does not repeat is for callers that do, by a bound of their own: two that repeat would multiply.
        """
        wanted = service, repeats
        if wanted in self._clients:
            return self._clients[wanted]
        async with self._opening:  # two first users share one client
            if wanted not in self._clients:
                with translated_opening(service):
                    opening = self._session.create_client(
                        service,
                        region_name=self.settings.region or None,
                        endpoint_url=self.settings.endpoints.get(service),
                        config=_config(service, ATTEMPTS if repeats else 1),
                    )
                    client = await self._stack.enter_async_context(opening)
                    count_calls(client, self._traffic)
                    self._clients[wanted] = client
            return self._clients[wanted]


@asynccontextmanager
async def opened(settings: Aws, traffic: Traffic | None = None) -> AsyncIterator[Cloud]:
    """Nothing is called and no credentials are needed yet: the first call of a client shows whether they are good."""
    async with AsyncExitStack() as stack:
        with translated_opening("the session"):
            session = get_session()
        yield Cloud(settings, session, stack, traffic)


def _config(service: str, attempts: int) -> AioConfig:
    return AioConfig(
        # A transaction has thousands of values, and DynamoDB checks each of them again: a fifth of a claim's time here.
        parameter_validation=service != "dynamodb",
        connect_timeout=3,
        read_timeout=_LONGEST_ANSWERS.get(service, 10),
        max_pool_connections=64,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )
