"""The client for programs without an event loop: the methods of the asynchronous one, each run to its end.

The methods wait only in their transport, and the blocking one never suspends a coroutine: its first step is its last.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from bullpen.client.async_client import PATIENCE, TIMEOUT, AsyncClient
from bullpen.client.requester import OnWait
from bullpen.client.transport import BlockingTransport

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[Client, P], T]":
    @wraps(method)
    def call(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _run(method(self._client, *args, **kwargs))

    return call


def _iterated(
    method: Callable[Concatenate[AsyncClient, P], AsyncIterator[T]],
) -> "Callable[Concatenate[Client, P], Iterator[T]]":
    @wraps(method)
    def iterate(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        found = cast("AsyncGenerator[T, None]", method(self._client, *args, **kwargs))
        try:
            while True:
                try:
                    one = _run(found.__anext__())
                except StopAsyncIteration:
                    return
                yield one
        finally:
            _run(found.aclose())

    return iterate


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return cast("T", ended.value)
    raise AssertionError("a method of the client waited outside its transport")


class _Blocking(AsyncClient):
    def __init__(self, *arguments: Any) -> None:
        self._connect(BlockingTransport, *arguments)


class Client:
    """A server, by its URL. Use it with `with`, or `close` it. For one thread at a time.

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
        self._client = _Blocking(server, token, ca_file, timeout, patience, on_wait)
        self.url = self._client.url

    provision = _awaited(AsyncClient.provision)
    begin_provision = _awaited(AsyncClient.begin_provision)
    release = _awaited(AsyncClient.release)
    begin_release = _awaited(AsyncClient.begin_release)
    run = _awaited(AsyncClient.run)
    runs = _iterated(AsyncClient.runs)
    run_page = _awaited(AsyncClient.run_page)
    operation = _awaited(AsyncClient.operation)
    operations = _iterated(AsyncClient.operations)
    operation_page = _awaited(AsyncClient.operation_page)
    wait = _awaited(AsyncClient.wait)
    stop_operation = _awaited(AsyncClient.stop_operation)

    submit = _awaited(AsyncClient.submit)
    jobs = _iterated(AsyncClient.jobs)
    job_page = _awaited(AsyncClient.job_page)
    job = _awaited(AsyncClient.job)
    cancel_job = _awaited(AsyncClient.cancel_job)
    postpone_job = _awaited(AsyncClient.postpone_job)
    job_log = _awaited(AsyncClient.job_log)
    job_lines = _iterated(AsyncClient.job_lines)

    source_limits = _awaited(AsyncClient.source_limits)
    missing_blocks = _awaited(AsyncClient.missing_blocks)
    send_pack_piece = _awaited(AsyncClient.send_pack_piece)
    send_manifest_piece = _awaited(AsyncClient.send_manifest_piece)
    artifacts = _awaited(AsyncClient.artifacts)
    read_artifacts = _awaited(AsyncClient.read_artifacts)

    reach = _awaited(AsyncClient.reach)
    status = _awaited(AsyncClient.status)
    instances = _iterated(AsyncClient.instances)
    instance_page = _awaited(AsyncClient.instance_page)
    instance = _awaited(AsyncClient.instance)
    workers = _iterated(AsyncClient.workers)
    worker_page = _awaited(AsyncClient.worker_page)
    worker = _awaited(AsyncClient.worker)
    stories = _awaited(AsyncClient.stories)
    why = _awaited(AsyncClient.why)
    plan = _awaited(AsyncClient.plan)
    queue = _awaited(AsyncClient.queue)
    evidence = _iterated(AsyncClient.evidence)
    cost = _awaited(AsyncClient.cost)
    cost_hours = _awaited(AsyncClient.cost_hours)
    activity = _iterated(AsyncClient.activity)
    activity_page = _awaited(AsyncClient.activity_page)
    events = _iterated(AsyncClient.events)

    pauses = _awaited(AsyncClient.pauses)
    pause = _awaited(AsyncClient.pause)
    resume = _awaited(AsyncClient.resume)
    drain = _awaited(AsyncClient.drain)
    rotate = _awaited(AsyncClient.rotate)

    close = _awaited(AsyncClient.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
