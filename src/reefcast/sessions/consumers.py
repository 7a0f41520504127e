"""The consumers of a session: who gets the next event.

Consumers with the same filter of their own, or none, share a *lane*: an event that the session owes
goes to one of them, the one with the most room in its window (of several the one that has waited
longest). Each lane looks at the queue by itself, in the order of positions, so that events that
match nobody's filter stop nobody. What comes back from a consumer has a low position, and so comes
before all that is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reefcast.model.filters import Filter
from reefcast.model.keeping import Position
from reefcast.model.wire import decode_publication
from reefcast.sessions.events import Entry
from reefcast.sessions.lines import Heap, Line, is_not_ready
from reefcast.sessions.outcome import ConsumerName


class Consumer:
    """`window`: how many events it may have that it has not acknowledged; `out`: those that it has,
    in the order in which they were handed out. `turn`: when it came, or got its last event."""

    __slots__ = ("lane", "name", "out", "turn", "window")

    def __init__(self, name: ConsumerName, window: int, lane: Lane, turn: int) -> None:
        self.name = name
        self.window = window
        self.lane = lane
        self.out: dict[Position, Entry] = {}
        self.turn = turn

    @property
    def room(self) -> int:
        """How many more events it may have now."""
        return self.window - len(self.out)


class Lane:
    """What consumers with the same filter have not looked at yet. `entries`: the queue as it is."""

    def __init__(self, filter: Filter | None, entries: Iterable[Entry]) -> None:
        self.filter = filter
        self.consumers: list[Consumer] = []
        self._fresh = Line(is_not_ready, entries)
        self._returned = Heap(is_not_ready)

    def append(self, entry: Entry) -> None:
        """Take a new entry, behind all others."""
        self._fresh.append(entry)

    def give_back(self, entry: Entry) -> None:
        """Take an entry that is ready again."""
        self._returned.push(entry.position, entry)

    def first(self) -> Entry | None:
        """Return the first entry that is ready; it stays until it is not ready any more."""
        returned, fresh = self._returned.first(), self._fresh.first()
        if returned is not None and (fresh is None or returned[1].position <= fresh.position):
            return returned[1]
        return fresh

    def pop(self, entry: Entry) -> None:
        """Remove the entry that `first` has returned."""
        returned, fresh = self._returned.first(), self._fresh.first()
        if returned is not None and returned[1] is entry:
            self._returned.pop()
        if fresh is entry:
            self._fresh.pop()

    def next(self, most: int) -> Iterator[Entry]:
        """Yield some `most` of the entries that come next, without order."""
        for line in (self._returned, self._fresh):
            for count, entry in enumerate(line):
                if count == most:
                    break
                yield entry

    def wants(self, entry: Entry) -> bool:
        """Return whether an entry, whose body is in memory, matches the lane's filter."""
        if self.filter is None:
            return True
        assert entry.event.body is not None
        return self.filter.matches(decode_publication(entry.event.body))

    def freest(self) -> Consumer | None:
        """Return the consumer that gets the next event; None if no window has room."""
        best = max(self.consumers, key=lambda each: (each.room, -each.turn), default=None)
        return best if best is not None and best.room > 0 else None


class Consumers:
    """All consumers of one session. `window`: how many events they may have together."""

    __slots__ = (
        "_turn",
        "by_name",
        "lanes",
        "window",
    )

    def __init__(self) -> None:
        self.by_name: dict[ConsumerName, Consumer] = {}
        self.lanes: list[Lane] = []
        self.window = 0
        self._turn = 0

    def add(
        self, name: ConsumerName, window: int, filter: Filter | None, ready: Iterable[Entry]
    ) -> None:
        """Add a consumer; `ready`: the entries that are, by position."""
        for lane in self.lanes:
            if lane.filter == filter:
                break
        else:
            lane = Lane(filter, ready)
            self.lanes.append(lane)
        self._turn += 1
        consumer = self.by_name[name] = Consumer(name, window, lane, self._turn)
        lane.consumers.append(consumer)
        self.window += window

    def resize(self, consumer: Consumer, window: int) -> None:
        """Change a consumer's window."""
        self.window += window - consumer.window
        consumer.window = window

    def remove(self, name: ConsumerName) -> Consumer:
        """Remove a consumer; what it has is the caller's."""
        consumer = self.by_name.pop(name)
        self.window -= consumer.window
        consumer.lane.consumers.remove(consumer)
        if not consumer.lane.consumers:
            self.lanes.remove(consumer.lane)
        return consumer

    def freest(self, lanes: Iterable[Lane]) -> Consumer | None:
        """Return the consumer in these lanes with the most room; None if there is no room."""
        found = [each for lane in lanes if (each := lane.freest()) is not None]
        return max(found, key=lambda each: (each.room, -each.turn), default=None)

    def hand_over(self, entry: Entry, consumer: Consumer) -> None:
        """Note that a consumer has the entry."""
        self._turn += 1
        consumer.turn = self._turn
        consumer.out[entry.position] = entry

    def holder(self, entry: Entry) -> Consumer | None:
        """Return the consumer that has an entry."""
        for consumer in self.by_name.values():
            if consumer.out.get(entry.position) is entry:
                return consumer
        return None

    def append(self, entry: Entry) -> None:
        """Let all lanes know a new entry."""
        for lane in self.lanes:
            lane.append(entry)

    def give_back(self, entry: Entry) -> None:
        """Let all lanes know an entry that is ready again."""
        for lane in self.lanes:
            lane.give_back(entry)
