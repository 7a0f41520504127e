"""What a broker and its neighbours have to tell each other of retained values.

Rules
-----
- What is new goes to all neighbours but the one it came from: at most once per link and version in
  each direction.
- When a link comes up without memory, its two ends compare digests (`Compare`). Each sends the
  other what it has in the parts that differ, `WINDOW` messages ahead of the answers (`Took`), so
  that a million values neither fill a queue nor keep a link from other messages. What comes
  meanwhile from elsewhere follows the first rule.
- A broker that has nothing says nothing before it is asked: where nobody retains anything, nothing
  is exchanged.

Costs: `Compare` has 2 KiB. Two brokers that differ in one key of a hundred thousand exchange a
256th of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from reefcast.model.messages import LinkName, Send
from reefcast.retaining.messages import Compare, Entry, Spread, Took
from reefcast.retaining.values import LastValues

WINDOW = 4
MOST_ENTRIES = 1000
MOST_BYTES = 256 * 1024
"""In one message, but for an entry that has more by itself."""


class _Outgoing:
    """Keys whose entries are still to be sent in an exchange."""

    __slots__ = ("keys", "number")

    def __init__(self, number: int, keys: Iterable[bytes]) -> None:
        self.number = number
        self.keys = deque(keys)


class Exchange:
    """The neighbours of one broker that has these `values`."""

    def __init__(self, values: LastValues) -> None:
        self._values = values
        self._links: list[LinkName] = []
        self._early: dict[LinkName, Compare] = {}
        self._compared: set[LinkName] = set()
        self._outgoing: dict[LinkName, _Outgoing] = {}
        self._last = 0

    # --- links ------------------------------------------------------------------------------------

    def up(self, link: LinkName) -> list[Send]:
        """Handle a neighbour without memory of this broker."""
        if link not in self._links:
            self._links.append(link)
        self._compared.discard(link)
        self._outgoing.pop(link, None)
        sends = self._compare(link) if len(self._values) else []
        early = self._early.pop(link, None)
        return sends + (self.compared(early, link) if early is not None else [])

    def down(self, link: LinkName) -> None:
        """Handle a link that is gone, or no link of the overlay any more."""
        if link in self._links:
            self._links.remove(link)
        self._compared.discard(link)
        self._outgoing.pop(link, None)
        self._early.pop(link, None)

    def _compare(self, link: LinkName) -> list[Send]:
        self._compared.add(link)
        return [Send(link, Compare(digests=self._values.digests()))]

    # --- what is new ------------------------------------------------------------------------------

    def spread(
        self, entries: Sequence[Entry], came_by: LinkName = "", *, late: bool = False
    ) -> list[Send]:
        """Tell the neighbours of what is new."""
        if not entries:
            return []
        message = Spread(entries=tuple(entries), late=late)
        return [Send(link, message) for link in self._links if link != came_by]

    # --- what is old ------------------------------------------------------------------------------

    def compared(self, message: Compare, link: LinkName) -> list[Send]:
        """Handle what a neighbour has."""
        if link not in self._links:  # it will be: the other end has promoted it before this one
            self._early[link] = message
            return []
        sends = [] if link in self._compared else self._compare(link)
        self._last += 1
        self._outgoing[link] = _Outgoing(self._last, self._values.differing(message.digests))
        for _ in range(WINDOW):
            sends += self._next(link)
        return sends

    def took(self, message: Took, link: LinkName) -> list[Send]:
        """Handle that a neighbour has room for more."""
        outgoing = self._outgoing.get(link)
        if outgoing is None or outgoing.number != message.exchange:
            return []
        return self._next(link)

    def _next(self, link: LinkName) -> list[Send]:
        """Return the next message of an exchange, none if it is over."""
        outgoing = self._outgoing.get(link)
        if outgoing is None:
            return []
        entries = next_entries(self._values, outgoing.keys)
        if not outgoing.keys:
            del self._outgoing[link]
        if not entries:
            return []
        message = Spread(entries=tuple(entries), late=True, exchange=outgoing.number)
        return [Send(link, message)]


def next_entries(values: LastValues, keys: deque[bytes]) -> list[Entry]:
    """Remove keys until their entries fill a message, and return these."""
    entries: list[Entry] = []
    size = 0
    while keys and len(entries) < MOST_ENTRIES:
        entry = values.get(keys[0])
        if entry is None:
            keys.popleft()
            continue
        size += len(entry.key) + len(entry.body)
        if entries and size > MOST_BYTES:
            break
        entries.append(entry)
        keys.popleft()
    return entries
