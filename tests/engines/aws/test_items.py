"""Records as items: what is written is read again, sorts as it should, and says in the seeds' words what it is."""

import sys
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOW, an_instance, claim, claimed, cleaning, later, needs, open_provision, registered, running
from bullpen.engines.aws.dynamodb.entries import LEASE_SHARDS, derived, lease_key, lease_keys
from bullpen.engines.aws.dynamodb.expressions import update_of
from bullpen.engines.aws.dynamodb.items import (
    SHAPES,
    decode,
    decode_part,
    decode_story,
    encode,
    encode_part,
    id_of,
    key_of,
    moment,
    text,
)
from bullpen.model import instance, job, provision, scale_set, worker
from bullpen.model.control import Control
from bullpen.model.instance import TERMINATED, Instance
from bullpen.model.job import Job
from bullpen.model.provision import Provision
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.signal import direct_key
from bullpen.model.ticket import UsageClass
from bullpen.model.transition import Debt
from bullpen.model.worker import Card, Worker
from set_builders import a_waiting_job, held, record_message

TIMES = st.timedeltas(timedelta(0), timedelta(days=70_000)).map(lambda since: datetime(2000, 1, 1, tzinfo=UTC) + since)
WORDS = st.text(max_size=12)
st.register_type_strategy(datetime, TIMES)
st.register_type_strategy(str, WORDS)
st.register_type_strategy(float, st.floats(0, 1e9, allow_nan=False))
st.register_type_strategy(int, st.integers(0, 2**53))


# The first call compiles `__init__`, in which hypothesis finds the arguments of a record and of what is in it.
for module in [module for name, module in sys.modules.items() if name.startswith("bullpen.model.")]:
    for kind in [kind for kind in vars(module).values() if isinstance(kind, type) and is_dataclass(kind)]:
        with suppress(TypeError):
            kind()


def records() -> st.SearchStrategy[Any]:
    ids = st.text("abcdefi-0123456789/", min_size=1)
    return st.one_of(
        st.builds(Instance, id=ids, owes=_owed(instance.InstanceDebt)),
        st.builds(Provision, id=ids, owes=_owed(provision.ProvisionDebt)),
        st.builds(Worker, id=ids, version=st.integers(1, 2**53)),
        st.builds(Job, id=ids),
        st.builds(Control, id=ids),
        st.builds(ScaleSet, id=ids, owes=_owed(scale_set.SetDebt)),
        st.builds(SetSession, id=ids),
    )


def _owed(kinds: Any) -> st.SearchStrategy[Debt | None]:
    return st.none() | st.builds(Debt, kind=st.sampled_from(kinds), due_at=TIMES)


@given(records())
def test_a_record_is_read_as_it_was_written(record: Any) -> None:
    item = {**key_of(type(record), record.id), **encode(record)}
    assert decode(type(record), item) == record
    derived(record)


@given(st.builds(Card))
def test_so_is_a_card(card: Card) -> None:
    assert decode_part(Card, encode_part(card)) == card


@given(TIMES, TIMES)
def test_times_sort_as_text(one: datetime, other: datetime) -> None:
    assert (one < other) == (moment(one) < moment(other))


@given(TIMES)
def test_times_in_other_zones_and_of_whole_seconds_are_read(at: datetime) -> None:
    at = at.replace(microsecond=0)
    item = {**key_of(Instance, "i-1"), **encode(an_instance()), "threshold": text(at.strftime("%Y-%m-%dT%H:%M:%SZ"))}
    assert decode(Instance, item).threshold == at


@given(st.text("ab/", min_size=1), st.text("ab/", min_size=1))
def test_no_two_workers_share_an_item_and_each_is_named_as_it_was(one: str, other: str) -> None:
    one, other = (f"{id}direct" if id.endswith("/") else id for id in (one, other))
    assert (key_of(Worker, one) == key_of(Worker, other)) == (one == other)
    assert id_of(Worker, key_of(Worker, one)) == one


def test_an_instance_that_beats_by_itself_lies_under_its_own_id() -> None:
    assert key_of(Worker, direct_key("i-1")) == {"PK": text("TYPE#Heartbeat"), "SK": text("ID#i-1")}


def test_an_item_carries_the_names_that_others_know() -> None:
    seen = claimed()[-1].after
    item = {**encode(seen), **derived(seen)}
    for name in ("instanceId", "state", "runId", "threshold", "usageClass", "instanceType", "cpu", "mem"):
        assert name in item
    assert item["resourceClass"] == text("small")
    assert encode(seen)["threshold"]["S"].endswith(".000000Z")


def test_what_is_not_so_is_absent_but_for_the_run_of_a_free_instance() -> None:
    item = encode(registered()[-1].after)
    assert item["runId"] == text("")
    assert not {"attested", "offeredAt", "owes", "purgeAt", "trustDomain"} & set(item)


def test_every_kind_of_record_has_its_shape_and_every_field_its_attribute() -> None:
    for record, shape in SHAPES.items():
        assert ["id", *shape.fields] == [each.name for each in fields(record)]
        attributes = [part.attribute for part in shape.fields.values()]
        assert len(set(attributes)) == len(attributes)
        assert not {"PK", "SK", "story", "stamp", "ttl"} & set(attributes)


def test_every_update_of_a_record_names_every_entry_of_its_indexes() -> None:
    """A ticket knows little: what it does not know must not linger in an index."""
    change = claim(an_instance())
    written = update_of(change, "stamp")["ExpressionAttributeNames"].values()
    assert set(derived(change.after)) <= set(written)


# ---- keys and entries in indexes


def where(record: Any) -> dict[str, str]:
    names = ("runKey", "poolKey", "dueKey", "todoKey", "liveKey")
    found = derived(record)
    return {name: value["S"] for name in names if (value := found.get(name)) is not None}


def test_an_instance_is_in_the_indexes_of_what_it_is() -> None:
    assert where(running()[-1].after) == {"runKey": "RUN#run-1", "dueKey": "SERVES", "liveKey": "LIVE#Instance"}
    assert where(cleaning()[-1].after) == {
        "poolKey": "PENDING#small",
        "todoKey": "OWES#Instance",
        "liveKey": "LIVE#Instance",
    }


def test_requirements_stored_before_there_was_a_fallback_are_read() -> None:
    asked = needs(usage_class=UsageClass.SPOT, fallback=(UsageClass.ON_DEMAND,))
    opened = open_provision(needs=asked).after
    item = {**key_of(Provision, opened.id), **encode(opened)}
    assert item["needs"]["M"].pop("fallback") == {"L": [{"S": "on-demand"}]}
    assert decode(Provision, item).needs == replace(asked, fallback=None)


def test_a_waiting_job_stored_before_lapses_were_counted_is_read() -> None:
    stored = record_message(held(), waiting=(a_waiting_job(lapses=2, taken_back_at=NOW),)).after
    item = {**key_of(SetSession, stored.id), **encode(stored)}
    (entry,) = item["waiting"]["L"]
    del entry["M"]["lapses"], entry["M"]["takenBackAt"]
    assert decode(SetSession, item).waiting == (a_waiting_job(),)


def test_a_session_stored_before_offers_were_kept_is_read() -> None:
    stored = record_message(held(), offered=(1, 2)).after
    item = {**key_of(SetSession, stored.id), **encode(stored)}
    del item["offered"]
    assert decode(SetSession, item) == replace(stored, offered=())


def test_a_closed_provision_is_only_in_the_history_of_its_run() -> None:
    opened = open_provision().after
    assert where(opened) == {
        "runKey": "TOLD#run-1",
        "poolKey": "OPEN#small",
        "dueKey": "DUE#Provision",
        "todoKey": "OPENRUN#run-1",
    }
    assert where(replace(opened, state=provision.ABORTED)) == {"runKey": "TOLD#run-1"}


def test_a_job_has_an_entry_in_every_index_that_is_asked_for_it() -> None:
    queued = Job(id="j-1", state=job.QUEUED, version=1, run_id="run-1", command=("true",), queued_at=NOW)
    assert where(queued) == {
        "runKey": "JOBS#run-1",
        "dueKey": "WAITING",
        "todoKey": "QUEUED#run-1",
        "liveKey": "UNFINISHED#run-1",
    }
    assert where(replace(queued, state=job.RUNNING, verify_by=NOW))["dueKey"] == "VERIFY"
    assert where(replace(queued, state=job.FINISHED)) == {"runKey": "JOBS#run-1"}


def test_the_job_that_was_lost_comes_first_then_the_oldest_then_by_its_place() -> None:
    base = Job(id="j", state=job.QUEUED, version=1, run_id="r", command=("true",), queued_at=NOW)
    order = [
        replace(base, losses=1, queued_at=later(9)),
        base,
        replace(base, index=2),
        replace(base, index=10),
        replace(base, queued_at=NOW + timedelta(microseconds=1)),
    ]
    turns = [derived(each)["todoSort"] for each in order]
    assert sorted(turns, key=lambda turn: turn["S"] if turn else "") == turns


def test_leases_are_spread_and_everything_else_is_not() -> None:
    found = {lease_key(f"i-{n}/{n:08x}") for n in range(1000)}
    assert found == set(lease_keys())
    assert len(found) == LEASE_SHARDS
    live = Worker(id="i-1/a", state=worker.ACTIVE, version=1, due_at=NOW)
    assert where(live) == {"dueKey": lease_key("i-1/a"), "liveKey": "LIVE#Worker"}


def test_an_instance_that_has_ended_stays_until_its_time_had_a_day_to_be_booked() -> None:
    """Also without `bullpen serve`, where refresh books it and runs every few hours."""
    ended = Instance(id="i-1", state=TERMINATED, version=5, threshold=NOW, purge_at=NOW)
    ttl = derived(ended)["ttl"]
    assert ttl is not None
    assert int(ttl["N"]) == (NOW + timedelta(days=1)).timestamp()
    assert derived(replace(ended, purge_at=None))["ttl"] is None


def test_a_worker_that_owes_its_jobs_does_not_go() -> None:
    tomb = Worker(id="w/1", state=worker.CLEANED_UP, version=5, purge_at=NOW, lost_epoch=2, settled_epoch=1)
    assert derived(tomb)["ttl"] is None
    assert where(tomb) == {"todoKey": "OWES#Worker"}
    assert derived(replace(tomb, settled_epoch=2))["ttl"] is not None


def test_a_beat_that_no_sweeper_has_seen_is_a_worker_without_a_lease() -> None:
    found = decode(Worker, {**key_of(Worker, direct_key("i-1")), "seq": {"N": "3"}, "updatedAt": text(moment(NOW))})
    assert found == Worker(id="i-1/direct", state=worker.ACTIVE, version=0, epoch=1, token=3, beat_at=NOW)
    change = worker.rearm(found, worker.Rearmed(at=NOW, by="sweep", due_at=later(60)))
    condition = update_of(change, "stamp")["ConditionExpression"]
    assert "attribute_not_exists(#rev)" in condition
    assert "#seq = :" in condition


def test_no_sweeper_gives_up_a_worker_over_a_beat_that_it_has_not_seen() -> None:
    seen = Worker(id="i-1/direct", state=worker.ACTIVE, version=4, token=9, epoch=1, deadline=NOW)
    lost = worker.lose_lease(seen, worker.LeaseExpired(at=NOW, by="sweep", deadline=NOW, cleanup_at=later(60)))
    request = update_of(lost, "stamp")
    assert "#seq = :" in request["ConditionExpression"]
    assert {"N": "9"} in request["ExpressionAttributeValues"].values()


def test_a_story_leaves_out_an_unreadable_line() -> None:
    assert decode_story({"story": {"M": {"1": {"S": "once upon a time"}, "2": {"M": {}}}}}) == []


@pytest.mark.parametrize("value", [{"S": "x"}, {"M": {"pid": {"S": "x"}}}])
def test_an_unreadable_card_is_a_value_error(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Bullpen cannot read"):
        decode_part(Card, value)
