"""Attribute-based selection: which types of the catalogue an InstanceRequirements structure means.

The defaults surprise people, so they are played as they are: burstable and bare-metal types are left out unless asked
for, and price protection silently drops whatever costs over 20 % more than the cheapest current C, M or R type.
"""

import fnmatch
from collections.abc import Iterable
from typing import Any

from fakes.ec2.catalogue import ON_DEMAND, SPOT, TYPES, InstanceType
from fakes.ec2.refusal import Ec2Refusal

PROTECTION = {ON_DEMAND: 20, SPOT: 100}  # per cent, where a request names none
OFFERED = {"included": (True, False), "required": (True,), "excluded": (False,)}


def check(requirements: dict[str, Any]) -> None:
    """Refuse what contradicts itself; that the minimums are there, the service's description says."""
    if "AllowedInstanceTypes" in requirements and "ExcludedInstanceTypes" in requirements:
        raise Ec2Refusal(
            "InvalidParameterCombination", "AllowedInstanceTypes and ExcludedInstanceTypes can't be used together"
        )
    spot_limits = ("SpotMaxPricePercentageOverLowestPrice", "MaxSpotPriceAsPercentageOfOptimalOnDemandPrice")
    if all(name in requirements for name in spot_limits):
        raise Ec2Refusal("InvalidParameterCombination", f"{' and '.join(spot_limits)} can't be used together")
    for name in ("VCpuCount", "MemoryMiB"):
        bounds = requirements[name]
        if not 0 <= bounds["Min"] <= bounds.get("Max", bounds["Min"]):
            raise Ec2Refusal("InvalidParameterValue", f"{name}: Min must be at least 0 and not exceed Max")


def matching(requirements: dict[str, Any], architectures: Iterable[str], market: str) -> list[InstanceType]:
    """The cheapest first."""
    fitting = [kind for kind in TYPES.values() if kind.architecture in architectures and _fits(kind, requirements)]
    if market == SPOT:
        fitting = [kind for kind in fitting if kind.spot_price is not None]
    limit = _price_limit(fitting, requirements, market)
    return sorted(
        (kind for kind in fitting if price_of(kind, market) <= limit),
        key=lambda kind: (price_of(kind, market), kind.name),
    )


def price_of(kind: InstanceType, market: str) -> float:
    return kind.spot_price or kind.price if market == SPOT else kind.price


def _fits(kind: InstanceType, requirements: dict[str, Any]) -> bool:
    allowed = requirements.get("AllowedInstanceTypes", ["*"])
    excluded = requirements.get("ExcludedInstanceTypes", [])
    generations = requirements.get("InstanceGenerations") or ["current", "previous"]
    return (
        _within(kind.vcpus, requirements["VCpuCount"])
        and _within(kind.memory, requirements["MemoryMiB"])
        and _within(kind.memory / 1024 / kind.vcpus, requirements.get("MemoryGiBPerVCpu", {}))
        and kind.is_burstable in OFFERED[requirements.get("BurstablePerformance", "excluded")]
        and kind.is_bare_metal in OFFERED[requirements.get("BareMetal", "excluded")]
        and ("current" if kind.is_current else "previous") in generations
        and kind.manufacturer in (requirements.get("CpuManufacturers") or [kind.manufacturer])
        and _named(kind, allowed)
        and not _named(kind, excluded)
    )


def _within(value: float, bounds: dict[str, Any]) -> bool:
    return bool(bounds.get("Min", 0) <= value <= bounds.get("Max", value))


def _named(kind: InstanceType, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(kind.name, pattern.lower()) for pattern in patterns)


def _price_limit(fitting: list[InstanceType], requirements: dict[str, Any], market: str) -> float:
    measure = [price_of(kind, market) for kind in fitting if kind.sets_price] or [
        price_of(kind, market) for kind in fitting
    ]
    if not measure:
        return 0.0
    of_on_demand = requirements.get("MaxSpotPriceAsPercentageOfOptimalOnDemandPrice")
    if market == SPOT and of_on_demand is not None:
        return min(kind.price for kind in fitting) * float(of_on_demand) / 100
    name = "SpotMaxPricePercentageOverLowestPrice" if market == SPOT else "OnDemandMaxPricePercentageOverLowestPrice"
    return min(measure) * (1 + float(requirements.get(name, PROTECTION[market])) / 100)
