"""The loads that are measured, called points, and the plans made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from reefcast.errors import ConfigurationError

FANOUTS = (1, 5, 10, 50)
QUALITIES = (0, 1, 2)
PUBLISHERS = 50
WILDCARDS = 100_000
IDLE = (1_000, 10_000)
TOPIC_ONLY, JSON_READ, CONDITION = range(3)
SAID_OF_CONTENT = ("", "payloads read as JSON", "a condition on the content")
MOST = {
    "fanout": 1_000,
    "publishers": 1_000,
    "qos": 2,
    "others": 1_000_000,
    "content": CONDITION,
    "idle": 15_000,
}


@dataclass(frozen=True, slots=True)
class Point:
    """`fanout`: clients that want everything; `publishers`; `qos`: of all subscriptions and
    publications. `others`: further subscriptions, of which each third is an exact topic, one that
    ends with `+`, one that ends with `#`; each publication matches one of them. `content`: what the
    broker looks at beside the topic: nothing; a JSON object as payload, whose members become
    attributes; these, for a condition that all events meet. `idle`: connections over which nothing
    but pings goes; then there is no other load."""

    fanout: int = 1
    publishers: int = 1
    qos: int = 0
    others: int = 0
    content: int = TOPIC_ONLY
    idle: int = 0

    def __str__(self) -> str:
        if self.idle:
            return f"{self.idle:,} idle connections"
        parts = [f"{self.publishers} to {self.fanout}", f"QoS {self.qos}"]
        if self.others:
            parts.append(f"{self.others:,} other subscriptions")
        if self.content:
            parts.append(SAID_OF_CONTENT[self.content])
        return ", ".join(parts)

    @property
    def is_standard(self) -> bool:
        """Whether any MQTT broker can carry this load: none but ours looks at the content."""
        return self.content == TOPIC_ONLY

    @property
    def per_publication(self) -> int:
        """How many deliveries a publication has."""
        return self.fanout + (self.others > 0)


def usual() -> list[Point]:
    """Return a plan for two minutes."""
    return [
        *(Point(fanout=fanout) for fanout in FANOUTS),
        Point(publishers=PUBLISHERS),
        *(Point(fanout=fanout, qos=qos) for qos in QUALITIES[1:] for fanout in (1, 5)),
        Point(fanout=0, others=WILDCARDS // 10),
        *(Point(content=content) for content in (JSON_READ, CONDITION)),
        Point(idle=IDLE[0]),
    ]


def full() -> list[Point]:
    """Return all that the page shows."""
    return list(dict.fromkeys(_full()))


def _full() -> Iterator[Point]:
    for qos in QUALITIES:
        yield from (Point(fanout=fanout, qos=qos) for fanout in FANOUTS)
        yield Point(publishers=PUBLISHERS, qos=qos)
    yield Point(fanout=0, others=WILDCARDS)
    for content in (TOPIC_ONLY, JSON_READ, CONDITION):
        yield Point(content=content)
        yield Point(fanout=FANOUTS[-1], content=content)
    yield from (Point(idle=idle) for idle in IDLE)


def parse(text: str) -> Point:
    """Read a point from `NAME=NUMBER,...`; what is not named is as in `Point()`. Raises
    `ConfigurationError`."""
    point = Point()
    for part in filter(None, text.split(",")):
        name, _, value = (side.strip() for side in part.partition("="))
        if name not in MOST:
            known = ", ".join(field.name for field in fields(Point))
            raise ConfigurationError(f"{text!r}: a point has {known}, but no {name!r}")
        if not (value.isascii() and value.isdigit() and int(value) <= MOST[name]):
            raise ConfigurationError(f"{text!r}: {value!r} must be 0 to {MOST[name]:,}")
        point = replace(point, **{name: int(value)})
    if not point.idle and not (point.publishers and point.per_publication):
        raise ConfigurationError(f"{text!r}: nobody publishes, or nobody gets it")
    return point
