"""The slow, obvious twin of a session: a list, gone through from the beginning each time.

It has no disk: everything is synced at once. Every call returns what is handed out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from reefcast.model.filters import parse_filter
from reefcast.model.keeping import SessionOptions
from reefcast.model.publication import Publication, PublicationId

Handed = tuple[str, int, PublicationId, int, bool]
"""Consumer, position, id, how often it was handed out, and whether it may be late."""


@dataclass(slots=True)
class Item:
    position: int
    publication: Publication
    size: int
    at_s: float
    late: bool
    tries: int = 0
    holder: str = ""
    out_s: float = 0.0
    ready_s: float = 0.0


@dataclass(slots=True)
class Taker:
    window: int
    filter: str
    turn: int


@dataclass(slots=True)
class TwinSession:
    """The twin of one session. `seen`: the ids that it has had, the last one at `had_s`: all are of
    one publisher and close together, and so are forgotten together. `waiting`: publications without
    room."""

    options: SessionOptions
    dedup_s: float
    now: float = 0.0
    items: list[Item] = field(default_factory=list)
    dead: list[Item] = field(default_factory=list)
    waiting: list[tuple[Publication, int]] = field(default_factory=list)
    seen: set[PublicationId] = field(default_factory=set)
    had_s: float = 0.0
    takers: dict[str, Taker] = field(default_factory=dict)
    last: int = 0
    turn: int = 0
    dropped: int = 0
    taken: list[PublicationId] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    # --- publications ----------------------------------------------------------------------------

    def owe(self, publication: Publication, size: int) -> str:
        """Owe a publication; return "" if it was taken, else "refused" or "blocked"."""
        if publication.id in self.seen:
            return ""
        if publication.id in [each.id for each, _ in self.waiting]:
            return "blocked"
        if self._is_over(publication):
            self.dropped += 1
            return ""
        if self.waiting or not self._has_room(size):
            if self.options.policy == "block" and size <= self.options.max_bytes:
                self.waiting.append((publication, size))
                return "blocked"
            if self.options.policy != "drop_oldest":
                return "refused"
            while self.items and not self._has_room(size):
                self._drop(self.items[0])
            if size > self.options.max_bytes:
                self.dropped += 1
                return ""
        self._take(publication, size)
        return ""

    def _is_over(self, publication: Publication) -> bool:
        seconds = publication.attributes.get("$expires_s")
        return seconds is not None and publication.time_us / 1e6 + seconds <= self.now

    def _has_room(self, size: int) -> bool:
        held = sum(each.size for each in self.items)
        return len(self.items) < self.options.max_events and held + size <= self.options.max_bytes

    def _take(self, publication: Publication, size: int) -> None:
        self.last += 1
        self.seen.add(publication.id)
        self.had_s = self.now
        late = self.now - publication.time_us / 1e6 > self.dedup_s
        self.items.append(Item(self.last, publication, size, self.now, late))

    def _drop(self, item: Item) -> None:
        self.items.remove(item)
        self.dropped += 1

    def admit(self) -> None:
        while self.waiting:
            publication, size = self.waiting[0]
            if not self._has_room(size):
                return
            self.waiting.pop(0)
            if self._is_over(publication):
                self.dropped += 1
            else:
                self._take(publication, size)
            self.taken.append(publication.id)

    # --- consumers -------------------------------------------------------------------------------

    def attach(self, name: str, window: int, filter: str, *, alone: bool) -> None:
        for other in list(self.takers) if alone else ():
            self.detach(other)
        self.turn += 1
        self.takers[name] = Taker(window, filter, self.turn)

    def detach(self, name: str) -> None:
        del self.takers[name]
        for item in [each for each in self.items if each.holder == name]:
            self._back(item)

    def acknowledge(self, name: str, position: int, *, up_to: bool) -> None:
        for item in list(self.items):
            mine = up_to and item.holder == name and item.position <= position
            if item.position == position or mine:
                self.items.remove(item)

    def reject(self, name: str, position: int, delay_s: float) -> None:
        for item in [e for e in self.items if e.position == position and e.holder == name]:
            self._back(item, self.now + delay_s if delay_s else 0.0)

    def _back(self, item: Item, ready_s: float = 0.0) -> None:
        item.holder, item.ready_s = "", ready_s
        if self.options.max_deliveries and item.tries >= self.options.max_deliveries:
            self.items.remove(item)
            self.dead.append(item)
            self.dead.sort(key=lambda each: each.position)
            while len(self.dead) > self.options.max_dead_letters:
                del self.dead[0]
                self.dropped += 1

    def hand_out(self) -> list[Handed]:
        handed = []
        while (one := self._one()) is not None:
            handed.append(one)
        return handed

    def _one(self) -> Handed | None:
        def room(name: str) -> int:
            held = [each for each in self.items if each.holder == name]
            return self.takers[name].window - len(held)

        for name in sorted(self.takers, key=lambda n: (-room(n), self.takers[n].turn)):
            if room(name) <= 0:
                continue
            taker = self.takers[name]
            for item in self.items:
                free = not item.holder and not item.ready_s
                if free and self._matches(taker.filter, item.publication):
                    self.turn += 1
                    taker.turn = self.turn
                    item.holder, item.out_s = name, self.now
                    item.tries += 1
                    return name, item.position, item.publication.id, item.tries, item.late
        return None

    def _matches(self, filter: str, publication: Publication) -> bool:
        return not filter or parse_filter(filter).matches(publication)

    # --- time and operators ----------------------------------------------------------------------

    def due(self) -> None:
        if self.had_s + self.dedup_s <= self.now:
            self.seen.clear()
        for item in self.items:
            if item.ready_s and item.ready_s <= self.now:
                item.ready_s = 0.0
        overdue = [e for e in self.items if e.holder and self._is_overdue(e)]
        for item in overdue:
            self._back(item)
        for item in list(self.items):
            old = self.options.max_age_s and item.at_s + self.options.max_age_s <= self.now
            begun = self.options.expires == "fresh" and item.tries > 0
            if old or (self._is_over(item.publication) and not begun):
                self._drop(item)

    def _is_overdue(self, item: Item) -> bool:
        return item.out_s + self.options.ack_wait_s <= self.now

    def times(self) -> Iterable[float]:
        """Yield the times at which something is to happen."""
        for item in self.items:
            if item.holder:
                yield item.out_s + self.options.ack_wait_s
            if item.ready_s:
                yield item.ready_s
            if self.options.max_age_s:
                yield item.at_s + self.options.max_age_s
            seconds = item.publication.attributes.get("$expires_s")
            if seconds is not None:
                yield item.publication.time_us / 1e6 + seconds

    def note(self, notes: dict[str, str | None]) -> None:
        self.notes = {key: self.notes[key] for key in self.notes if key not in notes} | {
            key: text for key, text in notes.items() if text is not None
        }

    def drain(self) -> int:
        count = len(self.items)
        self.items.clear()
        return count

    def revive(self) -> int:
        count = len(self.dead)
        for item in self.dead:
            self.last += 1
            self.items.append(Item(self.last, item.publication, item.size, self.now, item.late))
        self.dead.clear()
        return count
