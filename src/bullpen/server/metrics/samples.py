"""The values of one scrape: checked against the catalogue, and bounded."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from bullpen.model.histogram import Histogram
from bullpen.server.metrics.catalogue import BY_NAME, FAMILIES, Family, SeriesKind

MOST_SERIES = 500
"""Label sets of one family. No pool comes near it; what is beyond is left out, whatever names a pool has."""

LONGEST_LABEL = 100  # characters
OTHER = "other"

Value = float | Histogram


class Samples:
    """Values by family and labels. `collect` is what prometheus_client asks."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, ...], Value]] = {}

    def put(self, name: str, value: Value, *labels: str) -> None:
        """The value of one series. `name` is without the prefix of Bullpen's own series."""
        family = BY_NAME.get(f"bullpen_{name}") or BY_NAME[name]
        if len(labels) != len(family.labels) or isinstance(value, Histogram) != (family.kind is SeriesKind.HISTOGRAM):
            raise ValueError(
                f"{family.name}: {labels} are not its labels {family.labels}, or {value} is no value of it"
            )
        series = self._values.setdefault(family.name, {})
        named = tuple(shown(label) for label in labels)
        if named in series or len(series) < MOST_SERIES:
            series[named] = value if isinstance(value, Histogram) else round(value, 6)

    def put_each(self, name: str, values: Iterable[tuple[tuple[str, ...], Value]]) -> None:
        for labels, value in values:
            self.put(name, value, *labels)

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            yield _metric(family, self._values.get(family.name, {}))


def shown(label: str) -> str:
    """A label as it is shown: at most so long, and without what a terminal or a page could stumble over."""
    return "".join(sign if sign.isprintable() else "?" for sign in label[:LONGEST_LABEL])


class Bounded:
    """Names that become labels: those that are known in advance, then so many others; the rest is OTHER."""

    def __init__(self, known: Iterable[str], most: int = 50) -> None:
        self._names = set(known)
        self._most = len(self._names) + most

    def __call__(self, name: str) -> str:
        if name not in self._names and len(self._names) < self._most:
            self._names.add(name)
        return name if name in self._names else OTHER


def _metric(family: Family, values: dict[tuple[str, ...], Value]) -> Metric:
    if family.kind is SeriesKind.COUNTER:
        counter = CounterMetricFamily(family.name, family.text, labels=family.labels)
        for labels, value in values.items():
            counter.add_metric(labels, float(value) if not isinstance(value, Histogram) else 0.0)
        return counter
    if family.kind is SeriesKind.GAUGE:
        gauge = GaugeMetricFamily(family.name, family.text, labels=family.labels)
        for labels, value in values.items():
            gauge.add_metric(labels, float(value) if not isinstance(value, Histogram) else 0.0)
        return gauge
    histogram = HistogramMetricFamily(family.name, family.text, labels=family.labels)
    for labels, value in values.items():
        if isinstance(value, Histogram):
            bounds = [*(f"{bound:g}" for bound in value.bounds), "+Inf"]
            histogram.add_metric(labels, list(zip(bounds, value.cumulative(), strict=True)), value.total)
    return histogram
