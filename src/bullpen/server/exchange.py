"""What a connection needs for one request and its answer: for heartbeats and refusals, which it answers by itself, and
for the application."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from bullpen import __version__
from bullpen.auth.tokens import Speaker

Answer: TypeAlias = Callable[[int, bytes, dict[str, str], bool], None]  # status, body, headers, keep the connection

VERSION = (b"bullpen-version", __version__.encode())
"""A header of every answer: a client sees which release it talks to."""
COMMON = b"content-type: application/json\r\n%b: %b\r\n" % VERSION
PLAIN_ANSWER = STATUS_LINE[200] + COMMON.replace(b"%", b"%%") + b"content-length: %d\r\n\r\n%b"


class Exchange:
    """A heartbeat on its way, or a refusal, with what the connection asks of any exchange."""

    __slots__ = ("_answer", "body", "disconnected", "keep_alive", "path", "response_complete", "speaker")

    def __init__(self, answer: Answer, path: str = "", speaker: Speaker | None = None, keep_alive: bool = True) -> None:
        self._answer = answer
        self.path = path
        self.speaker = speaker
        self.keep_alive = keep_alive
        self.body = bytearray()
        self.response_complete = False
        self.disconnected = False

    def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        if not self.response_complete and not self.disconnected:
            self.response_complete = True
            self._answer(status, body, headers, self.keep_alive)

    @property
    def message_event(self) -> "Exchange":
        return self

    def set(self) -> None:
        """Nothing waits for its parts."""


class Flow(FlowControl):
    """Whether the application wants more of the body. What follows from it the connection decides."""

    def __init__(self, transport: asyncio.Transport, go_on: Callable[[], None]) -> None:
        super().__init__(transport)
        self._go_on = go_on

    def pause_reading(self) -> None:
        self.read_paused = True

    def resume_reading(self) -> None:
        self.read_paused = False
        self._go_on()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._go_on()


def rendered(status: int, body: bytes, headers: dict[str, str], keep_alive: bool, *, for_head: bool) -> bytes:
    """An answer as it travels; the one to a HEAD request has no body."""
    if status == 200 and keep_alive and not headers and not for_head:  # nearly every answer to a beat
        return PLAIN_ANSWER % (len(body), body)
    head = [STATUS_LINE[status], COMMON, b"content-length: %d\r\n" % len(body)]
    head += [f"{name}: {value}\r\n".encode() for name, value in headers.items()]
    if not keep_alive:
        head.append(b"connection: close\r\n")
    return b"".join([*head, b"\r\n", b"" if for_head else body])
