"""A few dozen real instance types: what attribute-based selection chooses from, with prices of the right order."""

from dataclasses import dataclass

ON_DEMAND = "on-demand"
SPOT = "spot"


@dataclass(frozen=True)
class InstanceType:
    """`price` is USD an hour on demand, `spot_price` what the spot market asks; None where spot does not sell it."""

    name: str
    vcpus: int
    memory: int  # MiB
    price: float
    architecture: str = "x86_64"
    is_burstable: bool = False
    is_bare_metal: bool = False
    is_current: bool = True
    sells_spot: bool = True

    @property
    def spot_price(self) -> float | None:
        return round(self.price * 0.4, 4) if self.sells_spot else None

    @property
    def manufacturer(self) -> str:
        """Who makes its processors, as attribute-based selection calls them."""
        if self.architecture == "arm64":
            return "amazon-web-services"
        family = self.name.partition(".")[0]
        return "amd" if family.endswith("a") else "intel"

    @property
    def sets_price(self) -> bool:
        """Whether price protection measures from it: the cheapest current C, M or R type does."""
        return self.is_current and self.name[0] in "cmr" and not self.is_bare_metal


SIZES = {"medium": 1, "large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32}
BURSTABLE = {"micro": (2, 1024), "small": (2, 2048), "medium": (2, 4096), "large": (2, 8192), "xlarge": (4, 16384)}


def _family(
    family: str, per_vcpu: int, price: float, *, sizes: str, architecture: str = "x86_64", is_current: bool = True
) -> list[InstanceType]:
    return [
        InstanceType(
            f"{family}.{size}", n, n * per_vcpu * 1024, round(n * price, 4), architecture, is_current=is_current
        )
        for size, n in SIZES.items()
        if size in sizes.split()
    ]


def _burstable(family: str, price: float, architecture: str = "x86_64") -> list[InstanceType]:
    return [
        InstanceType(f"{family}.{size}", vcpus, mem, round(mem / 1024 * price, 4), architecture, is_burstable=True)
        for size, (vcpus, mem) in BURSTABLE.items()
    ]


USUAL = "large xlarge 2xlarge 4xlarge 8xlarge"
TYPES = {
    kind.name: kind
    for kind in (
        *_family("c5", 2, 0.0425, sizes="large xlarge 2xlarge 4xlarge"),
        *_family("c6i", 2, 0.0425, sizes=USUAL),
        *_family("c6a", 2, 0.03825, sizes=USUAL),
        *_family("c7g", 2, 0.03625, sizes=f"medium {USUAL}", architecture="arm64"),
        *_family("m5", 4, 0.048, sizes="large xlarge 2xlarge 4xlarge"),
        *_family("m5a", 4, 0.043, sizes="large xlarge 2xlarge 4xlarge"),
        *_family("m6i", 4, 0.048, sizes=USUAL),
        *_family("m7i", 4, 0.0504, sizes=USUAL),
        *_family("m7g", 4, 0.0408, sizes=f"medium {USUAL}", architecture="arm64"),
        *_family("r6i", 8, 0.063, sizes=USUAL),
        *_family("m4", 4, 0.05, sizes="large xlarge", is_current=False),
        *_burstable("t3", 0.0104),
        *_burstable("t3a", 0.0094),
        *_burstable("t4g", 0.0084, "arm64"),
        InstanceType("m6i.metal", 128, 524288, 6.144, is_bare_metal=True),
        InstanceType("u-3tb1.56xlarge", 224, 3145728, 27.3, sells_spot=False),
    )
}
