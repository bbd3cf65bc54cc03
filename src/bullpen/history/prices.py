"""Prices: what an hour of a machine costs, in USD. Those of the settings come first; these are defaults to check.

The defaults are on-demand prices of Linux in us-east-1, as published at the end of 2025. EC2 asks for each size of a
family in proportion, so one price for each family is enough. A spot machine without a price of its own is taken to
cost `SPOT_SHARE` of the on-demand price. Machines of this host (`local.*`) cost nothing.
"""

from decimal import Decimal
from functools import cache

from bullpen.config import Settings
from bullpen.model.ticket import UsageClass

LARGE = {
    # general purpose
    "m5": "0.096",
    "m5a": "0.086",
    "m5d": "0.113",
    "m5n": "0.119",
    "m6a": "0.0864",
    "m6g": "0.077",
    "m6i": "0.096",
    "m6id": "0.11865",
    "m7a": "0.11592",
    "m7g": "0.0816",
    "m7gd": "0.1068",
    "m7i": "0.1008",
    "m7i-flex": "0.09576",
    "m8g": "0.08976",
    "t3": "0.0832",
    "t3a": "0.0752",
    "t4g": "0.0672",
    # compute
    "c5": "0.085",
    "c5a": "0.077",
    "c5d": "0.096",
    "c5n": "0.108",
    "c6a": "0.0765",
    "c6g": "0.068",
    "c6gd": "0.0768",
    "c6i": "0.085",
    "c6id": "0.1008",
    "c6in": "0.1134",
    "c7a": "0.10264",
    "c7g": "0.0725",
    "c7gd": "0.0907",
    "c7i": "0.08925",
    "c7i-flex": "0.08479",
    "c8g": "0.07976",
    # memory
    "r5": "0.126",
    "r5a": "0.113",
    "r5d": "0.144",
    "r6a": "0.1134",
    "r6g": "0.1008",
    "r6i": "0.126",
    "r7a": "0.15215",
    "r7g": "0.1071",
    "r7i": "0.1323",
    "r8g": "0.11782",
}
"""USD per hour of the size `large`, by family."""

SIZES = {
    "nano": "0.0625",
    "micro": "0.125",
    "small": "0.25",
    "medium": "0.5",
    "large": "1",
    "xlarge": "2",
    **{f"{n}xlarge": str(2 * n) for n in (2, 3, 4, 6, 8, 9, 10, 12, 16, 18, 24, 32, 48)},
}
"""How many times `large` a size is."""

SPOT_SHARE = Decimal("0.4")
"""Of the on-demand price, as an estimate: the price of spot changes by the hour and the zone."""

FREE = "local."
"""What the types of machines begin with that are processes of this host."""


def price_of(settings: Settings, instance_type: str, usage_class: UsageClass) -> Decimal | None:
    """USD per hour; None if no price is known."""
    given = settings.history.prices
    own = given.get(instance_type)
    price = Decimal(str(own)) if own is not None else default_price(instance_type)
    if usage_class is not UsageClass.SPOT:
        return price
    spot = given.get(f"{instance_type}:spot")
    if spot is not None:
        return Decimal(str(spot))
    return None if price is None else price * SPOT_SHARE


@cache
def default_price(instance_type: str) -> Decimal | None:
    """The default price on demand; None for a type that the table does not have."""
    if instance_type.startswith(FREE):
        return Decimal(0)
    family, _, size = instance_type.partition(".")
    if family not in LARGE or size not in SIZES:
        return None
    return Decimal(LARGE[family]) * Decimal(SIZES[size])
