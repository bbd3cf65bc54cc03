"""What every Records promises of repositories: which id a name had first is written once."""

import asyncio

import pytest

from builders import a_repository, meet_repository, see_repository
from bullpen.errors import Conflict
from bullpen.ports import Records


async def test_a_repository_is_read_as_it_was_written(records: Records) -> None:
    assert await records.repositories(["acme/web"]) == {}
    await records.apply(see_repository("Acme/Web", 10**18 - 1))
    assert await records.repositories(["acme/web"]) == {"acme/web": a_repository("Acme/Web", 10**18 - 1)}
    (met,) = await records.apply(meet_repository(a_repository("Acme/Web", 10**18 - 1)))
    assert await records.repositories(["acme/web"]) == {"acme/web": met}
    assert met.others == (43,)


async def test_a_repository_is_found_by_its_name_in_any_case(records: Records) -> None:
    await records.apply(see_repository("acme/web"))
    assert [*await records.repositories(["ACME/Web"])] == ["acme/web"]


async def test_of_many_names_those_that_were_seen_are_found(records: Records) -> None:
    names = [f"acme/web-{n:03}" for n in range(150)]
    await records.apply_each([see_repository(name, n + 1) for n, name in enumerate(names[::2])])
    found = await records.repositories([*names, *names])
    assert {name: one.ci_id for name, one in found.items()} == {name: n + 1 for n, name in enumerate(names[::2])}


async def test_of_many_first_sights_exactly_one_decides(records: Records) -> None:
    sights = [see_repository(name, n + 1) for n, name in enumerate(["acme/web", "Acme/Web"] * 8)]
    outcomes = await asyncio.gather(*map(records.apply, sights), return_exceptions=True)
    (winner,) = [sight.after for sight, outcome in zip(sights, outcomes, strict=True) if isinstance(outcome, list)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
    assert [one.found for one in refused] == [winner] * 15
    assert await records.repositories(["acme/web"]) == {"acme/web": winner}


async def test_of_two_that_note_another_id_at_once_one_lands_and_the_other_sees_it(records: Records) -> None:
    (seen,) = await records.apply(see_repository())
    (met,) = await records.apply(meet_repository(seen, 43))
    with pytest.raises(Conflict) as refused:
        await records.apply(meet_repository(seen, 44))
    assert refused.value.found == met


async def test_a_repository_has_a_story(records: Records) -> None:
    (seen,) = await records.apply(see_repository())
    await records.apply(meet_repository(seen))
    stories = await records.stories([seen.id])
    assert [line.step for line in stories[seen.id]] == ["see", "meet"]
