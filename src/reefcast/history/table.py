"""The routes of a broker to storages: how far they are, and over which link.

Rules (distance vectors with sequence numbers, as DSDV has them)
-----
- Each storage's number for a topic comes from its own broker, and is even while it can be reached.
- A newer number wins; of equal numbers the nearer route. All other neighbours are told of a change.
- A broker that loses the route (a link went down) makes the number odd, and tells its neighbours;
  the storage's own broker answers with the next even number. A withdrawal is an odd number that
  nobody answers. So no broker ever follows an outdated route, whatever the overlay.

Source: section 3 of `papers/storing-replication.txt`, which keeps only the nearest storages; with a
withdrawal the farther ones are forgotten there, for good. Perkins and Bhagwat, "Highly dynamic
destination-sequenced distance-vector routing" (1994). Costs: a message for each link and change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from reefcast.history.messages import FARTHEST, Part, Stored
from reefcast.model.messages import LinkName
from reefcast.model.patterns import topic_pattern_covers, topic_patterns_meet
from reefcast.routing.tables import Cell, TableView

Key = tuple[str, str]
"""Topic, storage."""


class Route(NamedTuple):
    """A route to a storage: `link` is a neighbour, or the storage itself."""

    seq: int
    distance: int
    link: LinkName

    @property
    def open(self) -> bool:
        return self.seq % 2 == 0


class StorageTable(TableView[Key]):
    """The storages that one broker knows. `routes`: to storages, also to closed ones, for their
    numbers. `names`: the storages' names in the network file, "" or nothing for those that are in
    none."""

    name = "storages"
    columns = ("topic", "storage", "distance", "link", "name")

    def __init__(self) -> None:
        self.routes: dict[Key, Route] = {}
        self.names: dict[str, str] = {}
        self._spread: dict[Key, int] = {}

    # --- what changes it --------------------------------------------------------------------------

    def heard(self, stored: Stored, link: LinkName) -> bool:
        """Update the table by what a neighbour tells; return whether it is news."""
        key, distance = (stored.topic, stored.storage), min(stored.distance + 1, FARTHEST)
        known = self.routes.get(key)
        if known is not None and (
            stored.seq < known.seq
            or (stored.seq == known.seq and not (known.open and distance < known.distance))
        ):
            return False
        self.routes[key] = Route(stored.seq, distance, link)
        self.names[stored.storage] = stored.name
        return True

    def opened(self, key: Key, link: LinkName) -> None:
        """Open the route to a storage that is a client of this broker."""
        known = self.routes.get(key)
        seq = 0 if known is None else known.seq
        self.routes[key] = Route(seq + 2 - seq % 2, 0, link)

    def closed(self, key: Key) -> None:
        """Close the route to a storage that is no longer a client here, or to which no route
        leads."""
        known = self.routes[key]
        self.routes[key] = Route(known.seq + 1, FARTHEST, known.link)

    def by(self, link: LinkName) -> list[Key]:
        """Return the open routes over this link."""
        return [key for key, route in self.routes.items() if route.open and route.link == link]

    def news(self, key: Key) -> Stored:
        """Return the message that tells neighbours of a route."""
        route = self.routes[key]
        topic, storage = key
        name = self.names.get(storage, "")
        return Stored(
            topic=topic, storage=storage, seq=route.seq, distance=route.distance, name=name
        )

    # --- who answers ------------------------------------------------------------------------------

    def next_link(self, storage: str) -> LinkName | None:
        """Return the link towards a storage; None if no route leads there."""
        routes = [
            route for (_, name), route in self.routes.items() if name == storage and route.open
        ]
        return min(routes, key=lambda route: route.distance).link if routes else None

    def parts(
        self, topics: Iterable[str], but: str = "", *, every: bool = False
    ) -> tuple[list[Part], list[str]]:
        """Return which storages to ask about these topics (names or patterns), and the topics that
        nobody stores. `but`: the storage that asks, and need not ask itself; `every`: ask all that
        have something of them."""
        asked: dict[str, list[str]] = {}
        missing = []
        for topic in topics:
            is_open = [key for key, route in self.routes.items() if route.open and key[1] != but]
            found = (_all_of if every else self._nearest_of)(topic, is_open)
            if not found:
                missing.append(topic)
            for storage, about in found:
                known = asked.setdefault(storage, [])
                if about not in known:
                    known.append(about)
        parts = [
            Part(storage, self._distance(storage), tuple(about)) for storage, about in asked.items()
        ]
        return sorted(parts, key=lambda part: part.storage), missing

    def _nearest_of(self, topic: str, is_open: Sequence[Key]) -> list[tuple[str, str]]:
        """Return the nearest storage that has all of the topic; else, for a pattern, the nearest
        one of each topic that it may mean."""
        whole = [key for key in is_open if topic_pattern_covers(key[0], topic)]
        if whole:
            return [(self._nearest(whole, topic), topic)]
        some: dict[str, list[Key]] = {}
        for key in is_open:
            if topic_patterns_meet(topic, key[0]):
                some.setdefault(key[0], []).append(key)
        return [(self._nearest(keys, stored), stored) for stored, keys in some.items()]

    def _nearest(self, keys: list[Key], topic: str) -> str:
        """Return the nearest storage, and of equally near ones each in its turn."""
        least = min(self.routes[key].distance for key in keys)
        near = sorted({key[1] for key in keys if self.routes[key].distance == least})
        turn = self._spread[topic, ""] = self._spread.get((topic, ""), -1) + 1
        return near[turn % len(near)]

    def _distance(self, storage: str) -> int:
        return min(w.distance for key, w in self.routes.items() if key[1] == storage and w.open)

    # --- what can be seen -------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(route.open for route in self.routes.values())

    def __iter__(self) -> Iterator[Key]:
        yield from sorted(key for key, route in self.routes.items() if route.open)

    def describe(self, row: Key) -> tuple[Cell, ...]:
        route = self.routes[row]
        return (*row, route.distance, route.link, self.names.get(row[1], ""))


def _all_of(topic: str, is_open: Sequence[Key]) -> list[tuple[str, str]]:
    """Return each storage that has some of the topic, and what that is."""
    return [
        (storage, topic if topic_pattern_covers(stored, topic) else stored)
        for stored, storage in sorted(is_open)
        if topic_patterns_meet(topic, stored)
    ]
