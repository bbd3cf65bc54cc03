"""What is known of the machines of silent workers, where a record exists that this program cannot read."""

from dataclasses import replace
from typing import Any

from builders import registered
from bullpen.engines.memory import Memory
from bullpen.liveness import evidence
from bullpen.model.instance import Instance


async def test_a_record_that_cannot_be_read_does_not_count_as_forgotten() -> None:
    ports = Memory().ports()
    for change in registered("i-1"):
        await ports.records.apply(change)

    async def nothing_readable(_ids: Any) -> dict[str, Instance]:
        return {}

    ports.records.instances = nothing_readable  # type: ignore[method-assign, assignment]
    seen = await evidence.gather(ports, ["i-1", "i-2"])
    assert not seen.is_ending("i-1")
    assert seen.is_ending("i-2"), "neither a record nor a machine"
    assert not replace(seen, sightings=None).is_ending("i-2")
