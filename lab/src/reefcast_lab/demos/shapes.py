"""Shapes of filters that people write about flights; the numbers come from the data.

Each template is a function of the data's statistics and a random generator and returns a filter and
the destination that it is about, or None. Most are selective: together about one event in a hundred
matches a subscription.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from reefcast_lab.demos.statistics import Statistics

Drawn = tuple[str, str | None]
Template = Callable[[Statistics, random.Random], Drawn]


def text(value: str) -> str:
    """Return a string literal of the filter language."""
    return "'" + value.replace("'", "''") + "'"


def number(value: float) -> str:
    """Return a number as people write it: whole numbers without a fraction, others with one
    digit."""
    rounded = round(value, 1)
    return str(int(rounded)) if rounded == int(rounded) else str(rounded)


def above(data: Statistics, rng: random.Random, name: str, low: int, high: int) -> str:
    """Return `name > x`, with x between the percentiles `low` and `high`."""
    return f"{name} > {number(data.quantile(name, rng.randint(low, high)))}"


def band(data: Statistics, rng: random.Random, name: str, width: int) -> str:
    """Return `name BETWEEN x AND y` with about `width` percent of the events between them."""
    start = rng.randint(0, 100 - width)
    low, high = data.quantile(name, start), data.quantile(name, start + width)
    return f"{name} BETWEEN {number(low)} AND {number(high)}"


def late_to(data: Statistics, rng: random.Random) -> Drawn:
    dest = data.draw("dest", rng)
    return f"dest = {text(dest)} AND {above(data, rng, 'dep_delay', 40, 97)}", dest


def carriers_by_distance(data: Statistics, rng: random.Random) -> Drawn:
    carriers = sorted({data.draw("carrier", rng) for _ in range(2)})
    return (
        f"carrier IN ({', '.join(map(text, carriers))}) AND {band(data, rng, 'distance', 10)}",
        None,
    )


def rough_weather(data: Statistics, rng: random.Random) -> Drawn:
    origin = data.draw("origin", rng)
    limit = rng.choice((2, 3, 5))
    return (
        f"origin = {text(origin)} AND {above(data, rng, 'wind_speed', 70, 95)} "
        f"AND NOT (visib >= {limit})",
        None,
    )


def cancelled(data: Statistics, rng: random.Random) -> Drawn:
    dest = data.draw("dest", rng)
    return f"dep_time IS NULL AND dest = {text(dest)}", dest


def strange_plane(data: Statistics, rng: random.Random) -> Drawn:
    carrier = data.draw("carrier", rng)
    return (
        f"plane_year IS NULL AND carrier = {text(carrier)} AND {band(data, rng, 'distance', 10)}",
        None,
    )


def one_of_two(data: Statistics, rng: random.Random) -> Drawn:
    first, second = data.draw("dest", rng), data.draw("dest", rng)
    late = above(data, rng, "arr_delay", 50, 97)
    return f"(dest = {text(first)} OR dest = {text(second)}) AND {late}", first


def very_late(data: Statistics, rng: random.Random) -> Drawn:
    carrier = data.draw("carrier", rng)
    departed, arrived = (above(data, rng, n, 90, 98) for n in ("dep_delay", "arr_delay"))
    return f"carrier = {text(carrier)} AND ({departed} OR {arrived})", None


def made_up_time(data: Statistics, rng: random.Random) -> Drawn:
    dest = data.draw("dest", rng)
    gained = rng.choice((10, 15, 20))
    return f"dest = {text(dest)} AND dep_delay > arr_delay + {gained} AND dep_delay > 0", dest


def lost_time(data: Statistics, rng: random.Random) -> Drawn:
    dest, origin = data.draw("dest", rng), data.draw("origin", rng)
    return (
        f"arr_delay > dep_delay AND dest = {text(dest)} AND origin = {text(origin)} "
        f"AND {band(data, rng, 'sched_dep_time', 40)}",
        dest,
    )


def fast(data: Statistics, rng: random.Random) -> Drawn:
    dest = data.draw("dest", rng)
    miles_per_minute = rng.choice((7, 7.5, 8, 8.2))
    return f"dest = {text(dest)} AND distance / air_time > {number(miles_per_minute)}", dest


def kind_of_plane(data: Statistics, rng: random.Random) -> Drawn:
    dest, family = data.draw("dest", rng), data.draw("model", rng).split("-")[0]
    return f"model LIKE {text(family + '%')} AND dest = {text(dest)}", dest


def registration(data: Statistics, rng: random.Random) -> Drawn:
    tail, origin = data.draw("tailnum", rng), data.draw("origin", rng)
    return (
        f"tailnum LIKE {text(tail[:3] + '%')} AND origin = {text(origin)} "
        f"AND {band(data, rng, 'hour', 20)}",
        None,
    )


def one_plane(data: Statistics, rng: random.Random) -> Drawn:
    return f"tailnum = {text(data.draw('tailnum', rng))}", None


def one_flight(data: Statistics, rng: random.Random) -> Drawn:
    flight, carrier = data.draw("flight", rng), data.draw("carrier", rng)
    return f"carrier = {text(carrier)} AND flight = {flight}", None


def big_plane_in_gusts(data: Statistics, rng: random.Random) -> Drawn:
    maker = data.draw("manufacturer", rng, top=6)
    return (
        f"manufacturer = {text(maker)} AND {above(data, rng, 'seats', 50, 95)} "
        f"AND {above(data, rng, 'wind_gust', 60, 95)}",
        None,
    )


def cold_morning(data: Statistics, rng: random.Random) -> Drawn:
    carrier, origin = data.draw("carrier", rng), data.draw("origin", rng)
    hour = rng.randint(5, 9)
    cold = number(data.quantile("temp", rng.randint(10, 50)))
    return (
        f"carrier = {text(carrier)} AND origin = {text(origin)} AND hour BETWEEN {hour} AND "
        f"{hour + 2} AND temp < {cold} AND {above(data, rng, 'dep_delay', 50, 90)}",
        None,
    )


def wet_and_old(data: Statistics, rng: random.Random) -> Drawn:
    year = number(data.quantile("plane_year", rng.randint(5, 40)))
    skipped = sorted({data.draw("carrier", rng) for _ in range(2)})
    dest = data.draw("dest", rng)
    return (
        f"plane_year <= {year} AND carrier NOT IN ({', '.join(map(text, skipped))}) "
        f"AND dest = {text(dest)} AND (precip > 0 OR {above(data, rng, 'humid', 70, 95)})",
        dest,
    )


def on_a_route(data: Statistics, rng: random.Random) -> Drawn:
    origin, dest = data.draw("origin", rng), data.draw("dest", rng)
    return (
        f"origin = {text(origin)} AND dest = {text(dest)} AND carrier <> "
        f"{text(data.draw('carrier', rng))} AND {above(data, rng, 'dep_delay', 20, 90)}",
        dest,
    )


WEIGHTED: tuple[tuple[Template, int], ...] = (
    (late_to, 18),
    (on_a_route, 12),
    (made_up_time, 8),
    (one_of_two, 8),
    (kind_of_plane, 7),
    (lost_time, 6),
    (fast, 5),
    (cancelled, 5),
    (wet_and_old, 5),
    (carriers_by_distance, 5),
    (rough_weather, 5),
    (very_late, 4),
    (cold_morning, 4),
    (one_flight, 4),
    (one_plane, 4),
    (registration, 4),
    (big_plane_in_gusts, 3),
    (strange_plane, 3),
)

NUMBERS = (
    *("dep_delay", "arr_delay", "distance", "sched_dep_time", "hour", "temp", "humid"),
    *("wind_speed", "wind_gust", "seats", "plane_year"),
)
STRINGS = ("origin", "dest", "carrier", "flight", "tailnum", "manufacturer", "model")
"""The attributes whose statistics the templates use."""
