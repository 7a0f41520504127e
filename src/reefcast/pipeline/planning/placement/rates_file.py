"""Request rates as CSV: `broker,topic,rate_per_s`, with these heads."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

from reefcast.errors import ConfigurationError
from reefcast.pipeline.planning.placement.inputs import RatesByBroker

HEADS = ("broker", "topic", "rate_per_s")


def load_rates(file: Path) -> RatesByBroker:
    """Load rates from a CSV file. Raises `ConfigurationError`, which names file and line, for other
    heads, a line that is no rate, and a broker and topic that come twice."""
    rates: defaultdict[str, dict[str, float]] = defaultdict(dict)
    try:
        with file.open(encoding="utf-8", newline="") as text:
            rows = csv.reader(text)
            if tuple(next(rows, ())) != HEADS:
                raise ConfigurationError(f"{file}: the first line must be {','.join(HEADS)}")
            for row in rows:
                broker, topic, rate = _row(f"{file}, line {rows.line_num}", row)
                if topic in rates[broker]:
                    raise ConfigurationError(
                        f"{file}, line {rows.line_num}: {broker!r} and {topic!r} come again"
                    )
                rates[broker][topic] = rate
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file}: is not text in UTF-8 ({error})") from error
    return rates


def _row(where: str, row: list[str]) -> tuple[str, str, float]:
    try:
        broker, topic, rate = row
        return broker, topic, float(rate)
    except ValueError:
        raise ConfigurationError(
            f"{where}: write {','.join(HEADS)}, the last a number, not {','.join(row)!r}"
        ) from None
