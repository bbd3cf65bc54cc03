"""Served: the work is done by `bullpen serve`; this step asks for it, tells how it goes, and calls it off."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from bullpen.action import result, workflow
from bullpen.action.identity import DEFAULT_AUDIENCE, bought, signed
from bullpen.action.inputs import Asked
from bullpen.action.job import Job
from bullpen.action.result import Result
from bullpen.action.server import Answer, Server
from bullpen.action.stopping import Cancelled, Stopping
from bullpen.action.table import PROVISION
from bullpen.errors import BullpenError, Interrupted, Refused
from bullpen.model.trust import trust_domain

LOOPBACK = ("127.0.0.1", "::1", "localhost")
REQUEST = {
    "resource-class": "resourceClass",
    "usage-class": "usageClass",
    "allowed-instance-types": "allowedInstanceTypes",
    "max-runtime-min": "maxRuntimeMin",
    "allow-partial": "allowPartial",
}


def run(
    asked: Asked, job: Job, label: str, environ: Mapping[str, str], stopping: Stopping, tell: Callable[[str], None]
) -> Result:
    """Provision or release a label. Raise BullpenError if the server refuses, or is not there."""
    url = asked.get("server").rstrip("/")
    warn_of_plain_text(url)
    server = Server(url, lambda: _token(asked, url, environ), stopping)
    began = time.monotonic()
    operation: Answer = {}
    try:
        server.enter()
        with stopping.shielded():  # an operation whose id was lost could not be called off
            operation = server.begin(asked.mode, label, _request(asked, job) if asked.mode == PROVISION else None)
        workflow.say(f"{url}: {asked.mode} of {label} is {operation['id']}")
        operation = server.follow(operation, tell)
        stopping.finish()
    except Refused as exc:
        told = not operation  # answered no: nothing was begun
        return Result(asked.mode, label, reason=str(exc), remedy=exc.remedy, exit_code=exc.exit_code, told=told)
    except Cancelled:
        return _called_off(server, operation, asked.mode, label, stopping, tell)
    return _read(operation, label, asked.mode, time.monotonic() - began)


def _called_off(
    server: Server, operation: Answer, mode: str, label: str, stopping: Stopping, tell: Callable[[str], None]
) -> Result:
    """Ask the server to give everything back, and wait for its word as long as a cancelled step may."""
    unknown = Result(
        mode,
        label,
        reason="cancelled",
        remedy="What the server acquired goes back when the run ends, or with mode: release.",
        exit_code=Interrupted.exit_code,
        told=not operation,
    )
    if not operation:
        return replace(unknown, reason="cancelled before anything was asked for", remedy="")
    until = time.monotonic() + stopping.left
    workflow.say("cancelled: giving back what was acquired")
    try:
        server.call_off(operation, until)
        operation = server.follow(operation, tell, until)
    except BullpenError as exc:
        return replace(unknown, reason=f"cancelled, and the server could not be told ({exc})")
    if operation.get("state") == "running":
        return replace(unknown, reason="cancelled; the server is still giving back")
    ended = _read(operation, label, mode, 0.0)
    return ended if ended.succeeded else replace(ended, exit_code=Interrupted.exit_code)


def _read(operation: Answer, label: str, mode: str, duration: float) -> Result:
    answer = operation.get("result")
    reason = str(operation.get("reason", ""))
    remedy = str(operation.get("remedy", ""))
    if operation.get("state") == "lost":
        remedy = "Run the job again: a provision that is asked for twice only tops up."
    if operation.get("state") != "succeeded" and not reason:
        reason = "the server did not say why"
    if answer is None:
        # Refused before any work, or gone: the server's word on what it held is missing.
        return Result(mode, label, reason=reason, remedy=remedy, exit_code=1, told=False)
    if mode == "release":
        return result.of_release(label, answer, duration)
    return result.of_provision(label, answer, reason=reason, remedy=remedy, exit_code=1 if reason else 0)


def _request(asked: Asked, job: Job) -> dict[str, Any]:
    """What is left out is the server's to say. With an operator's token we say ourselves whose run it is; a job's
    identity says it better, and the server would not let us add to it."""
    body: dict[str, Any] = {"count": asked.get("instance-count", 1)}
    body |= {field: asked.given[name] for name, field in REQUEST.items() if name in asked.given}
    if "usageClass" not in body and asked.word == "start":
        body["usageClass"] = "on-demand"
    if "server-token" in asked.given:
        body["repository"] = job.repository
        body["trustDomain"] = trust_domain(job.repository, job.event, job.ref, job.actor)
    return body


def _token(asked: Asked, url: str, environ: Mapping[str, str]) -> str:
    if token := asked.get("server-token"):
        return str(token)
    return bought(url, signed(environ, asked.get("audience", DEFAULT_AUDIENCE), workflow.mask), workflow.mask)


def warn_of_plain_text(url: str) -> None:
    found = urlsplit(url)
    if found.scheme == "http" and found.hostname not in LOOPBACK:
        workflow.warning(f"server {url}: is not encrypted; whoever listens can use this run's token. Use https.")
