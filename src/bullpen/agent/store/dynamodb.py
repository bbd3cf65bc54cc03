"""The store as an agent on EC2 reaches it without `bullpen serve`: the DynamoDB table itself.

The agent reads its own record, again and again, and writes its signals, its heartbeat and its registration; the
machine's role allows no more. Jobs of Bullpen's own queue need `bullpen serve`: here `jobs` is None. Everything
that keeps the table from answering is `StoreUnreachable`.

A write whose answer was lost may have landed. Beats and signals count up, so the next one is written whether the last
one was or not; the registration is taken back whenever it may be there.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bullpen import __version__
from bullpen.agent.aws.dynamodb import ConditionFailed, DynamoDB, DynamoRefused, DynamoUnanswered
from bullpen.agent.aws.imds import Metadata, NoMetadata
from bullpen.agent.build import build_id
from bullpen.agent.config import Config
from bullpen.agent.decide import ABSENT, NoRecord
from bullpen.agent.progress import SERVING, HeldJob, InstanceRecord, InstanceState, LeaseHolder, SignalKind
from bullpen.agent.store.base import (
    NO_SETS,
    Grant,
    NoCredentials,
    OwnList,
    RunnerCredentials,
    StoreUnreachable,
)
from bullpen.engines.aws.dynamodb import entries, items
from bullpen.engines.aws.dynamodb.items import Item, Value, moment, number, raw_key, text
from bullpen.errors import Refused as Unreadable
from bullpen.model.instance import Instance
from bullpen.model.limits import REASON_LENGTH
from bullpen.model.signal import SEQ_STEP, direct_key
from bullpen.model.worker import Card, Worker
from bullpen.model.worker import State as WorkerState

if TYPE_CHECKING:
    from bullpen.agent.github.token_source import CredentialIssuer

WAITING_EVERY = 0.5  # seconds between two reads of the record while a claim may come
RUNNING_EVERY = 5.0  # and while a run has the instance: only its release is news
PATIENCE = 3.0  # seconds for an answer: the loop that waits also sends the heartbeat
ATTEMPTS = 3  # to find the number that follows the last one written
SIGNALS_LAST = 7 * 86400.0  # seconds
REFUSED_CREDENTIALS = ("ExpiredToken", "UnrecognizedClient", "InvalidSignature")  # how their codes begin


def connect(config: Config, metadata: Metadata) -> DynamoStore:
    """With the credentials of this machine."""
    client = DynamoDB(config.region, metadata.credentials, config.endpoint, PATIENCE)
    return DynamoStore(config, client, metadata.forget_credentials)


class DynamoStore:
    """See `base.AgentStore` for what each method promises."""

    jobs = None

    def __init__(self, config: Config, client: DynamoDB, forget_credentials: Callable[[], None]) -> None:
        self._config = config
        self._id = config.instance_id
        self._client = client
        self._domain = config.domain or os.uname().nodename
        self._forget_credentials = forget_credentials
        self._read_at = 0.0
        self._beats = self._signals = 0  # the numbers of the last ones
        self._may_be_registered = True  # an earlier process may have been
        self._has_described = False
        self._issuer: CredentialIssuer | None = None

    def has_changed(self) -> bool:
        return time.monotonic() >= self._read_at

    def read_record(self) -> InstanceRecord | NoRecord:
        found = self._call("GetItem", Key=raw_key("Instance", self._id), ConsistentRead=True).get("Item")
        record = ABSENT if found is None else _record(found)
        is_running = isinstance(record, InstanceRecord) and record.state is InstanceState.RUNNING
        self._read_at = time.monotonic() + (RUNNING_EVERY if is_running else WAITING_EVERY)
        return record

    def beat(self, job: HeldJob | None, leaving: datetime | None = None, activity: str = "") -> Grant:
        """One write: its number and the length of the lease. A sweeper sets the deadline, by its own clock."""
        pulse: dict[str, Value | None] = {
            "instanceId": text(self._id),
            "domain": text(self._domain),
            "lease": number(self._config.lease),
            "activity": text(activity) if activity else None,
        }
        if leaving is not None:
            pulse["leaving"] = text(moment(leaving))
        if not self._has_described:
            card = Card(self._config.capabilities, build_id(), os.uname().nodename, os.getpid(), __version__)
            pulse["card"] = items.encode_part(card)
        for _ in range(ATTEMPTS):
            self._beats += 1
            is_ours, found = self._count_up("Heartbeat", self._beats, pulse, _entries(self._id, leaving))
            epoch = int(found.get("epoch", {}).get("N", 1))
            holder = LeaseHolder(direct_key(self._id), epoch)
            if found.get("fate") == text("retire") or found.get("state") == text("cleaned-up"):
                return Grant(holder, retired=True)
            if is_ours:
                self._has_described = True
                # A little early, each time by another part of it: machines of one fleet do not beat as one.
                return Grant(holder, next_in=self._config.heartbeat * random.uniform(0.9, 1.0))
            self._beats = _seq(found)
        raise StoreUnreachable(f"{ATTEMPTS} heartbeats in a row were overtaken by another process")

    def stop(self) -> None:
        """Nothing: a sweeper decides what becomes of a worker whose beats it accepts itself."""

    def report(self, kind: SignalKind, record: InstanceRecord, words: str) -> None:
        if kind is SignalKind.REMOVE_REG_OK and self._may_be_registered:
            self.deregister()
        signal: dict[str, Value | None] = {
            "value": {"M": {"signal": text(kind), "runId": text(record.run_id)}},
            "round": text(record.round),
            "text": text(words[:REASON_LENGTH]),
            "ttl": number(int(time.time() + SIGNALS_LAST)),
        }
        for _ in range(ATTEMPTS):
            self._signals += 1
            is_ours, found = self._count_up("WS", self._signals, signal)
            if is_ours:
                return
            self._signals = _seq(found)
        raise StoreUnreachable(f"{kind} was overtaken {ATTEMPTS} times by another process")

    def register(self, record: InstanceRecord, refused_job: str = "") -> RunnerCredentials | OwnList:
        if record.serves_set:
            raise NoCredentials(NO_SETS)
        if self._config.ci == "github":
            return self._credentials(record)
        states = {f":{state}": text(state) for state in SERVING}
        check = {
            "TableName": self._config.table,
            "Key": raw_key("Instance", self._id),
            "ConditionExpression": f"#runId = :runId AND #round = :round AND #state IN ({', '.join(states)})",
            "ExpressionAttributeNames": {f"#{name}": name for name in ("runId", "round", "state")},
            "ExpressionAttributeValues": {":runId": text(record.run_id), ":round": text(record.round), **states},
        }
        put = {
            "TableName": self._config.table,
            "Item": {
                **raw_key("Registration", self._id),
                "instanceId": text(self._id),
                "label": text(record.run_id),
                "round": text(record.round),
                "busy": {"BOOL": False},
            },
        }
        self._may_be_registered = True
        try:
            self._ask("TransactWriteItems", TransactItems=[{"ConditionCheck": check}, {"Put": put}])
        except ConditionFailed:
            return OwnList.MOVED_ON
        return OwnList.LISTED

    def _credentials(self, record: InstanceRecord) -> RunnerCredentials | OwnList:
        from bullpen.agent.github import token_source

        found = self.read_record()
        if not isinstance(found, InstanceRecord) or (found.run_id, found.round) != (record.run_id, record.round):
            return OwnList.MOVED_ON
        if found.state not in SERVING:
            return OwnList.MOVED_ON
        self._issuer = self._issuer or token_source.CredentialIssuer(self._id)
        return self._issuer.issue(*self._secret(), record)

    def removal_token(self) -> str:
        from bullpen.agent.github import token_source

        return token_source.removal_of(*self._secret())

    def _secret(self) -> tuple[str, float]:
        from bullpen.agent.github import token_source

        item = self._call("GetItem", Key=raw_key("Secret", token_source.NAME), ConsistentRead=True).get("Item", {})
        try:
            return item["content"]["S"], items.parse_moment(item["expiresAt"]["S"]).timestamp()
        except (KeyError, TypeError, ValueError):
            return "", 0.0  # as one that has ended

    def deregister(self, runner: str = "") -> None:
        self._call("DeleteItem", Key=raw_key("Registration", self._id))
        self._may_be_registered = False

    def close(self) -> None:
        self._client.close()

    # ---------------------------------------------------------------------------------------------------------- calling

    def _count_up(
        self, kind: str, seq: int, said: Mapping[str, Value | None], first: Item | None = None
    ) -> tuple[bool, Item]:
        """Write the item of this kind as number `seq`, unless it is as far already, or its worker is cleaned up, and
        `first` only where it is missing; what is None goes. A number that is too far ahead is another machine's, and
        would silence this one. Returns whether this agent wrote what stands there now, and what it is."""
        first, gone = first or {}, [name for name, value in said.items() if value is None]
        values = {name: value for name, value in said.items() if value is not None}
        values |= {"seq": number(seq), "updatedAt": text(moment(datetime.now(UTC)))}
        written = [f"#{name} = :{name}" for name in values]
        written += [f"#{name} = if_not_exists(#{name}, :{name})" for name in first]
        removed = f" REMOVE {', '.join(f'#{name}' for name in gone)}" if gone else ""
        try:
            answer = self._call(
                "UpdateItem",
                Key=raw_key(kind, self._id),
                UpdateExpression=f"SET {', '.join(written)}{removed}",
                ConditionExpression=(
                    "(attribute_not_exists(#seq) OR #seq < :seq OR #seq > :ahead) AND NOT #state = :gone"
                ),
                ExpressionAttributeNames={f"#{name}": name for name in (*values, *gone, *first, "state")},
                ExpressionAttributeValues={
                    **{f":{name}": value for name, value in (values | first).items()},
                    ":ahead": number(seq + SEQ_STEP),
                    ":gone": text("cleaned-up"),
                },
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ConditionFailed as exc:
            found = exc.items[0] or {}
            # Written at the same time: it had landed, and was sent again when the connection broke.
            return found.get("updatedAt") == values["updatedAt"], found
        return True, dict(answer["Attributes"])

    def _call(self, operation: str, **request: Any) -> dict[str, Any]:
        return self._ask(operation, TableName=self._config.table, **request)

    def _ask(self, operation: str, **request: Any) -> dict[str, Any]:
        try:
            return self._client.call(operation, **request)
        except (DynamoUnanswered, NoMetadata) as exc:
            raise StoreUnreachable(str(exc)) from exc
        except DynamoRefused as exc:
            if exc.code.startswith(REFUSED_CREDENTIALS):
                self._forget_credentials()
            raise StoreUnreachable(str(exc)) from exc


def _record(item: Item) -> InstanceRecord:
    try:
        found = items.decode(Instance, item)
        state = InstanceState(found.state)
    except (Unreadable, ValueError) as exc:
        raise StoreUnreachable(str(exc)) from exc
    threshold = found.threshold.timestamp()
    owned = (state, found.run_id, found.round, threshold, found.attested, found.trust_domain)
    return InstanceRecord(*owned, repository=found.repository)


def _entries(instance_id: str, leaving: datetime | None) -> Item:
    """The index entries by which sweepers find a heartbeat that none has accepted yet, and machines that leave."""
    worker = Worker(direct_key(instance_id), WorkerState.ACTIVE, version=0, leaving=leaving)
    return {name: value for name, value in entries.derived(worker).items() if value is not None}


def _seq(item: Item) -> int:
    try:
        return int(item["seq"]["N"])
    except (KeyError, TypeError, ValueError):
        return 0
