"""Webhooks: the official examples with what happened in their place, signed, and delivered in order; or not.

A delivery is made when its event happens, so that it says what was true then. Each hook has a line of its own: one
delivery after the other, which GitHub does not promise, so a test asks for disorder where it wants it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from fakes.github import description
from fakes.github.state import Job, Run, State
from fakes.github.views import shown_job, shown_repository, shown_run

ANSWERS_WITHIN = 10.0  # seconds, as GitHub's


@dataclass
class Delivery:
    id: str
    event: str
    action: str
    payload: dict[str, Any]
    status: int = 0  # of the answer; 0: not sent, -1: no answer

    @property
    def name(self) -> str:
        return f"{self.event}.{self.action}"


@dataclass
class Hook:
    url: str
    secret: str = field(repr=False)
    drop: Sequence[str] = ()
    duplicate: Sequence[str] = ()
    reorder: Sequence[str] = ()
    deliveries: list[Delivery] = field(default_factory=list)  # all that were due, dropped ones included
    held: Delivery | None = None
    line: list[Delivery] = field(default_factory=list)
    is_sending: bool = False


class Webhooks:
    def __init__(self, state: State) -> None:
        self._state = state
        self._hooks: list[Hook] = []
        self.url = ""
        self.check: Callable[[Delivery], None] = lambda delivery: None
        self.wake: Callable[[], None] = lambda: None
        state.on_event.append(self._happened)

    @property
    def deliveries(self) -> list[Delivery]:
        return [delivery for hook in self._hooks for delivery in hook.deliveries]

    @property
    def pending(self) -> bool:
        return any(hook.line or hook.is_sending for hook in self._hooks)

    def add(self, url: str, secret: str, drop: Sequence[str], duplicate: Sequence[str], reorder: Sequence[str]) -> Hook:
        hook = Hook(url, secret, drop, duplicate, reorder)
        with self._state.lock:
            self._hooks.append(hook)
            ping = json.loads(json.dumps(description.load()["examples"]["ping"][0]))
            delivery = Delivery(str(uuid.uuid4()), "ping", "", ping)
            self.check(delivery)
            self._enqueue(hook, delivery)
            self.wake()
        return hook

    def redeliver(self, delivery_id: str) -> None:
        with self._state.lock:
            for hook in self._hooks:
                hook.line += [one for one in hook.deliveries if one.id == delivery_id]
            self.wake()

    def release_held(self) -> None:
        with self._state.lock:
            for hook in self._hooks:
                if hook.held:
                    hook.line.append(hook.held)
                    hook.held = None
            self.wake()

    def _happened(self, event: str, action: str, run: Run, job: Job | None) -> None:
        if not self._hooks:
            return
        told = payload(self.url, event, action, run, job)
        for hook in self._hooks:
            delivery = Delivery(str(uuid.uuid4()), event, action, told)
            self.check(delivery)
            self._enqueue(hook, delivery)
        self.wake()

    def _enqueue(self, hook: Hook, delivery: Delivery) -> None:
        hook.deliveries.append(delivery)
        if _matches(hook.drop, delivery):
            return
        copies = [delivery] * (2 if _matches(hook.duplicate, delivery) else 1)
        if hook.held:
            hook.line += [*copies, hook.held]
            hook.held = None
        elif _matches(hook.reorder, delivery):
            hook.held = delivery
        else:
            hook.line += copies

    async def send_all(self) -> None:
        """Everything that is due; on the server's loop."""
        await asyncio.gather(*(self._send_line(hook) for hook in self._hooks))

    async def _send_line(self, hook: Hook) -> None:
        if hook.is_sending:
            return  # asked here, not before: of two that begin at once one sends, so that the order stands
        hook.is_sending = True
        while hook.line:
            delivery = hook.line.pop(0)
            status = await _send(hook, delivery)
            with self._state.lock:
                delivery.status = status
        with self._state.lock:
            hook.is_sending = False
            self._state.lock.notify_all()


def payload(url: str, event: str, action: str, run: Run, job: Job | None) -> dict[str, Any]:
    """The official example of the event and action, about this run or job."""
    examples = description.load()["examples"][event]
    fitting = [one for one in examples if one["action"] == action] or examples
    made: dict[str, Any] = json.loads(json.dumps(fitting[-1]))
    repository = shown_repository(url, run.repository)
    made["action"] = action
    made["repository"] |= {name: value for name, value in repository.items() if name in made["repository"]}
    made["repository"]["owner"] = repository["owner"]
    if "organization" in made:
        made["organization"] |= {"login": run.repository.owner}
    shown = shown_job(url, job) if job else shown_run(url, run)
    made[event] |= {name: value for name, value in shown.items() if name in made[event] or name == "run_attempt"}
    return made


def _matches(patterns: Sequence[str], delivery: Delivery) -> bool:
    return any(fnmatchcase(delivery.name, pattern) for pattern in patterns)


async def _send(hook: Hook, delivery: Delivery) -> int:
    try:
        return await asyncio.wait_for(_post(hook, delivery), ANSWERS_WITHIN)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
        return -1


async def _post(hook: Hook, delivery: Delivery) -> int:
    body = json.dumps(delivery.payload).encode()
    where = urlsplit(hook.url)
    headers = {
        "Host": where.netloc,
        "User-Agent": "GitHub-Hookshot/044aadd",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        "X-GitHub-Event": delivery.event,
        "X-GitHub-Delivery": delivery.id,
        "X-GitHub-Hook-ID": "1",
        "X-Hub-Signature-256": f"sha256={hmac.new(hook.secret.encode(), body, hashlib.sha256).hexdigest()}",
    }
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        lines = [f"POST {where.path or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        status = await reader.readuntil(b"\r\n")
        return int(status.split()[1])
    finally:
        writer.close()
