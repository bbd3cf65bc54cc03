"""Pause, resume, drain and rotate over HTTP: the scope, the dry run, the answers, and what cannot be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders import claimed, on_offer, running
from conformance.landing import land_all
from server.fixtures import INSTANCE, House, a_house

NOTE = "the new image does not boot"
ORDERS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/pause", {"note": NOTE}),
    ("/v1/resume", {}),
    ("/v1/drain", {"instances": ["i-1"]}),
    ("/v1/rotate", {}),
]


async def post(house: House, path: str, body: Any, token: str | None = None) -> Any:
    answer = await house.ask("POST", path, token, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def with_instances(house: House) -> None:
    await land_all(house.ports.records, [on_offer("i-1")])
    await land_all(house.ports.records, [running("i-2")])


@pytest.mark.parametrize(("path", "body"), ORDERS)
async def test_an_order_needs_the_scope_operate(tmp_path: Path, path: str, body: Any) -> None:
    async with a_house(tmp_path) as house:
        await with_instances(house)
        house.guard()
        for token, status in ((None, 401), ("read", 403), (INSTANCE, 403), ("operate", 200), ("admin", 200)):
            body = {**body, "dryRun": True}
            assert (await house.ask("POST", path, token, json=body)).status_code == status, token


async def test_everyone_who_may_read_sees_the_pauses(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        assert (await house.ask("GET", "/v1/pauses", "read")).json() == {"pauses": []}
        paused = await post(house, "/v1/pause", {"note": NOTE, "resourceClass": "large"}, "operate")
        pause = paused["pause"]
        assert {**pause, "since": ""} == {
            "resourceClass": "large",
            "note": NOTE,
            "since": "",
            "by": "operate",
            "drains": False,
        }
        assert [(one["what"], one["subject"]) for one in paused["actions"]] == [("pause", "class large")]
        assert (await house.ask("GET", "/v1/pauses", "read")).json() == {"pauses": [pause]}
        assert (await house.ask("GET", "/v1/status", "read")).json()["pauses"] == [pause]
        resumed = await post(house, "/v1/resume", {"resourceClass": "large"}, "operate")
        assert (resumed["pause"], [one["what"] for one in resumed["actions"]]) == (None, ["resume"])
        assert (await house.ask("GET", "/v1/pauses", "read")).json() == {"pauses": []}


async def test_a_server_without_tokens_knows_no_name_of_the_operator(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        assert (await post(house, "/v1/pause", {"note": NOTE}))["pause"]["by"] == "an operator"


@pytest.mark.parametrize(("path", "body"), ORDERS)
async def test_a_dry_run_writes_nothing(tmp_path: Path, path: str, body: Any) -> None:
    async with a_house(tmp_path) as house:
        await with_instances(house)
        before = dict(house.memory.tables.instances), dict(house.memory.tables.stories)
        answer = await post(house, path, {**body, "dryRun": True})
        assert answer["dryRun"] is True
        assert (house.memory.tables.instances, house.memory.tables.stories) == before
        assert (house.memory.tables.pauses, house.memory.tables.rotations) == ({}, {})


async def test_a_drain_says_what_becomes_of_each_instance(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await with_instances(house)
        answer = await post(house, "/v1/drain", {"instances": ["i-1", "i-2"], "note": "disk is full"})
        assert [(one["what"], one["subject"]) for one in answer["actions"]] == [("end", "i-1"), ("drain", "i-2")]
        shown = (await house.ask("GET", "/v1/instances/i-2")).json()
        assert (shown["state"], shown["imageGeneration"]) == ("running", 0)
        assert shown["story"][-1]["why"] == "drained by an operator: disk is full"


async def test_status_shows_how_far_a_rotation_is(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await with_instances(house)
        await post(house, "/v1/rotate", {"resourceClass": "small"})
        (rotation,) = (await house.ask("GET", "/v1/status")).json()["rotations"]
        assert (rotation["resourceClass"], rotation["total"], rotation["left"]) == ("small", 2, 1)
        stories = (await house.ask("GET", "/v1/stories/rotation:small")).json()["stories"]
        assert [line["step"] for line in stories[0]["story"]] == ["rotate"]


async def test_the_story_of_a_pause_says_who_paused_before(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await post(house, "/v1/pause", {"note": NOTE})
        await post(house, "/v1/resume", {})
        (story,) = (await house.ask("GET", "/v1/stories/pause:*")).json()["stories"]
        assert [(line["step"], line["why"]) for line in story["story"]] == [
            ("pause", NOTE),
            ("resume", f"was paused: {NOTE}"),
        ]
        assert (await house.ask("GET", "/v1/stories/pause:small")).status_code == 404


WRONG: list[tuple[str, Any, str]] = [
    ("/v1/pause", {}, "note"),
    ("/v1/pause", {"note": ""}, "note"),
    ("/v1/pause", {"note": "  "}, "note"),
    ("/v1/pause", {"note": "x" * 501}, "note"),
    ("/v1/pause", {"note": "two\nlines"}, "note"),
    ("/v1/pause", {"note": "\x1b[31mred"}, "note"),
    ("/v1/pause", {"note": 7}, "note"),
    ("/v1/pause", {"note": NOTE, "resourceClass": "huge"}, "resourceClass"),
    ("/v1/pause", {"note": NOTE, "resourceClass": "../x"}, "resourceClass"),
    ("/v1/pause", {"note": NOTE, "resourceClass": "*"}, "resourceClass"),
    ("/v1/pause", {"note": NOTE, "class": "large"}, "class"),
    ("/v1/pause", {"note": NOTE, "dryRun": "yes"}, "dryRun"),
    ("/v1/resume", {"resourceClass": "huge"}, "resourceClass"),
    ("/v1/drain", {}, "instances"),
    ("/v1/drain", {"instances": []}, "instances"),
    ("/v1/drain", {"instances": ["i-1"], "resourceClass": "small"}, "instances"),
    ("/v1/drain", {"instances": [""]}, "instances"),
    ("/v1/drain", {"instances": ["i"] * 1001}, "instances"),
    ("/v1/drain", {"instances": ["i-1"], "note": "a\tb"}, "note"),
    ("/v1/drain", {"resourceClass": "huge"}, "resourceClass"),
    ("/v1/rotate", {"resourceClass": "huge"}, "resourceClass"),
    ("/v1/rotate", {"resourceClass": 1}, "resourceClass"),
]


@pytest.mark.parametrize(("path", "body", "field"), WRONG)
async def test_what_cannot_be_meant_is_refused_by_name_and_changes_nothing(
    tmp_path: Path, path: str, body: Any, field: str
) -> None:
    async with a_house(tmp_path) as house:
        await with_instances(house)
        before = dict(house.memory.tables.stories)
        answer = await house.ask("POST", path, json=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["field"].partition("[")[0] == field
        assert "Traceback" not in answer.text
        assert house.memory.tables.stories == before


async def test_unknown_instances_are_a_404_that_names_them(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await land_all(house.ports.records, [claimed("i-1")])
        answer = await house.ask("POST", "/v1/drain", json={"instances": ["i-1", "i-9"]})
        assert (answer.status_code, answer.json()["error"]) == (404, "i-9: no such instance")
        assert not house.memory.tables.instances["i-1"].is_drained
