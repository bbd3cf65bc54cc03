"""Every instance that lives, or whose end is owed: the size of the pool, not of its history."""

from collections.abc import AsyncIterator

from bullpen.model.instance import Instance
from bullpen.ports import Ports

LIVE_PAGE = 2000
"""Live instances read at a time. The largest pools have about as many: a look at all of them asks once."""


async def every_live(ports: Ports) -> list[Instance]:
    return [one async for page in live_pages(ports) for one in page]


async def live_pages(ports: Ports) -> AsyncIterator[list[Instance]]:
    page = await ports.records.live(LIVE_PAGE)
    while page:
        yield page
        # A short page was the last one.
        page = await ports.records.live(LIVE_PAGE, page[-1].id) if len(page) == LIVE_PAGE else []
