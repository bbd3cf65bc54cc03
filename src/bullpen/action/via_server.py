"""Served: the work is done by `bullpen serve`; this step asks for it, tells how it goes, and calls it off."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from bullpen.action import result, workflow_commands
from bullpen.action.cancellation import StepCancelled, Stopping
from bullpen.action.input_specs import PROVISION, RELEASE
from bullpen.action.inputs import StepInputs
from bullpen.action.job_context import JobContext
from bullpen.action.oidc import DEFAULT_AUDIENCE, bought, signed
from bullpen.action.result import StepResult
from bullpen.action.serve_client import LOST, RUNNING, SUCCEEDED, Answer, Server
from bullpen.errors import BullpenError, ConfigError, Conflict, Interrupted, NotFound
from bullpen.model.progress import Tell
from bullpen.model.trust import trust_domain

MOST_TIMES = 3
"""How often the same is asked for if its operation is lost: a provision tops up, a release has nothing left to do."""
RUN_AGAIN = "Run the job again: a provision that is asked for twice only tops up."
LOOPBACK = ("127.0.0.1", "::1", "localhost")
REQUEST = {
    "instance-count": "count",
    "resource-class": "resourceClass",
    "usage-class": "usageClass",
    "allowed-instance-types": "allowedInstanceTypes",
    "max-runtime-min": "maxRuntimeMin",
    "allow-partial": "allowPartial",
    "wait": "wait",
}
"""What the server calls the inputs that are for it to judge."""


def run(
    asked: StepInputs, job: JobContext, label: str, environ: Mapping[str, str], stopping: Stopping, tell: Tell
) -> StepResult:
    """Provision or release a label. Raise BullpenError only if nothing was begun."""
    url = asked.get("server").rstrip("/")
    warn_of_plain_text(url)
    server = Server(url, lambda patience: _token(asked, url, environ, patience), stopping, _words(asked))
    body = _request(asked, job) if asked.mode == PROVISION else None
    errand = Errand(server, asked.mode, label, body, stopping, tell)
    began = time.monotonic()
    try:
        server.enter()
        operation = errand.carried_out()
        stopping.finish()
    except StepCancelled:
        return errand.called_off()
    except BullpenError as exc:
        if not errand.may_have_begun:
            raise
        code = 1 if isinstance(exc, ConfigError) else exc.exit_code  # which says that nothing was done
        return StepResult(asked.mode, label, reason=str(exc), remedy=exc.remedy, exit_code=code, told=False)
    return _read(operation, label, asked.mode, time.monotonic() - began)


class Errand:
    """Something asked of the server, until it is done or called off."""

    def __init__(
        self,
        server: Server,
        mode: str,
        label: str,
        body: Mapping[str, Any] | None,
        stopping: Stopping,
        tell: Tell,
    ) -> None:
        self._server = server
        self._mode = mode
        self._label = label
        self._body = body
        self._stopping = stopping
        self._tell = tell
        self._began = False
        self._operation: Answer = {}

    @property
    def may_have_begun(self) -> bool:
        return self._began or self._server.unanswered

    def carried_out(self) -> Answer:
        """The operation as it ended. One that its process did not survive, or that nobody knows any more, is asked for
        again."""
        ended: Answer = {}
        for _ in range(MOST_TIMES):
            with self._stopping.shielded():  # an operation whose id was lost cannot be called off by itself
                self._operation = {}
                self._operation = self._server.begin(self._mode, self._label, self._body, secrets.token_hex(16))
                self._began = True
            workflow_commands.say(f"{self._server.url}: {self._mode} of {self._label} is {self._operation['id']}")
            ended = self._followed()
            if ended.get("state") != LOST:
                break
            workflow_commands.say(f"{self._operation['id']} is lost: {ended.get('reason')}")
        return ended

    def called_off(self) -> StepResult:
        """Ask the server to give everything back, and wait for its word as long as a cancelled step may. What was never
        begun has nothing to give back, and the run's other runners are not its own."""
        if not self.may_have_begun:
            reason = "cancelled before anything was begun"
            return StepResult(self._mode, self._label, reason=reason, exit_code=Interrupted.exit_code)
        until = time.monotonic() + self._stopping.left
        workflow_commands.say("cancelled: giving back what was acquired")
        unknown = StepResult(
            self._mode,
            self._label,
            reason="cancelled; the server is still giving back",
            remedy="What the server acquired goes back when the run ends, or with mode: release.",
            exit_code=Interrupted.exit_code,
            told=False,
        )
        try:
            ended = self._stopped(until)
            if ended is None:
                return self._released(unknown, until)
        except BullpenError as exc:
            return replace(unknown, reason=f"cancelled, and the server could not be told ({exc})")
        if ended.get("state") == RUNNING:
            return unknown
        found = _read(ended, self._label, self._mode, 0.0)
        return found if found.succeeded else replace(found, exit_code=Interrupted.exit_code)

    def _followed(self, until: float = float("inf")) -> Answer:
        try:
            return self._server.follow(self._operation, self._tell, until)
        except NotFound as exc:
            return {"state": LOST, "reason": str(exc)}

    def _stopped(self, until: float) -> Answer | None:
        """How the operation ended, called off by itself; None if it could not be: then its label has to be released,
        which stops it wherever it runs."""
        if not self._operation:
            return None
        try:
            self._server.call_off(self._operation, until)
        except (NotFound, Conflict):
            return None
        ended = self._followed(until)
        return None if ended.get("state") == LOST else ended

    def _released(self, unknown: StepResult, until: float) -> StepResult:
        begun = self._server.begin(RELEASE, self._label, None, secrets.token_hex(16), until)
        ended = self._server.follow(begun, self._tell, until)
        if ended.get("state") != SUCCEEDED:
            return unknown
        given = result.of_release(self._label, ended.get("result") or {}, 0.0)
        reason = f"cancelled; all runners of {self._label} are released, for the answer was lost"
        return replace(given, mode=self._mode, reason=reason, exit_code=Interrupted.exit_code)


def _read(operation: Answer, label: str, mode: str, duration: float) -> StepResult:
    answer = operation.get("result")
    reason = str(operation.get("reason", ""))
    remedy = str(operation.get("remedy", ""))
    if operation.get("state") == LOST:
        remedy = RUN_AGAIN
    if operation.get("state") != SUCCEEDED and not reason:
        reason = "the server did not say why"
    if answer is None:
        # Refused before any work, or gone: the server's word on what it held is missing.
        return StepResult(mode, label, reason=reason, remedy=remedy, exit_code=1, told=False)
    if mode == "release":
        return result.of_release(label, answer, duration)
    return result.of_provision(label, answer, reason=reason, remedy=remedy, exit_code=1 if reason else 0)


def _request(asked: StepInputs, job: JobContext) -> dict[str, Any]:
    """What is left out is the server's to say. With an operator's token we say ourselves whose run it is; a job's
    identity says it better, and the server would not let us add to it."""
    body: dict[str, Any] = {"count": 1}
    body |= {field: asked.given[name] for name, field in REQUEST.items() if name in asked.given}
    if "usageClass" not in body and asked.word == "start":
        body["usageClass"] = "on-demand"
    if "server-token" in asked.given:
        body["repository"] = job.repository
        body["trustDomain"] = trust_domain(job.repository, job.event, job.ref, job.actor)
    return body


def _words(asked: StepInputs) -> dict[str, str]:
    """The workflow's word for each field that the server may refuse."""
    return {field: asked.spoken.get(name, name) for name, field in REQUEST.items()}


def _token(asked: StepInputs, url: str, environ: Mapping[str, str], patience: float) -> str:
    if token := asked.get("server-token"):
        return str(token)
    identity = signed(environ, asked.get("audience", DEFAULT_AUDIENCE), workflow_commands.mask, patience)
    return bought(url, identity, workflow_commands.mask, patience)


def warn_of_plain_text(url: str) -> None:
    found = urlsplit(url)
    if found.scheme == "http" and found.hostname not in LOOPBACK:
        workflow_commands.warning(
            f"server {url}: is not encrypted; whoever listens can use this run's token. Use https."
        )
