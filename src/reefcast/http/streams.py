"""Server-sent events (HTML Standard, section 9.2), and what their ids say.

Rules
-----
- The id of an event of a durable session says which positions of its queue this stream has brought
  and nobody has acknowledged since, as ranges: `3-9,12`. So a program that comes back with the last
  id that it saw (Last-Event-ID) acknowledges exactly what it had, at whatever broker it comes back,
  and whoever else consumed the session meanwhile.
- Other events have their own id, by which nothing is resumed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reefcast.http.problems import refused

EVENT_STREAM = "text/event-stream"
MOST_POSITIONS = 65_536
_RANGES = re.compile(r"\d{1,18}(-\d{1,18})?(,\d{1,18}(-\d{1,18})?)*", re.ASCII)
KEEP_ALIVE = b": still here\n\n"


def event_bytes(data: bytes, *, id: str = "", name: str = "") -> bytes:
    """Return an event of a stream. `data`: one line."""
    head = f"event: {name}\n" if name else ""
    if id:
        head += f"id: {id}\n"
    return b"%sdata: %s\n\n" % (head.encode(), data)


def positions_text(positions: Iterable[int]) -> str:
    """Return ascending positions as ranges."""
    ranges: list[list[int]] = []
    for position in positions:
        if ranges and position == ranges[-1][1] + 1:
            ranges[-1][1] = position
        else:
            ranges.append([position, position])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


def positions_in(text: str) -> list[int]:
    """Return the positions that the id of an event says. Raises `HttpError` for one that says
    none."""
    if not text.strip():
        return []
    where = "header Last-Event-ID"
    if len(text) > 1 << 16 or not _RANGES.fullmatch(text.strip()):
        said = f"{text[:40]!r} is no id of an event of a session; such ids are like 3-9,12"
        raise refused(400, "invalid", said, where=where)
    positions: dict[int, None] = {}
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        a, b = int(first), int(last or first)
        if a < 1 or b < a or b - a + len(positions) >= MOST_POSITIONS:
            said = f"the id names {part[:40]!r}, which are no positions, or too many"
            raise refused(400, "invalid", said, where=where)
        positions |= dict.fromkeys(range(a, b + 1))
    return list(positions)
