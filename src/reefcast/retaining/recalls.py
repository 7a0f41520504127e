"""What clients ask of the retained values at their broker.

Rules
-----
- An answer has several messages, each for the next `SLICE` keys at most: a broker with a hundred
  thousand values answers others in between. The client asks for each (`RecallOn`), so nothing piles
  up for one that is slow.
- A *watch* is told of what was published before its time is over, whenever it comes: that may have
  passed before the subscription was there. Of later values it is told of those that come late,
  because this broker or a part of the network was cut off.
- What has changed since the question is answered as it is now; so is what the client may see.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from reefcast.errors import LocalError
from reefcast.matching import new_index
from reefcast.model.filters import Filter
from reefcast.model.grants import NOTHING, Grant
from reefcast.model.messages import LinkName, Send
from reefcast.model.wire import decode_publication, decode_publications
from reefcast.retaining.exchange import MOST_BYTES
from reefcast.retaining.messages import Entry, Recall, Recalled
from reefcast.retaining.values import LastValues

if TYPE_CHECKING:
    from reefcast.matching.index import CompiledIndex

SLICE = 1000
MANY = 300
"""Entries from which on an index is worth its making."""
MOST_RECALLS = 1000
"""Open questions of one client."""


class Matcher:
    """Finds the entries whose publications match a filter: a few by themselves, many in a call of a
    compiled index, which takes some milliseconds to make."""

    def __init__(self, filter: Filter) -> None:
        self._filter = filter
        self._index: CompiledIndex[int] | None = None

    def matching(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return those that have a value, and match."""
        valued = [entry for entry in entries if entry.body]
        if len(valued) < MANY:
            matches = self._filter.matches
            return [entry for entry in valued if matches(decode_publication(entry.body))]
        if self._index is None:
            self._index = new_index()
            self._index.add(0, self._filter)
        found = self._index.match_many(decode_publications([entry.body for entry in valued]))
        return [entry for entry, keys in zip(valued, found, strict=True) if keys]

    def rest(self) -> None:
        """Free what only many entries need."""
        self._index = None


class _Recall:
    """A question. `filter`: what it asks for; `keys`: those that are still to be looked at;
    `found`: what matches, and is still to be sent; `until_s`: until when it watches, 0 if it does
    not."""

    __slots__ = ("filter", "found", "keys", "matcher", "until_s")

    def __init__(
        self, filter: Filter, visible: Filter, keys: Iterable[bytes], until_s: float
    ) -> None:
        self.filter = filter
        self.matcher = Matcher(visible)
        self.keys = deque(keys)
        self.found: deque[Entry] = deque()
        self.until_s = until_s


class Recalls:
    """The questions of all clients of one broker that has these `values`. `_watches`: in the order
    in which they were asked, so that ten thousand that are over do not make each new value
    expensive; `_longest_s`: for how long one of them watches."""

    def __init__(self, values: LastValues) -> None:
        self._values = values
        self._open: dict[LinkName, dict[int, _Recall]] = {}
        self._watches: dict[tuple[LinkName, int], _Recall] = {}
        self._longest_s = 0.0
        self._grants: dict[LinkName, Grant] = {}

    def granted(self, client: LinkName, grant: Grant | None) -> None:
        """Note what a client may see from now on, in the answers to its open questions, too."""
        if grant is None:
            self._grants.pop(client, None)
        else:
            self._grants[client] = grant
        for recall in self._open.get(client, {}).values():
            try:
                visible = recall.filter if grant is None else grant.narrowed(recall.filter)
            except LocalError:
                visible = NOTHING
            recall.matcher = Matcher(visible)
            recall.found = deque(recall.matcher.matching(list(recall.found)))

    def begin(self, asked: Recall, filter: Filter, client: LinkName, now: float) -> list[Send]:
        """Begin an answer. Raises `LocalError` if the client has asked too much, or may see
        nothing."""
        its = self._open.setdefault(client, {})
        if len(its) >= MOST_RECALLS:
            raise LocalError(
                f"this client asks for retained values {MOST_RECALLS} times already: cancel some "
                "of its subscriptions"
            )
        until_s = now + asked.watch_s if asked.watch_s else 0.0
        grant = self._grants.get(client)
        visible = filter if grant is None else grant.narrowed(filter)
        recall = its[asked.token] = _Recall(filter, visible, self._values.keys(), until_s)
        if until_s:
            self._watches[client, asked.token] = recall
            self._longest_s = max(self._longest_s, asked.watch_s)
        return self.go_on(asked.token, client)

    def go_on(self, token: int, client: LinkName) -> list[Send]:
        """Return the next message of an answer; none if the client wants nothing any more."""
        recall = self._open.get(client, {}).get(token)
        if recall is None:
            return []
        if not recall.found:
            some = [recall.keys.popleft() for _ in range(min(SLICE, len(recall.keys)))]
            entries = [entry for key in some if (entry := self._values.get(key)) is not None]
            recall.found.extend(recall.matcher.matching(entries))
        sent = _first(recall.found)
        more = bool(recall.found or recall.keys)
        if not more:
            recall.matcher.rest()
        if not (more or recall.until_s):
            self.forget(token, client)
        return [Send(client, Recalled(token=token, entries=tuple(sent), more=more))]

    def came(self, entries: Sequence[Entry], published_s: float, *, late: bool) -> list[Send]:
        """Tell those who watch of what came, the first of which was published at `published_s`.
        `late`: they cannot have got it as a publication."""
        sends = []
        for (client, token), recall in self._watching(published_s, late=late):
            if found := recall.matcher.matching(entries):
                told = Recalled(token=token, entries=tuple(found), late=True)
                sends.append(Send(client, told))
        return sends

    def _watching(
        self, published_s: float, *, late: bool
    ) -> Iterator[tuple[tuple[LinkName, int], _Recall]]:
        """Yield the questions that watch for what was published then, the latest first."""
        for key, recall in reversed(self._watches.items()):
            if late or published_s <= recall.until_s:
                yield key, recall
            elif published_s > recall.until_s + self._longest_s:
                return  # and all others were asked before this one

    def forget(self, token: int, client: LinkName) -> None:
        """Forget a question."""
        self._watches.pop((client, token), None)
        its = self._open.get(client, {})
        its.pop(token, None)
        if not its:
            self._open.pop(client, None)

    def left(self, client: LinkName) -> None:
        """Forget the questions of a client that is gone."""
        self._grants.pop(client, None)
        for token in self._open.pop(client, {}):
            self._watches.pop((client, token), None)


def _first(found: deque[Entry]) -> list[Entry]:
    """Remove what fills a message, and return it."""
    entries: list[Entry] = []
    size = 0
    while found and (not entries or size + len(found[0].body) <= MOST_BYTES):
        size += len(found[0].body)
        entries.append(found.popleft())
    return entries
