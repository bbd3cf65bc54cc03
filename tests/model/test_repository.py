"""The record of a repository's name: the first id that is seen decides what the bare name means."""

import pytest

from builders import a_repository, meet_repository, see_repository
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model import repository
from bullpen.model.repository import OTHERS_KEPT, repository_key


def test_the_first_sight_writes_the_id_and_the_name_as_it_was_spelt() -> None:
    seen = see_repository("Acme/Web", 42).after
    assert (seen.id, seen.name, seen.ci_id, seen.others) == ("repository:acme/web", "Acme/Web", 42, ())


def test_names_that_differ_in_case_have_one_record() -> None:
    assert repository_key("ACME/web") == repository_key("acme/WEB")


def test_another_id_is_noted_and_changes_nothing_of_what_the_name_means() -> None:
    met = meet_repository(a_repository(), 43).after
    assert (met.ci_id, met.others) == (42, (43,))
    assert met.has_met(42)
    assert met.has_met(43)
    assert not met.has_met(44)


@pytest.mark.parametrize("id", [42, 43])
def test_an_id_that_is_known_is_not_noted_again(id: int) -> None:
    with pytest.raises(Conflict):
        meet_repository(meet_repository(a_repository(), 43).after, id)


def test_a_name_that_is_known_is_not_seen_for_the_first_time_again() -> None:
    event = repository.RepositorySeen(at=see_repository().line.at, by="a test", ci_id=43)  # type: ignore[union-attr]
    with pytest.raises(InvalidTransition):
        repository.see(a_repository(), event)


def test_of_many_other_ids_the_record_keeps_the_last() -> None:
    met = a_repository()
    for id in range(100, 100 + 3 * OTHERS_KEPT):
        met = meet_repository(met, id).after
    assert met.others == tuple(range(100 + 2 * OTHERS_KEPT, 100 + 3 * OTHERS_KEPT))
    assert met.ci_id == 42
