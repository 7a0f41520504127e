"""Figures as text that Prometheus reads: OpenMetrics, or the classic format for who asks for
that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import prometheus_client
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from reefcast.server.metrics.definitions import Metric
from reefcast.server.metrics.histograms import Histogram
from reefcast.server.metrics.observed import Figure

Family = prometheus_client.Metric
AS_THEY_ARE: Mapping[str, Any] = {"escaping": "allow-utf-8"}


class _Families(Collector):
    """What is to be written."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def rendered(figures: Iterable[Figure], accept: str) -> tuple[bytes, str]:
    """Return the text of these figures and of the process, and its content type. `accept`: what the
    scraper accepts (the header of that name)."""
    encode, content_type = choose_encoder(accept)
    families = _Families([*_families(figures), *_process().collect()])
    # Our names need no escaping, and to look for what does would take most of the time.
    return encode(families, **AS_THEY_ARE), content_type


def _families(figures: Iterable[Figure]) -> Iterator[Family]:
    by_metric: dict[Metric, list[Figure]] = {}
    for figure in figures:
        by_metric.setdefault(figure.metric, []).append(figure)
    for metric, own in by_metric.items():
        base = metric.name.removesuffix("_total")  # the writers add it again
        family = Family(base, metric.help, metric.kind)
        for figure in own:
            labels = dict(zip(metric.labels, figure.labels, strict=True))
            if isinstance(figure.value, Histogram):
                _add_histogram(family, figure.value)
            else:
                family.add_sample(metric.name, labels, float(figure.value))
        yield family


def _add_histogram(family: Family, histogram: Histogram) -> None:
    for bound, count in histogram.buckets():
        family.add_sample(f"{family.name}_bucket", {"le": bound}, count)
    family.add_sample(f"{family.name}_count", {}, histogram.count)
    family.add_sample(f"{family.name}_sum", {}, histogram.total)


@cache
def _process() -> prometheus_client.ProcessCollector:
    """Return what tells of this process; it registers itself nowhere."""
    return prometheus_client.ProcessCollector(registry=None)
