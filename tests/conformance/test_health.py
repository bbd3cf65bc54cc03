"""What every StoreHealth promises."""

from dataclasses import replace

from builders import NOW, later
from bullpen.ports import FailingLoop, ServiceNote, StoreHealth

REAP = FailingLoop("reap", later(-60), "i-1: it cannot be ended")
RUNS = FailingLoop("runs", later(-30), "GitHub did not answer")


def of(process: str, *failing: FailingLoop) -> list[FailingLoop]:
    return [replace(one, process=process) for one in failing]


async def test_a_store_that_works_can_be_probed_again_and_again(health: StoreHealth) -> None:
    await health.probe(NOW)
    await health.probe(later(1))
    assert await health.noted(NOW) == []


async def test_what_a_process_notes_is_shown_until_its_time(health: StoreHealth) -> None:
    await health.note("serve on a (7)", [RUNS, REAP], later(120))
    assert await health.noted(later(119)) == of("serve on a (7)", REAP, RUNS)
    assert await health.noted(later(120)) == []


async def test_a_process_that_notes_itself_is_listed_until_its_time(health: StoreHealth) -> None:
    await health.note("serve on b (7)", [], later(120))
    await health.note("serve on a (7)", [REAP], later(60))
    assert await health.services(NOW) == [
        ServiceNote("serve on a (7)", later(60)),
        ServiceNote("serve on b (7)", later(120)),
    ]
    assert [one.process for one in await health.services(later(60))] == ["serve on b (7)"]
    assert await health.noted(NOW) == of("serve on a (7)", REAP)


async def test_a_process_that_ends_is_not_listed_any_more(health: StoreHealth) -> None:
    await health.note("serve on a (7)", [], later(120))
    await health.note("serve on a (7)", [], NOW)
    assert await health.services(NOW) == []


async def test_a_process_replaces_what_it_noted_before(health: StoreHealth) -> None:
    await health.note("serve on a (7)", [REAP], later(120))
    worse = replace(RUNS, error="GitHub answered 502")
    await health.note("serve on a (7)", [worse], later(240))
    assert await health.noted(later(121)) == of("serve on a (7)", worse)
    await health.note("serve on a (7)", [], later(300))
    assert await health.noted(NOW) == []


async def test_processes_note_beside_each_other(health: StoreHealth) -> None:
    await health.note("serve on b (7)", [RUNS], later(120))
    await health.note("serve on a (7)", [REAP], later(60))
    assert await health.noted(NOW) == [*of("serve on a (7)", REAP), *of("serve on b (7)", RUNS)]
    assert await health.noted(later(60)) == of("serve on b (7)", RUNS)
    await health.note("serve on a (7)", [], later(60))
    assert await health.noted(NOW) == of("serve on b (7)", RUNS)


async def test_a_later_note_of_another_process_leaves_the_first_one_listed(health: StoreHealth) -> None:
    await health.note("serve on a (7)", [], later(120))
    await health.note("serve on b (7)", [], later(150))
    assert [one.process for one in await health.services(later(60))] == ["serve on a (7)", "serve on b (7)"]
