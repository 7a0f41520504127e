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
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
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
    encode, content_type = choose_encoder(OPENMETRICS if _prefers_openmetrics(accept) else "")
    families = _Families([*_families(figures), *_process().collect()])
    # Our names need no escaping, and to look for what does would take most of the time.
    return encode(families, **AS_THEY_ARE), content_type


def _prefers_openmetrics(accept: str) -> bool:
    """Return whether OpenMetrics is wanted at least as much as the classic format, by a header that
    may say anything (RFC 9110, section 12.5.1)."""
    weights: dict[str, float] = {}
    for part in accept.lower().split(","):
        kind, *parameters = (each.strip() for each in part.split(";"))
        try:
            weight = [float(each[2:]) for each in parameters if each.startswith("q=")] or [1.0]
        except ValueError:
            continue
        weights.setdefault(kind, weight[0])
    wanted = weights.get("application/openmetrics-text", 0.0)
    return wanted > 0 and wanted >= weights.get("text/plain", 0.0)


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
