"""The store through `bullpen serve`, for an agent on any machine.

The agent's own token speaks for its instance only. News of the record come by a long poll on a thread of its own, which
rings a bell that the agent's loop waits on; everything else, the heartbeat above all, is sent by the loop itself. While
the service is away the agent knows nothing (`StoreUnreachable`), and lives on.
"""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from bullpen.agent.config import Config
from bullpen.agent.decide import ABSENT, NoRecord
from bullpen.agent.progress import End, HeldJob, InstanceRecord, InstanceState, LeaseHolder, SignalKind
from bullpen.agent.store.base import (
    Grant,
    NoCredentials,
    Order,
    OwnList,
    RunnerCredentials,
    StillBusy,
    StoreUnreachable,
)
from bullpen.agent.store.connection import Answer, Caller, FixedToken, HttpLog, ServiceAway
from bullpen.agent.wakeup import ThreadWakeup
from bullpen.model.limits import REASON_LENGTH

if TYPE_CHECKING:
    from bullpen.model.served_set import ServedSet

PATIENCE = 3.0  # seconds for an answer: the loop that waits also sends the heartbeat
REGISTRATION_PATIENCE = 6.0  # the service asks the CI in turn; a lease lasts longer
POLL = 20.0  # seconds that the service may keep a poll open
BUSY = 409  # the status of an answer, where a runner has a job
ATTEMPTS = 3  # to find the token or key that the service accepts


class HttpStore:
    """See `base.AgentStore` for what each method promises."""

    def __init__(self, config: Config, bell: ThreadWakeup) -> None:
        self._config = config
        self._bell = bell
        self._base = f"/v1/agents/{quote(config.instance_id, safe='')}"
        shown = _badge(config)
        self._caller = Caller(config.serve_url, shown, PATIENCE)
        # Beats and signals have a pause of their own: a log that is refused for now must not cost the lease.
        self._pulse = Caller(config.serve_url, shown, PATIENCE)
        self._poll = Caller(config.serve_url, shown, POLL + PATIENCE)
        self._registrar = Caller(config.serve_url, shown, REGISTRATION_PATIENCE)
        self._news: Answer | None = None
        self._changed = True
        self._closing = threading.Event()
        self._watcher: threading.Thread | None = None
        self._host = os.uname().nodename
        self._seq = 0
        self._may_be_registered = True  # an earlier process may have been
        self._told_to_stop: tuple[str, ...] = ()
        self._logs: list[HttpLog] = []
        self._take_new_key()

    @property
    def jobs(self) -> HttpStore:
        return self

    def has_changed(self) -> bool:
        for log in self._logs:
            log.flush()
        self._logs = [log for log in self._logs if not log.is_over]
        if not self._changed:
            return False
        self._changed = False  # before the look that follows: news of the poll's thread that come now are looked at
        return True

    def read_record(self) -> InstanceRecord | NoRecord:
        if self._watcher is None:
            self._news = self._call("GET", f"{self._base}/record")  # without an answer, the next look begins here
            self._watcher = threading.Thread(target=self._watch, name="bullpen-poll", daemon=True)
            self._watcher.start()
        found = self._news if self._news is not None else self._call("GET", f"{self._base}/record")
        if not found["found"]:
            return ABSENT
        self._seq = max(self._seq, found["signalSeq"])  # news may be older than the last signal
        try:
            state = InstanceState(found["state"])
        except ValueError as exc:
            raise StoreUnreachable(str(exc)) from exc
        has_job = found["hasJob"] and self._epoch > 0
        owned = (state, found["runId"], found["round"], found["threshold"], found["attested"], found["trustDomain"])
        return InstanceRecord(*owned, has_job, found.get("repository", ""))

    def beat(self, job: HeldJob | None, leaving: datetime | None = None, activity: str = "") -> Grant:
        for _ in range(ATTEMPTS):
            said = self._beat(job, leaving, activity)
            status, answer = self._exchange("POST", "/v1/heartbeats", said, self._pulse)
            if status == 200:
                return self._granted(answer, job)
            match answer.get("error"):
                case "token-mismatch":
                    self._token = answer["token"]
                case "retired":
                    return Grant(LeaseHolder(self._key, self._epoch), retired=True)
                case "cleaned-up" | "unknown-worker":
                    self._take_new_key()
                case error:
                    raise StoreUnreachable(f"a heartbeat was answered {status}: {error}")
        raise StoreUnreachable(f"{ATTEMPTS} heartbeats in a row were refused")

    def stop(self) -> None:
        if self._epoch > 0:
            said = urlencode({"token": self._token, "epoch": self._epoch})
            self._exchange("DELETE", f"/v1/workers/{quote(self._key)}?{said}", caller=self._pulse)

    def standing(self, job: HeldJob) -> End | None:
        if job.id not in self._told_to_stop:
            return None
        held = {"worker": job.holder.worker, "epoch": job.holder.epoch, "fence": job.fence}
        answer = self._call("GET", f"{self._base}/jobs/{quote(job.id)}/standing?{urlencode(held)}")
        return {"cancelled": End.CANCELLED, "lost": End.LOST}.get(answer["standing"])

    def report(self, kind: SignalKind, record: InstanceRecord, text: str) -> None:
        if kind is SignalKind.REMOVE_REG_OK and self._may_be_registered:
            self.deregister()  # the answer to a registration may have been lost
        for _ in range(ATTEMPTS):
            said = {"kind": kind.value, "runId": record.run_id, "round": record.round, "seq": self._seq + 1}
            said["text"] = text[:REASON_LENGTH]
            if self._call("POST", f"{self._base}/signals", said, self._pulse)["stored"]:
                self._seq += 1  # only now: the service takes no number that runs far ahead of the last one
                return
            # An earlier process came further than this one knew, or the last one was stored and its answer lost.
            self._seq = self._call("GET", f"{self._base}/record").get("signalSeq", 0)
        raise StoreUnreachable(f"{kind} was not stored")

    def register(self, record: InstanceRecord, refused_job: str = "") -> RunnerCredentials | OwnList:
        self._may_be_registered = True
        asked: Answer = {"runId": record.run_id, "round": record.round}
        if record.serves_set:  # only then: a service from before sets refuses fields that it does not know
            asked["knowsSets"] = True
            if refused_job:
                asked["refusedJob"] = refused_job[:REASON_LENGTH]
        answer = self._call("PUT", f"{self._base}/registration", asked, self._registrar)
        if reason := answer.get("refusal", ""):
            raise NoCredentials(reason)
        if not answer["registered"] or not (answer.get("token") or answer.get("jit")):
            return OwnList.LISTED if answer["registered"] else OwnList.MOVED_ON
        known = {field.name: answer[field.name] for field in fields(RunnerCredentials) if field.name in answer}
        serves = answer.get("serves") if self._config.ci else None  # without GitHub's runner there is no job to judge
        return RunnerCredentials(**known | {"serves": _served_set(serves)})

    def deregister(self, runner: str = "") -> None:
        named = f"?{urlencode({'runner': runner})}" if runner else ""
        status, answer = self._exchange("DELETE", f"{self._base}/registration{named}", caller=self._registrar)
        # Of a runner that it names, the service has answered everything: no registration is left in doubt.
        self._may_be_registered = not (status < 300 or (runner and status == BUSY))
        if status >= 300:
            error = StillBusy if status == BUSY else StoreUnreachable
            raise error(f"DELETE was answered {status}: {answer.get('error', '')}")

    def removal_token(self) -> str:
        raise NoCredentials("the server deregisters this runner")

    def take_job(self, record: InstanceRecord) -> Order | None:
        asked = {"workerInstanceKey": self._key, "round": record.round}
        taken = self._call("POST", f"{self._base}/jobs/take", asked)["job"]
        self._news = None  # whether another one waits is another question now
        if taken is None:
            return None
        holder = LeaseHolder(taken["worker"], taken["epoch"])
        job = HeldJob(taken["id"], taken["fence"], record.round, time.monotonic(), holder, taken["timeoutSeconds"])
        files = taken.get("source", ""), tuple(taken.get("artifacts", ()))
        return Order(job, tuple(taken["command"]), taken["index"], *files)

    def settle_job(self, job: HeldJob) -> bool:
        from bullpen.agent.store.jobs import verdict

        for log in self._logs:
            log.flush(at_once=True)
        if job.end is End.LOST:
            return False
        result, why = verdict(job)
        said = self._held(job) | {"exitCode": job.exit_code, "result": result.value, "why": why}
        status, answer = self._exchange("POST", f"{self._base}/jobs/{quote(job.id)}/finish", said)
        return status == 200 and bool(answer["accepted"])

    def give_back_job(self, job: HeldJob, why: str) -> None:
        self._exchange("POST", f"{self._base}/jobs/{quote(job.id)}/give-back", self._held(job) | {"why": why})

    def open_log(self, job: HeldJob) -> HttpLog:
        log = HttpLog(self._caller, f"{self._base}/jobs/{quote(job.id)}/log", job.fence)
        self._logs.append(log)
        return log

    def close(self) -> None:
        for log in self._logs:
            log.flush(at_once=True)
        self._closing.set()
        for caller in (self._caller, self._pulse, self._registrar):
            caller.close()

    # ---------------------------------------------------------------------------------------------------------- beating

    def _take_new_key(self) -> None:
        self._key = f"{self._config.instance_id}/{os.urandom(4).hex()}"
        self._epoch = self._token = 0
        self._request = os.urandom(8).hex()

    def _beat(self, job: HeldJob | None, leaving: datetime | None, activity: str) -> Answer:
        beat: Answer = {
            "workerInstanceKey": self._key,
            "token": self._token,
            "leaseSeconds": math.ceil(self._config.lease),
            "requestId": self._request,
            "domain": self._config.domain or self._host,
        }
        if leaving is not None:
            beat["leavingAt"] = leaving.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if activity:
            beat["activity"] = activity
        if job is not None:
            # A job of an earlier epoch is asked about, not claimed: the answer says that it is over.
            is_ours = job.holder == LeaseHolder(self._key, self._epoch)
            field = "boundActivities" if is_ours and job.exit_code is None else "runningActivities"
            beat[field] = [{"jobId": job.id, "fence": job.fence}]
        if self._epoch == 0:
            from bullpen import __version__
            from bullpen.agent.build import build_id
            from bullpen.model.worker import HANDLES_FILES

            beat["metadata"] = {
                "capabilities": list(self._config.capabilities),
                "buildId": build_id(),
                "host": self._host,
                "pid": os.getpid(),
                "agentVersion": __version__,
                "extras": dict([HANDLES_FILES]),
            }
        return beat

    def _granted(self, answer: Answer, job: HeldJob | None) -> Grant:
        self._token, self._epoch = answer["token"], answer["epoch"]
        # A new one only now: until it is answered, the same beat again must not count twice.
        self._request = os.urandom(8).hex()
        self._told_to_stop = tuple(answer["stop"])
        if job is not None and job.id in self._told_to_stop:
            self._changed = True
        return Grant(LeaseHolder(self._key, self._epoch), answer["resurrected"], next_in=answer["nextInSeconds"])

    def _held(self, job: HeldJob) -> Answer:
        return {"workerInstanceKey": job.holder.worker, "epoch": job.holder.epoch, "fence": job.fence}

    # ---------------------------------------------------------------------------------------------------------- calling

    def _exchange(
        self, method: str, path: str, body: Answer | None = None, caller: Caller | None = None
    ) -> tuple[int, Answer]:
        try:
            return (caller or self._caller).call(method, path, body)
        except ServiceAway as exc:
            self._news = None
            raise StoreUnreachable(str(exc)) from exc

    def _call(self, method: str, path: str, body: Answer | None = None, caller: Caller | None = None) -> Answer:
        status, answer = self._exchange(method, path, body, caller)
        if status >= 300:
            raise StoreUnreachable(f"{method} was answered {status}: {answer.get('error', '')}")
        return answer

    def _watch(self) -> None:
        """On its own thread: wait for news of the record, again and again."""
        seen = ""
        while not self._closing.wait(self._poll.pause_left()):
            try:
                status, answer = self._poll.call(
                    "GET", f"{self._base}/record?{urlencode({'seen': seen, 'wait': POLL})}"
                )
            except ServiceAway:
                seen, self._news = "", None
                continue
            if status == 200 and answer["seen"] != seen:
                seen, self._news = answer["seen"], answer
                self._changed = True
                self._bell.ring()
        self._poll.close()  # here, because only this thread uses it


def _served_set(answer: Answer | None) -> ServedSet | None:
    """Raise NoCredentials if this agent does not know such rules: it must not judge jobs by them."""
    if answer is None:
        return None
    from bullpen.model.scale_set import SetEvents, SetRepository
    from bullpen.model.served_set import ServedSet

    try:
        known = tuple(SetRepository(one["name"], one.get("id", 0)) for one in answer.get("repositories", ()))
        return ServedSet(answer["name"], SetEvents(answer["events"]), known)
    except (KeyError, TypeError, ValueError) as exc:
        raise NoCredentials(f"the server has rules for its scale set that this agent does not know: {exc}") from exc


def _badge(config: Config) -> FixedToken:
    """An agent on EC2 starts without a token: it proves which instance it is."""
    if config.token or not config.imds:
        return FixedToken(config.token)
    from bullpen.agent.aws.identity import Attested
    from bullpen.agent.aws.imds import Metadata

    return Attested(config, Metadata())
