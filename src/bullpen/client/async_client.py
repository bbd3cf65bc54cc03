"""The client for programs on an event loop."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from bullpen.client.address import Address, checked_address
from bullpen.client.files import FileMethods
from bullpen.client.history import HistoryMethods
from bullpen.client.jobs import JobMethods
from bullpen.client.operate import OperateMethods
from bullpen.client.pool import PoolMethods
from bullpen.client.requester import OnWait, Requester
from bullpen.client.runs import RunMethods
from bullpen.client.transport import AsyncTransport, Transport

TIMEOUT = 30.0
PATIENCE = 30.0  # enough for a restart of the server


class AsyncClient(RunMethods, JobMethods, FileMethods, PoolMethods, HistoryMethods, OperateMethods):
    """A server, by its URL. Use it with `async with`, or `close` it.

    `timeout` is for one answer, `patience` for repeating a request while the server is busy or away; both in seconds.
    `on_wait` is called before each repetition, with the reason and the seconds that are left of the patience.
    `ca_file` has the certificates that sign the server's, instead of those of the system.
    """

    def __init__(
        self,
        server: str,
        *,
        token: str = "",
        ca_file: str = "",
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
        on_wait: OnWait | None = None,
    ) -> None:
        self._connect(AsyncTransport, server, token, ca_file, timeout, patience, on_wait)

    def _connect(
        self,
        transport: Callable[[Address, float], Transport],
        server: str,
        token: str,
        ca_file: str,
        timeout: float,
        patience: float,
        on_wait: OnWait | None,
    ) -> None:
        address = checked_address(server, token, ca_file)
        self.url = address.url
        self._requester = Requester(transport(address, timeout), address.url, patience, on_wait)

    async def close(self) -> None:
        await self._requester.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
