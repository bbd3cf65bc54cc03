"""How a ticket is written and read, and what a run makes of one."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOW, a_ticket, later, needs
from bullpen.model.ticket import (
    TICKET_LIMIT,
    Malformed,
    Requirements,
    Ticket,
    UsageClass,
    Verdict,
    format_time,
    judge,
    matches,
    parse_ticket,
    parse_time,
)

TAKE, PUT_BACK, DROP = Verdict
SEVEN = {
    "instanceId": "i-1",
    "usageClass": "spot",
    "instanceType": "c5.large",
    "cpu": 2,
    "mem": 4096,
    "resourceClass": "medium",
    "threshold": "2030-01-01T00:07:00Z",
}

printable = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20).filter(str.isprintable)
words = printable.filter(bool)
counts = st.integers(min_value=0, max_value=2**53 - 1)
moments = st.integers(0, 2**32).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
usage_classes = st.sampled_from(UsageClass)
tickets = st.builds(
    Ticket,
    words,
    usage_classes,
    words,
    counts,
    counts,
    words,
    moments,
    counts,
    printable,
    st.none() | counts,
)

# ---- on the wire


def test_a_ticket_of_the_seven_plain_fields_is_valid() -> None:
    assert parse_ticket(json.dumps(SEVEN)) == Ticket(
        "i-1", UsageClass.SPOT, "c5.large", 2, 4096, "medium", NOW + timedelta(minutes=7)
    )


def test_three_fields_are_added_to_the_seven() -> None:
    body = json.loads(a_ticket(version=7, trust_domain="default", image_generation=3).to_json())
    assert {name: body[name] for name in ("version", "trustDomain", "imageGeneration")} == {
        "version": 7,
        "trustDomain": "default",
        "imageGeneration": 3,
    }
    assert list(body)[:7] == list(SEVEN)


def test_unknown_fields_are_ignored() -> None:
    assert parse_ticket(json.dumps({**SEVEN, "colour": "blue"})) == parse_ticket(json.dumps(SEVEN))


@given(tickets)
def test_a_ticket_is_read_as_it_was_written(ticket: Ticket) -> None:
    if len(ticket.to_json()) <= TICKET_LIMIT:
        assert parse_ticket(ticket.to_json()) == ticket


@given(st.text())
def test_no_text_makes_the_reader_raise(body: str) -> None:
    assert isinstance(parse_ticket(body), Malformed)  # a random text is practically never a ticket


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.datetimes().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*SEVEN, "version", "trustDomain", "imageGeneration"]), junk))
def test_no_object_makes_the_reader_raise(wrong: dict[str, Any]) -> None:
    assert isinstance(parse_ticket(json.dumps({**SEVEN, **wrong})), Ticket | Malformed)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "7",
        "[]",
        '"i-1"',
        "{",
        "{}",
        "[" * 2000,
        "\ud800",
        json.dumps({**SEVEN, "instanceId": ""}),
        json.dumps({**SEVEN, "instanceId": 7}),
        json.dumps({**SEVEN, "instanceId": "i-\ud800"}),
        json.dumps({**SEVEN, "instanceId": "i-\0"}),
        json.dumps({**SEVEN, "usageClass": "reserved"}),
        json.dumps({**SEVEN, "cpu": -1}),
        json.dumps({**SEVEN, "cpu": 2.0}),
        json.dumps({**SEVEN, "cpu": True}),
        json.dumps({**SEVEN, "cpu": "2"}),
        json.dumps({**SEVEN, "mem": 2**53}),
        json.dumps({**SEVEN, "mem": float("nan")}),
        json.dumps({**SEVEN, "threshold": "soon"}),
        json.dumps({**SEVEN, "threshold": "2030-01-01T00:00:00"}),
        json.dumps({**SEVEN, "threshold": "9999-12-31T23:59:59-14:00"}),
        json.dumps({**SEVEN, "threshold": "0001-01-01T00:00:00+14:00"}),
        json.dumps({**SEVEN, "version": None}),
        json.dumps({**SEVEN, "trustDomain": None}),
        json.dumps({name: value for name, value in SEVEN.items() if name != "cpu"}),
    ],
)
def test_a_message_that_is_not_a_ticket_is_malformed_with_a_reason(body: str) -> None:
    found = parse_ticket(body)
    assert isinstance(found, Malformed)
    assert found.reason


def test_a_message_that_is_too_long_is_not_even_read() -> None:
    body = json.dumps({**SEVEN, "padding": "x" * TICKET_LIMIT})
    assert parse_ticket(body) == Malformed(f"{len(body)} characters, at most {TICKET_LIMIT}")


def test_times_are_utc_in_whole_seconds_cut_not_rounded() -> None:
    assert format_time(datetime(2030, 1, 1, 1, 0, 0, 999999, timezone(timedelta(hours=1)))) == "2030-01-01T00:00:00Z"


@given(moments)
def test_a_time_is_read_as_it_was_written(at: datetime) -> None:
    assert parse_time(format_time(at)) == at


# ---- judged


def verdict(ticket: Ticket, asked: Requirements) -> Verdict:
    return judge(ticket, asked, class_cpu=1, class_mem=1024, now=NOW)


def test_a_ticket_that_fits_is_taken() -> None:
    assert verdict(a_ticket(), needs()) is TAKE
    assert verdict(a_ticket(version=None, image_generation=None), needs()) is TAKE


@pytest.mark.parametrize(
    "useless",
    [
        {"threshold": NOW},
        {"threshold": later(-1)},
        {"resource_class": "large"},
        {"cpu": 0},
        {"mem": 1023},
        {"image_generation": 0},
    ],
    ids=str,
)
def test_a_ticket_that_no_run_can_use_is_dropped(useless: dict[str, Any]) -> None:
    assert verdict(a_ticket(**useless), needs()) is DROP


@pytest.mark.parametrize(
    ("has", "asked"),
    [
        ({"usage_class": UsageClass.SPOT}, {}),
        ({"usage_class": UsageClass.ON_DEMAND}, {"usage_class": UsageClass.SPOT}),
        ({"usage_class": UsageClass.ON_DEMAND}, {"usage_class": UsageClass.SPOT, "fallback": ()}),
        ({"instance_type": "m5.large"}, {"allowed_types": ("c5.*", "r*")}),
        ({"cpu": 3}, {"cpu": 4}),
        ({"mem": 4095}, {"mem": 4096}),
        ({"trust_domain": "other"}, {}),
        ({"image_generation": 2}, {}),
    ],
    ids=str,
)
def test_a_ticket_that_fits_others_is_put_back(has: dict[str, Any], asked: dict[str, Any]) -> None:
    assert verdict(a_ticket(**has), needs(**asked)) is PUT_BACK


def test_a_ticket_that_no_run_can_use_is_dropped_even_if_it_does_not_fit_this_run_either() -> None:
    assert verdict(a_ticket(threshold=NOW, usage_class=UsageClass.SPOT), needs()) is DROP


@pytest.mark.parametrize("has", UsageClass)
def test_the_fallback_is_as_good_as_the_requested_usage_class(has: UsageClass) -> None:
    asked = needs(usage_class=UsageClass.SPOT, fallback=(UsageClass.ON_DEMAND,))
    assert verdict(a_ticket(usage_class=has), asked) is TAKE


def test_cpu_and_mem_are_minimums() -> None:
    assert verdict(a_ticket(cpu=8, mem=65536), needs(cpu=2, mem=4096)) is TAKE


@pytest.mark.parametrize(("domain", "expected"), [("", TAKE), ("default", TAKE), ("parent", TAKE), ("child", PUT_BACK)])
def test_instances_of_no_domain_the_own_and_an_inherited_one_are_trusted(domain: str, expected: Verdict) -> None:
    assert verdict(a_ticket(trust_domain=domain), needs(inherits=("parent",))) is expected


few_words = st.sampled_from(["small", "large"])
some_tickets = st.builds(
    Ticket,
    st.just("i-1"),
    usage_classes,
    st.sampled_from(["c5.large", "m5.large"]),
    st.integers(0, 4),
    st.integers(0, 4),
    few_words,
    st.sampled_from([later(-1), NOW, later(1)]),
    st.none() | st.integers(0, 3),
    st.sampled_from(["", "default", "other"]),
    st.none() | st.integers(0, 3),
)
some_needs = st.builds(
    Requirements,
    few_words,
    usage_classes,
    st.sampled_from([(), ("*",), ("c5.*",), ("M5.*", "r*")]),
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from(["default", "other"]),
    st.sampled_from([(), ("other",)]),
    st.integers(1, 3),
    st.just(""),
    st.none() | st.sampled_from([(), (UsageClass.ON_DEMAND,)]),
)


def meets(ticket: Ticket, asked: Requirements, cpu: int, mem: int) -> bool:
    return (
        ticket.threshold > NOW
        and ticket.resource_class == asked.resource_class
        and ticket.usage_class in (asked.usage_class, *(asked.fallback or ()))
        and ticket.cpu >= max(asked.cpu, cpu)
        and ticket.mem >= max(asked.mem, mem)
        and matches(ticket.instance_type, asked.allowed_types)
        and ticket.trust_domain in ("", asked.trust_domain, *asked.inherits)
        and ticket.image_generation in (None, asked.image_generation)
    )


@given(some_tickets, some_needs, st.integers(0, 3), st.integers(0, 3))
def test_a_ticket_that_meets_every_requirement_is_taken(
    ticket: Ticket, asked: Requirements, cpu: int, mem: int
) -> None:
    if meets(ticket, asked, cpu, mem):
        assert judge(ticket, asked, cpu, mem, NOW) is TAKE


@given(some_tickets, some_needs, st.integers(0, 3), st.integers(0, 3))
def test_a_ticket_that_is_taken_meets_every_requirement(
    ticket: Ticket, asked: Requirements, cpu: int, mem: int
) -> None:
    if judge(ticket, asked, cpu, mem, NOW) is TAKE:
        assert meets(ticket, asked, cpu, mem)


@given(some_tickets, some_needs, some_needs, st.integers(0, 3), st.integers(0, 3))
def test_a_ticket_that_one_run_drops_is_taken_by_no_other_run_of_the_class(
    ticket: Ticket, ours: Requirements, theirs: Requirements, cpu: int, mem: int
) -> None:
    theirs = replace(theirs, resource_class=ours.resource_class, image_generation=ours.image_generation)
    if judge(ticket, ours, cpu, mem, NOW) is DROP:
        assert judge(ticket, theirs, cpu, mem, NOW) is DROP
