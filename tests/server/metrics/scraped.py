"""The answer to a scrape, read as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from server.fixtures import House


@dataclass(frozen=True)
class Scraped:
    families: Mapping[str, Metric]
    text: str

    def value(self, name: str, /, **labels: str) -> float | None:
        """The value of the one series of this name that has these labels; None if there is none."""
        found = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert len(found) <= 1, f"{name} {labels}: {len(found)} series"
        return found[0] if found else None

    def total(self, name: str) -> float:
        return sum(s.value for family in self.families.values() for s in family.samples if s.name == name)

    def labels(self, name: str) -> list[dict[str, str]]:
        return [s.labels for family in self.families.values() for s in family.samples if s.name == name]

    @property
    def size(self) -> int:
        """How many series there are."""
        return sum(len(family.samples) for family in self.families.values())


def read(text: str) -> Scraped:
    return Scraped({family.name: family for family in text_string_to_metric_families(text)}, text)


async def scraped(house: House, token: str | None = None) -> Scraped:
    answer = await house.ask("GET", "/metrics", token)
    assert answer.status_code == 200, answer.text
    return read(answer.text)
