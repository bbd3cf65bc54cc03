"""What every Observations promises."""

from builders import NOW, later
from bullpen.ports import Observations

TOPIC = "machines without a record"


async def test_what_is_new_has_been_seen_since_now(observations: Observations) -> None:
    assert await observations.observe(TOPIC, ["i-1", "i-2"], NOW) == {"i-1": NOW, "i-2": NOW}


async def test_what_was_seen_before_keeps_its_beginning(observations: Observations) -> None:
    await observations.observe(TOPIC, ["i-1"], later(0.123456))
    assert await observations.observe(TOPIC, ["i-1", "i-2"], later(60)) == {"i-1": later(0.123456), "i-2": later(60)}
    assert await observations.observe(TOPIC, ["i-1", "i-2"], later(90)) == {"i-1": later(0.123456), "i-2": later(60)}


async def test_what_is_not_seen_once_is_forgotten(observations: Observations) -> None:
    await observations.observe(TOPIC, ["i-1", "i-2"], NOW)
    await observations.observe(TOPIC, ["i-2"], later(30))
    assert await observations.observe(TOPIC, ["i-1", "i-2"], later(60)) == {"i-1": later(60), "i-2": NOW}


async def test_nothing_seen_forgets_the_topic(observations: Observations) -> None:
    await observations.observe(TOPIC, ["i-1"], NOW)
    assert await observations.observe(TOPIC, [], later(30)) == {}
    assert await observations.observe(TOPIC, ["i-1"], later(60)) == {"i-1": later(60)}


async def test_topics_do_not_mix(observations: Observations) -> None:
    await observations.observe(TOPIC, ["i-1"], NOW)
    await observations.observe("another", ["i-2"], later(30))
    assert await observations.observe(TOPIC, ["i-1", "i-2"], later(60)) == {"i-1": NOW, "i-2": later(60)}


async def test_a_look_that_does_not_remember_notes_and_forgets_nothing(observations: Observations) -> None:
    await observations.observe(TOPIC, ["i-1"], NOW)
    look = await observations.observe(TOPIC, ["i-2"], later(30), remember=False)
    assert look == {"i-2": later(30)}
    assert await observations.observe(TOPIC, ["i-1", "i-2"], later(60)) == {"i-1": NOW, "i-2": later(60)}
