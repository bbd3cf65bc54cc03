"""Amounts: time of machines and what it cost, exactly."""

from decimal import Decimal

from bullpen.lazy_dataclass import dataclass

MICROS_AN_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Amount:
    """Time, and what it cost. Money is in microseconds times USD per hour: `usd` divides, once, at the end."""

    micros: int = 0
    priced: Decimal = Decimal(0)

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.micros + other.micros, self.priced + other.priced)

    @property
    def seconds(self) -> float:
        return self.micros / 1e6

    @property
    def usd(self) -> Decimal:
        return self.priced / MICROS_AN_HOUR
