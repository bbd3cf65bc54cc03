"""Amounts: time of machines and what it cost, exactly."""

from decimal import Context, Decimal

from bullpen.lazy_dataclass import dataclass

MICROS_AN_HOUR = 3_600_000_000
EXACT = Context(prec=100)
"""Digits for centuries of machines at a price of any length. Of the usual 28, sums would depend on their order."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Time, and what it cost. Money is in microseconds times USD per hour: `usd` divides, once, at the end."""

    micros: int = 0
    priced: Decimal = Decimal(0)

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.micros + other.micros, EXACT.add(self.priced, other.priced))

    @classmethod
    def at(cls, rate: Decimal, micros: int) -> "Amount":
        """So much time, at USD per hour."""
        return cls(micros, EXACT.multiply(Decimal(micros), rate))

    @property
    def seconds(self) -> float:
        return self.micros / 1e6

    @property
    def usd(self) -> Decimal:
        return self.priced / MICROS_AN_HOUR
