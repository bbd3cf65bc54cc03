"""How many machines a class lacks, beside those that are on offer or on their way there."""

from builders import NOW, an_instance
from bullpen.config import ResourceClass, Settings
from bullpen.model.instance import Instance
from bullpen.model.ticket import Requirements, UsageClass
from bullpen.refresh.lack import SetLack, lacking

ON_DEMAND, SPOT = UsageClass.ON_DEMAND, UsageClass.SPOT


def ready(id: str, usage_class: UsageClass) -> Instance:
    return an_instance(id, resource_class="small", usage_class=usage_class, trust_domain="")


def lack(name: str, usage_class: UsageClass, missing: int, *fallback: UsageClass) -> SetLack:
    return SetLack(name, Requirements("small", usage_class, fallback=fallback), missing, missing)


def missing(lacks: list[SetLack], *found: Instance) -> tuple[int, int]:
    """On demand, and on spot."""
    settings = Settings(classes={"small": ResourceClass(cpu=1, mem=1024)})
    counted = lacking(settings, "small", found, lacks, NOW)
    return counted[ON_DEMAND], counted[SPOT]


def test_a_machine_on_demand_counts_for_a_set_on_spot_that_may_fall_back() -> None:
    found = ready("i-1", ON_DEMAND)
    assert missing([lack("a", SPOT, 2, ON_DEMAND)], found) == (0, 1)
    assert missing([lack("a", SPOT, 2)], found) == (0, 2)


def test_a_set_on_spot_leaves_machines_on_demand_to_a_set_that_needs_them() -> None:
    both = [lack("a", SPOT, 1, ON_DEMAND), lack("b", ON_DEMAND, 1)]
    assert missing(both, ready("i-1", ON_DEMAND), ready("i-2", SPOT)) == (0, 0)
