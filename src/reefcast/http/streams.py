"""Server-sent events (HTML Standard, section 9.2), and what their ids say.

Rules
-----
- The id of an event of a durable session says when the session was made, and which positions of
  its queue this stream has brought and nobody has acknowledged since, as ranges:
  `1795700000000000:3-9,12`. So a program that comes back with the last id that it saw
  (Last-Event-ID) acknowledges exactly what it had, at whatever broker it comes back, and whoever
  else consumed the session meanwhile; and nothing of another session of the same name.
- Other events have their own id, by which nothing is resumed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from reefcast.http.problems import refused

EVENT_STREAM = "text/event-stream"
MOST_POSITIONS = 65_536
_ID = re.compile(r"(\d{1,18}):(\d{1,18}(?:-\d{1,18})?(?:,\d{1,18}(?:-\d{1,18})?)*)", re.ASCII)
_BREAKS = re.compile(r"[\r\n\0]")
KEEP_ALIVE = b": still here\n\n"


def event_bytes(data: bytes, *, id: str = "", name: str = "") -> bytes:
    """Return an event of a stream. `data`: one line. An `id` that has breaks, since a publisher may
    call itself anything, gets U+FFFD in their place, so that it begins no line of its own."""
    head = f"event: {name}\n" if name else ""
    if id:
        id = id if id.isprintable() else _BREAKS.sub("\ufffd", id)
        head += f"id: {id}\n"
    return b"%sdata: %s\n\n" % (head.encode(), data)


class Positions:
    """A set of positions, which is told as ranges. Most come in their order."""

    def __init__(self, positions: Iterable[int] = ()) -> None:
        self._ranges: list[list[int]] = []
        for position in sorted(positions):
            self.add(position)

    def add(self, position: int) -> None:
        """Add a position."""
        ranges = self._ranges
        if ranges and position == ranges[-1][1] + 1:
            ranges[-1][1] = position
        elif not ranges or position > ranges[-1][1]:
            ranges.append([position, position])
        elif not any(first <= position <= last for first, last in ranges):
            all_of_them = [*self, position]
            ranges.clear()
            for each in sorted(all_of_them):
                self.add(each)

    def __iter__(self) -> Iterator[int]:
        for first, last in self._ranges:
            yield from range(first, last + 1)

    @property
    def text(self) -> str:
        """The positions as ranges."""
        return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in self._ranges)


def owed_id(life: int, positions: Positions) -> str:
    """Return the id of an event of a session that was made at `life`, in microseconds since
    1970."""
    return f"{life}:{positions.text}"


def positions_in(text: str, life: int) -> list[int]:
    """Return the positions that the id of an event says of the session that was made at `life`,
    none if it is of another one. Raises `HttpError` for what is no such id."""
    if not text.strip():
        return []
    where = "header Last-Event-ID"
    found = _ID.fullmatch(text.strip()) if len(text) <= 1 << 16 else None
    if found is None:
        said = f"{text[:40]!r} is no id of an event of a session; send one as it came"
        raise refused(400, "invalid", said, where=where)
    positions: dict[int, None] = {}
    for part in found[2].split(","):
        first, _, last = part.partition("-")
        a, b = int(first), int(last or first)
        if a < 1 or b < a or b - a + len(positions) >= MOST_POSITIONS:
            said = f"the id names {part[:40]!r}, which are no positions, or too many"
            raise refused(400, "invalid", said, where=where)
        positions |= dict.fromkeys(range(a, b + 1))
    return list(positions) if int(found[1]) == life else []
