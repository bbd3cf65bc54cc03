"""With a server: `bullpen serve` does the work; this step starts the operation, shows its progress, and cancels it."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any
from urllib.parse import urlsplit

from bullpen.action import result, workflow_commands
from bullpen.action.cancellation import StepCancelled, Stopping
from bullpen.action.input_specs import PROVISION, RELEASE
from bullpen.action.inputs import StepInputs
from bullpen.action.job_context import JobContext
from bullpen.action.oidc import DEFAULT_AUDIENCE, job_token, run_token
from bullpen.action.result import StepResult
from bullpen.action.serve_client import LOST, RUNNING, SUCCEEDED, Answer, Server
from bullpen.errors import BullpenError, ConfigError, Conflict, Interrupted, NotFound
from bullpen.lazy_dataclass import dataclass
from bullpen.model.progress import Tell
from bullpen.model.trust import trust_domain

MOST_TIMES = 3
"""How often an operation is started if it is lost. Repeating is safe: a provision adds only missing runners."""
RUN_AGAIN = "Run the job again: a second provision adds only the missing runners."
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
"""The server's names of the inputs that it validates."""


def run(
    asked: StepInputs, job: JobContext, label: str, environ: Mapping[str, str], stopping: Stopping, tell: Tell
) -> StepResult:
    """Provision or release a label. An error is raised only if nothing began; otherwise it is in the result."""
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
        code = 1 if isinstance(exc, ConfigError) else exc.exit_code  # 2 would mean that nothing was done
        return StepResult(asked.mode, label, reason=str(exc), remedy=exc.remedy, exit_code=code, is_known=False)
    return _read(operation, label, asked.mode, time.monotonic() - began)


@dataclass(slots=True)
class Errand:
    """One operation of the server, from its start until it ends or is cancelled."""

    _server: Server
    _mode: str
    _label: str
    _body: Mapping[str, Any] | None
    _stopping: Stopping
    _tell: Tell
    _began: bool = False
    _operation: Answer = field(default_factory=dict)

    @property
    def may_have_begun(self) -> bool:
        return self._began or self._server.unanswered

    def carried_out(self) -> Answer:
        """The operation after its end. If its process died, or the server does not know it any more, it is started
        again."""
        ended: Answer = {}
        for _ in range(MOST_TIMES):
            with self._stopping.shielded():  # without its id the operation could not be cancelled
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
        """Cancel the operation, and wait for its result as long as a cancelled step may. If it never began, nothing is
        given back: the run's other runners belong to other steps."""
        if not self.may_have_begun:
            reason = "cancelled before the work began"
            return StepResult(self._mode, self._label, reason=reason, exit_code=Interrupted.exit_code)
        until = time.monotonic() + self._stopping.left
        workflow_commands.say("cancelled: giving back what was acquired")
        unknown = StepResult(
            self._mode,
            self._label,
            reason="cancelled; the server is still giving the runners back",
            remedy="Runners that are left go back when the run ends, or with mode: release.",
            exit_code=Interrupted.exit_code,
            is_known=False,
        )
        try:
            ended = self._stopped(until)
            if ended is None:
                return self._released(unknown, until)
        except BullpenError as exc:
            return replace(unknown, reason=f"cancelled, but the server could not be reached ({exc})")
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
        """The cancelled operation after its end. None if it could not be cancelled: then its label must be released,
        which stops the operation in any process."""
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
        reason = f"cancelled; all runners of {self._label} were released, because the server's answer was lost"
        return replace(given, mode=self._mode, reason=reason, exit_code=Interrupted.exit_code)


def _read(operation: Answer, label: str, mode: str, duration: float) -> StepResult:
    answer = operation.get("result")
    reason = str(operation.get("reason", ""))
    remedy = RUN_AGAIN if operation.get("state") == LOST else str(operation.get("remedy", ""))
    if operation.get("state") != SUCCEEDED and not reason:
        reason = "the server gave no reason"
    if answer is None:
        # Refused before any work, or lost: what the operation held is unknown.
        return StepResult(mode, label, reason=reason, remedy=remedy, exit_code=1, is_known=False)
    if mode == "release":
        return result.of_release(label, answer, duration)
    return result.of_provision(label, answer, reason, remedy, 1 if reason else 0)


def _request(asked: StepInputs, job: JobContext) -> dict[str, Any]:
    """The request, without the fields that the server decides. With an operator's token it names repository and trust
    domain; with the job's OIDC token the server takes them from there and refuses others."""
    body: dict[str, Any] = {"count": 1}
    body |= {field: asked.given[name] for name, field in REQUEST.items() if name in asked.given}
    if "usageClass" not in body and asked.word == "start":
        body["usageClass"] = "on-demand"
    if "server-token" in asked.given:
        body["repository"] = job.repository
        body["trustDomain"] = trust_domain(job.repository, job.repository_id, job.event, job.ref, job.actor)
    return body


def _words(asked: StepInputs) -> dict[str, str]:
    """The workflow's inputs by the names of fields and settings that a refusal may contain."""
    return {said: asked.spoken.get(name, name) for name, field in REQUEST.items() for said in (name, field)}


def _token(asked: StepInputs, url: str, environ: Mapping[str, str], patience: float) -> str:
    if token := asked.get("server-token"):
        return str(token)
    return run_token(url, job_token(environ, asked.get("audience", DEFAULT_AUDIENCE), patience), patience)


def warn_of_plain_text(url: str) -> None:
    found = urlsplit(url)
    if found.scheme == "http" and found.hostname not in LOOPBACK:
        workflow_commands.warning(
            f"server {url}: the connection is not encrypted, and the token of this run can be read. Use https."
        )
