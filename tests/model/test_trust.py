"""Trust domains of repositories: how they are spelt, and what a domain inherits by bare names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.model import limits
from bullpen.model.trust import (
    RepositoryDomain,
    bare,
    inherited,
    of_repository,
    repository_names,
    spellings,
    trust_domain,
)

FIRST = {"acme/web": 42, "acme/api": 7}

names = st.from_regex(rf"\A{limits.REPOSITORY}\Z")
ids = st.integers(1, 10**limits.REPOSITORY_ID_DIGITS - 1)
kinds = st.sampled_from(["", "#pull-request"])


# ---- spelling


@given(name=names, id=st.just(0) | ids, kind=kinds)
def test_a_domain_of_a_repository_is_read_as_it_is_written(name: str, id: int, kind: str) -> None:
    domain = RepositoryDomain(name, id, kind)
    assert of_repository(str(domain)) == domain


@given(name=names, id=ids, kind=kinds)
def test_every_domain_of_a_repository_is_one_that_settings_and_the_api_accept(name: str, id: int, kind: str) -> None:
    assert re.fullmatch(limits.TRUST_DOMAIN, str(RepositoryDomain(name, id, kind)))


def test_a_run_without_a_known_id_gets_the_bare_name() -> None:
    assert trust_domain("acme/web", 0, "push", "refs/heads/main", "octocat") == "acme/web"


@pytest.mark.parametrize(
    "domain",
    [
        *("", "default", "acme", "#pull-request", "/web/42", "acme/web#other", "acme/web/42#pull-request#pull-request"),
        *("acme/web/", "acme/web/0", "acme/web/042", "acme/web/4x", "acme/web/42/43", "acme/web/-1"),
        "acme/web/" + "9" * (limits.REPOSITORY_ID_DIGITS + 1),
    ],
)
def test_a_domain_of_another_form_is_no_repositorys_and_has_one_spelling(domain: str) -> None:
    assert of_repository(domain) is None
    assert spellings(domain, {"acme/web": 42, "acme": 42, "default": 42}) == (domain,)
    assert bare(domain) == domain


@pytest.mark.parametrize("kind", ["", "#pull-request"])
def test_the_bare_name_and_the_name_with_the_first_id_are_one_domain(kind: str) -> None:
    assert spellings(f"acme/web{kind}", FIRST) == (f"acme/web{kind}", f"acme/web/42{kind}")
    assert spellings(f"acme/web/42{kind}", FIRST) == (f"acme/web/42{kind}", f"acme/web{kind}")


def test_another_id_of_the_same_name_is_a_domain_of_its_own() -> None:
    assert spellings("acme/web/43", FIRST) == ("acme/web/43",)
    assert spellings("ACME/Web/43", FIRST) == ("ACME/Web/43",)


def test_before_a_repository_is_seen_its_bare_name_means_nothing_else() -> None:
    assert spellings("acme/new", FIRST) == ("acme/new",)
    assert spellings("acme/new/42", FIRST) == ("acme/new/42",)


# ---- inheritance


def test_a_repository_inherits_from_its_own_bare_name() -> None:
    assert inherited("acme/web/42", {}, FIRST) == ("acme/web",)
    assert inherited("acme/web/42#pull-request", {}, FIRST) == ("acme/web#pull-request",)


def test_a_repository_that_was_created_again_inherits_nothing_from_its_name() -> None:
    rules = {"acme/web": ("acme/api", "acme/web#pull-request"), "acme/web/42": ("acme/api",)}
    assert inherited("acme/web/43", rules, FIRST) == ()
    assert inherited("acme/web/43#pull-request", rules, FIRST) == ()


def test_bare_names_on_both_sides_of_a_rule_are_completed() -> None:
    rules = {"acme/web": ("acme/web#pull-request", "acme/api", "team")}
    assert set(inherited("acme/web/42", rules, FIRST)) == {
        "acme/web",
        "acme/web#pull-request",
        "acme/web/42#pull-request",
        "acme/api",
        "acme/api/7",
        "team",
    }


def test_a_rule_that_names_an_id_is_for_that_repository_alone() -> None:
    rules = {"acme/web/43": ("acme/web", "acme/api/8")}
    assert set(inherited("acme/web/43", rules, FIRST)) == {"acme/web", "acme/web/42", "acme/api/8"}
    assert inherited("acme/web/42", rules, FIRST) == ("acme/web",)


def test_a_bare_domain_gets_the_rules_of_the_repository_that_it_means() -> None:
    assert set(inherited("acme/web", {"acme/web/42": ("team",)}, FIRST)) == {"acme/web/42", "team"}


def test_a_domain_that_is_no_repositorys_inherits_what_its_rule_says() -> None:
    assert inherited("team", {"team": ("other",)}, FIRST) == ("other",)


@given(id=ids.filter(lambda id: id != 42), kind=kinds, spelling=st.sampled_from(["acme/web", "Acme/Web", "ACME/WEB"]))
def test_whatever_the_rules_for_others_say_a_stranger_of_the_same_name_inherits_nothing(
    id: int, kind: str, spelling: str
) -> None:
    everything = ("acme/web", "acme/web/42", "acme/web#pull-request", "acme/api")
    rules = {
        f"{name}{kind}": everything
        for name in ("acme/web", "acme/web/42", "acme/api")
        for kind in ("", "#pull-request")
    }
    assert inherited(f"{spelling}/{id}{kind}", rules, FIRST) == ()


def test_the_repositories_of_domains_are_named_once_each() -> None:
    assert repository_names(["acme/web/42", "default", "acme/web#pull-request", "acme/api"]) == ["acme/web", "acme/api"]
