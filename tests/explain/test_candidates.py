"""Instances that are alike are judged once, and each as if it had been judged alone."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOW
from bullpen.config import ResourceClass, Settings
from bullpen.explain import candidates as module
from bullpen.explain.candidates import MOST, alike, judged_for
from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, Instance
from bullpen.model.ticket import RefusalRule, UsageClass, detail_of, refused_by

KIND = ResourceClass(cpu=2, mem=1024)
NEEDS = Settings(classes={"small": KIND}).requirements(
    "small", trust_domain="a", cpu=4, mem=2048, allowed_types=("m.*",)
)
SOON, PAST = NOW + timedelta(hours=1), NOW - timedelta(seconds=1)


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Most instances differ in one thing or two."""
    return st.sampled_from([usual] * 4 + [*others])


INSTANCES = st.builds(
    Instance,
    id=st.sampled_from([f"i-{n}" for n in range(40)]),
    state=mostly(IDLE, CREATED, CLAIMED, RUNNING),
    version=st.just(1),
    threshold=mostly(SOON, PAST),
    attested=mostly(True, False),
    run_id=mostly("", "own", "other"),
    resource_class=mostly("small", "large"),
    usage_class=mostly(UsageClass.ON_DEMAND, UsageClass.SPOT),
    instance_type=mostly("m.large", "c.large"),
    cpu=mostly(4, 1, 2),
    mem=mostly(4096, 512, 1024),
    trust_domain=mostly("", "a", "b"),
    image_generation=mostly(1, 0, 2),
)
POOLS = st.lists(INSTANCES, min_size=10, max_size=40, unique_by=lambda one: one.id)


def rule_alone(one: Instance) -> RefusalRule:
    if not (one.is_claimable or one.is_pending):
        return RefusalRule.TAKEN
    rule = refused_by(one.ticket(), NEEDS, KIND.cpu, KIND.mem, NOW if one.is_claimable else module.LONG_AGO)
    if rule is RefusalRule.FITS and one.is_pending:
        return RefusalRule.CLEANING if one.state is IDLE else RefusalRule.BOOTING
    return rule


@given(POOLS)
def test_each_instance_has_the_rule_and_the_words_that_it_has_alone(pool: list[Instance]) -> None:
    others = [one for one in pool if one.resource_class == "small" and one.run_id != "own"]
    found = judged_for(alike(pool, NOW).get("small", ()), NEEDS, KIND, NOW).without("own")
    rules = {one.id: rule_alone(one) for one in others}
    assert {one.instance_id: one.rule for one in found.listed} == rules
    assert Counter(dict(found.refusals)) == Counter(rules.values())
    words = {one.instance_id: one.detail for one in found.listed}
    for one in others:
        if rules[one.id] is not RefusalRule.TAKEN:
            assert words[one.id] == detail_of(rules[one.id], one.ticket(), NEEDS)


@given(POOLS)
def test_what_serves_the_run_soonest_is_listed_first_and_the_rest_by_id(pool: list[Instance]) -> None:
    found = judged_for(alike(pool, NOW).get("small", ()), NEEDS, KIND, NOW).listed
    order = [RefusalRule.FITS, RefusalRule.CLEANING, RefusalRule.BOOTING]
    places = [
        order.index(one.rule) if one.rule in order else 4 if one.rule is RefusalRule.TAKEN else 3 for one in found
    ]
    assert places == sorted(places)
    taken = [one.instance_id for one in found if one.rule is RefusalRule.TAKEN]
    assert taken == sorted(taken)


def test_beside_thousands_of_instances_each_kind_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def an_idle(n: int) -> Instance:
        domain = f"repository-{n % 7}"
        return Instance(f"i-{n:04}", IDLE, 1, SOON, attested=True, resource_class="small", trust_domain=domain)

    asked = Counter[str]()
    judge = refused_by

    def counted(*args: Any) -> RefusalRule:
        asked["judged"] += 1
        return judge(*args)

    monkeypatch.setattr(module, "refused_by", counted)
    groups = alike([an_idle(n) for n in range(5000)], NOW)
    for n in range(20):
        needs = Settings(classes={"small": KIND}).requirements("small", trust_domain=f"repository-{n}")
        assert len(judged_for(groups["small"], needs, KIND, NOW).listed) == MOST
    assert asked["judged"] == 20 * 7
