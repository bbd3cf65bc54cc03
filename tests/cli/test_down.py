"""`bullpen down`: names what it ended, and fails if an instance is left."""

from typing import Any

import pytest

import bullpen.down
import bullpen.wiring
from bullpen.down import TakenDown
from command_line import CommandLine


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One instance ends and another does not."""

    async def down(*_: Any, **__: Any) -> TakenDown:
        return TakenDown(("i-1",), ("i-2",), ("i-2: switch its protection off",))

    monkeypatch.setattr(bullpen.down, "down", down)
    monkeypatch.setattr(bullpen.wiring, "is_unused", lambda home, settings: False)


@pytest.mark.usefixtures("ends")
def test_an_instance_that_does_not_end_is_named_as_a_failure(bullpen: CommandLine) -> None:
    ran = bullpen("down")
    assert ran.code == 1
    assert "1 instance ended\n  i-1" in ran.out
    assert "1 instance did not end: i-2 (i-2: switch its protection off)" in ran.err
    assert "process" in ran.err


@pytest.mark.usefixtures("ends")
def test_on_aws_the_remedy_does_not_mention_processes(bullpen: CommandLine) -> None:
    needed = (
        "engines.pool=aws",
        "aws.pool=ci-pool",
        "aws.image=ami-0c10d000000000a64",
        "aws.instance-profile=agent",
        "aws.region=us-east-1",
        "aws.subnets=subnet-0123456789abcdef0",
    )
    ran = bullpen("down", *(word for setting in needed for word in ("--set", setting)))
    assert ran.code == 1
    assert "did not end: i-2" in ran.err
    assert "process" not in ran.err


@pytest.mark.usefixtures("ends")
def test_the_json_of_down_names_the_failure(bullpen: CommandLine) -> None:
    ran = bullpen("down", "--json")
    assert ran.code == 1
    assert (ran.answer["state"], ran.answer["cause"]) == ("failed", "refused")
    assert (ran.answer["terminated"], ran.answer["left"]) == (["i-1"], ["i-2"])
    assert "i-2" in ran.answer["reason"]
