"""The events and filters of the live measurement: quotes with seven attributes."""

from __future__ import annotations

import random

SYMBOLS = 500
EVERYTHING = "price > 0"
EVENTS_SEED, FILTERS_SEED = 1, 2


def events(count: int) -> list[dict[str, float | int | str]]:
    """Quotes; symbols evenly spread, prices from 0 to 1000, rounded to cents."""
    rng = random.Random(EVENTS_SEED)
    made: list[dict[str, float | int | str]] = []
    for _ in range(count):
        price = round(rng.uniform(1, 1000), 2)
        made.append(
            {
                "symbol": f"S{rng.randrange(SYMBOLS):03d}",
                "price": price,
                "open": round(price * rng.uniform(0.95, 1.05), 2),
                "high": round(price * rng.uniform(1.0, 1.1), 2),
                "low": round(price * rng.uniform(0.9, 1.0), 2),
                "volume": rng.randrange(1_000_000),
                "change": round(rng.uniform(-10, 10), 2),
            }
        )
    return made


def distinct_filters(count: int) -> list[str]:
    """Filters as `narrow_filters` gives, no two alike."""
    rng = random.Random(FILTERS_SEED)
    lows = [500 * number / count for number in rng.sample(range(count), count)]
    symbols = [rng.randrange(SYMBOLS) for _ in range(count)]
    return [
        f"symbol = 'S{symbol:03d}' AND price BETWEEN {low:.6f} AND {low + 500:.6f}"
        for symbol, low in zip(symbols, lows, strict=True)
    ]


def narrow_filters(count: int) -> list[str]:
    """Filters of 0.1 % selectivity: one symbol of 500, and half of its prices."""
    rng = random.Random(FILTERS_SEED)
    filters = []
    for _ in range(count):
        low = rng.uniform(0, 500)
        symbol = rng.randrange(SYMBOLS)
        filters.append(f"symbol = 'S{symbol:03d}' AND price BETWEEN {low:.2f} AND {low + 500:.2f}")
    return filters
