"""The events and filters of measurements of live brokers: quotes with seven attributes."""

from __future__ import annotations

import random

SYMBOLS = 500
EVERYTHING = "price > 0"
EVENTS_SEED, MORE_SEED, FILTERS_SEED = 1, 3, 2
SELECTIVITIES = (0.001, 0.02)
"""The selectivities of narrow filters."""
VOLUMES = 1_000_000
_FIRST = ("symbol", "price", "volume", "open", "high", "low", "change")
"""The attributes that small events have, too: those that filters name."""
ATTRIBUTES = len(_FIRST)

Event = dict[str, float | int | str]


def events(count: int, attributes: int = ATTRIBUTES) -> list[Event]:
    """Return quotes; symbols evenly spread, prices from 1 to 1000, rounded to cents."""
    made = _quotes(count)
    if attributes < ATTRIBUTES:
        left_out = _FIRST[attributes:]
        made = [{k: v for k, v in quote.items() if k not in left_out} for quote in made]
    elif attributes > ATTRIBUTES:
        rng = random.Random(MORE_SEED)
        for quote in made:
            for number in range(attributes - ATTRIBUTES):
                quote[f"extra{number:02d}"] = _value(rng, number)
    return made


def _quotes(count: int) -> list[Event]:
    rng = random.Random(EVENTS_SEED)
    made: list[Event] = []
    for _ in range(count):
        price = round(rng.uniform(1, 1000), 2)
        made.append(
            {
                "symbol": f"S{rng.randrange(SYMBOLS):03d}",
                "price": price,
                "open": round(price * rng.uniform(0.95, 1.05), 2),
                "high": round(price * rng.uniform(1.0, 1.1), 2),
                "low": round(price * rng.uniform(0.9, 1.0), 2),
                "volume": rng.randrange(VOLUMES),
                "change": round(rng.uniform(-10, 10), 2),
            }
        )
    return made


def _value(rng: random.Random, number: int) -> float | int | str:
    """Return a value of an attribute that no filter names: a float, an integer or a text in
    turn."""
    match number % 3:
        case 0:
            return round(rng.uniform(0, 1000), 2)
        case 1:
            return rng.randrange(VOLUMES)
        case _:
            return f"T{rng.randrange(SYMBOLS):03d}"


def filters(count: int, selectivity: float) -> list[str]:
    """Return filters each of which matches that share of the events, one of `SELECTIVITIES`.

    0.1 %: one symbol of 500, and half of its prices. 2 %: a fifth of the prices, and a tenth of the
    volumes.
    """
    rng = random.Random(FILTERS_SEED)
    narrow = selectivity == SELECTIVITIES[0]
    return [_of_a_symbol(rng) if narrow else _of_ranges(rng) for _ in range(count)]


def distinct_filters(count: int) -> list[str]:
    """Return filters of 0.1 % selectivity, no two alike."""
    rng = random.Random(FILTERS_SEED)
    lows = [500 * number / count for number in rng.sample(range(count), count)]
    symbols = [rng.randrange(SYMBOLS) for _ in range(count)]
    return [
        f"symbol = 'S{symbol:03d}' AND price BETWEEN {low:.6f} AND {low + 500:.6f}"
        for symbol, low in zip(symbols, lows, strict=True)
    ]


def _of_a_symbol(rng: random.Random) -> str:
    low = rng.uniform(0, 500)
    symbol = rng.randrange(SYMBOLS)
    return f"symbol = 'S{symbol:03d}' AND price BETWEEN {low:.2f} AND {low + 500:.2f}"


def _of_ranges(rng: random.Random) -> str:
    low, least = rng.uniform(0, 800), rng.randrange(VOLUMES * 9 // 10)
    return (
        f"price BETWEEN {low:.2f} AND {low + 200:.2f} "
        f"AND volume BETWEEN {least} AND {least + VOLUMES // 10}"
    )
