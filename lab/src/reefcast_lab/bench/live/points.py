"""The loads that are measured, called points, and the plans made of them.

The usual plan varies one dimension at a time around a base point: all combinations take hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, TypeVar

from reefcast.errors import ConfigurationError
from reefcast_lab.bench import quotes

T = TypeVar("T")

FANOUTS = (1, 5, 10, 50, 1000)
PAYLOADS = (32, 1024, 65536)
ATTRIBUTES = (3, 50)
OTHERS = (1_000, 10_000, 100_000)
OTHER_CONNECTIONS = 10
CHAIN = 3
DIRECT, TUNNEL, TLS = "direct", "tunnel", "tls"
SAID = {TUNNEL: "through a tunnel", TLS: "with TLS"}
"""The ways of a load other than the direct one."""
GRANTED = (1, 10)
MOST = {
    "brokers": 10,
    "fanout": 5_000,
    "payload": 4_000_000,
    "attributes": 1_000,
    "others": 1_000_000,
    "grants": 1,
    "scraped": 1,
}


@dataclass(frozen=True, slots=True)
class Point:
    """`fanout`: connections that want everything. `payload`: bytes of each event's payload;
    `attributes`: beside it. `others`: narrow subscriptions that share `OTHER_CONNECTIONS` more
    connections; each matches the share `selectivity` of the events. `brokers`: how many stand one
    behind the other; the publisher is at the first, all subscribers at the last. `way`: how the
    load gets to them: directly, through a tunnel, or through a tunnel that speaks TLS with
    them. `grants`: 1 if all clients have a role that allows just this, which brokers check
    (`granted`). `scraped`: 1 if they have admin listeners that are scraped every second
    (`scraped`)."""

    fanout: int = 1
    payload: int = 0
    attributes: int = quotes.ATTRIBUTES
    others: int = 0
    selectivity: float = quotes.SELECTIVITIES[0]
    brokers: int = 1
    way: str = DIRECT
    grants: int = 0
    scraped: int = 0

    def __str__(self) -> str:
        parts = [f"fan-out {self.fanout}", f"{self.others:,} other subscriptions"]
        if self.others:
            parts[1] += f" of {self.selectivity:.1%}"
        if self.payload:
            parts.append(f"payload of {self.payload:,} bytes")
        if self.attributes != quotes.ATTRIBUTES:
            parts.append(f"{self.attributes} attributes")
        if self.brokers > 1:
            parts.append(f"chain of {self.brokers} brokers")
        if self.way != DIRECT:
            parts.append(SAID[self.way])
        if self.grants:
            parts.append("within grants")
        if self.scraped:
            parts.append("scraped every second")
        return ", ".join(parts)

    @property
    def connections(self) -> int:
        """Connections that receive."""
        return self.fanout + (OTHER_CONNECTIONS if self.others else 0)

    @property
    def topic_load(self) -> Point:
        """The point that is the same load for a broker without conditions, which sends everything
        to the others, however many filters they have."""
        return replace(self, others=min(self.others, 1), selectivity=quotes.SELECTIVITIES[0])

    def filters(self) -> list[list[str]]:
        """Return the filters of each connection that receives."""
        wide = [[quotes.EVERYTHING] for _ in range(self.fanout)]
        narrow = quotes.filters(self.others, self.selectivity)
        return wide + [narrow[i::OTHER_CONNECTIONS] for i in range(OTHER_CONNECTIONS) if narrow]


SECURED = (Point(), Point(fanout=10), Point(payload=1024))
"""The loads that the usual plan measures with and without TLS."""
PROFILED = (
    Point(),
    Point(others=10_000),
    Point(fanout=5),
    Point(fanout=10),
    Point(fanout=50),
)
"""The usual plan of a profile."""


def usual() -> list[Point]:
    """Return the usual plan: one dimension at a time around `Point()`, chains of brokers, pairs
    with and without TLS, and what grants cost."""
    points = [
        *PROFILED,
        *(Point(fanout=fanout) for fanout in FANOUTS),
        *(Point(payload=payload) for payload in PAYLOADS),
        *(Point(attributes=attributes) for attributes in ATTRIBUTES),
        *_beside_others(Point()),
        Point(brokers=CHAIN),
        Point(fanout=10, brokers=CHAIN),
        *(replace(point, way=way) for point in SECURED for way in (TUNNEL, TLS)),
        *(Point(fanout=fanout, grants=1) for fanout in GRANTED),
    ]
    return list(dict.fromkeys(points))


def full() -> list[Point]:
    """Return all combinations of the sizes."""
    plain = [Point(*sizes) for sizes in product(FANOUTS, PAYLOADS, ATTRIBUTES)]
    return [each for point in plain for each in (point, *_beside_others(point))]


def _beside_others(point: Point) -> Iterator[Point]:
    for selectivity in quotes.SELECTIVITIES:
        for others in OTHERS:
            yield replace(point, others=others, selectivity=selectivity)


def parse(text: str) -> Point:
    """Read a point from `NAME=NUMBER,...`; what is not named is as in the base point."""
    point = Point()
    for part in filter(None, text.split(",")):
        name, _, value = (side.strip() for side in part.partition("="))
        point = replace(point, **{name: _number(name, value, text)})
    return point


def _number(name: str, value: str, text: str) -> Any:
    known = [field.name for field in fields(Point)]
    if name not in known:
        raise ConfigurationError(f"{text!r}: a point has {', '.join(known)}, but no {name!r}")
    if name == "way":
        return _one_of(str, value, text, (DIRECT, TUNNEL, TLS))
    if name == "selectivity":
        return _one_of(float, value, text, quotes.SELECTIVITIES)
    lowest = {"fanout": 1, "brokers": 1, "attributes": min(ATTRIBUTES)}.get(name, 0)
    return _one_of(int, value, text, range(lowest, MOST[name] + 1))


def _one_of(read: Callable[[str], T], value: str, text: str, allowed: Sequence[T]) -> T:
    try:
        if (number := read(value)) in allowed:
            return number
    except ValueError:
        pass
    some = (
        f"{allowed[0]} to {allowed[-1]}"
        if isinstance(allowed, range)
        else " or ".join(map(str, allowed))
    )
    raise ConfigurationError(f"{text!r}: {value!r} must be {some}")
