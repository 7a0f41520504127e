"""What a broker sees of the publications that somebody watches for: where each came from, what was
decided, and when.

Rules
-----
- A watch is a filter. It lasts as long as somebody asks for what was seen, and `LEASE_S` longer.
  Without a watch nothing is looked at, and nothing is kept.
- Watched publications take the readable path, which has the decisions. So that a busy broker does
  not do that for all, it looks at about `PER_S` a second: at those whose `id_hash` is below a
  *share*, which follows the traffic. All brokers compare the same number of a publication, so one
  with a small hash is seen wherever it goes; `share` in answers says how many are looked at.
- What was seen is kept in memory: the last `KEPT` sightings of each watch.
- Times are of this broker's clock, in microseconds UTC; the queues of next hops are those behind
  all publications that came in one read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from reefcast.errors import LimitError
from reefcast.model.filters import Filter
from reefcast.model.looks import MOST_SEEN, Sightings
from reefcast.model.messages import Effect, LinkName, Publish, Refused, Send
from reefcast.model.publication import Publication, Value
from reefcast.routing.broker import Broker
from reefcast.routing.router import Decision
from reefcast.timing import now_us
from reefcast.traces.files import MOST_HASH, id_hash

LEASE_S = 10.0
MOST_WATCHES, KEPT = 8, 1000
PER_S = 500
ALL = MOST_HASH + 1
LEAST = ALL >> 12
MOST_NAMED, MOST_ATTRIBUTES, MOST_CHARS = 20, 50, 300
"""What one sighting has at most: next hops and clients, attributes and topics, and characters of a
value."""
Routed = Sequence[tuple[Publish, Decision]]


class _Watch:
    """One filter, until `until_s`; `seen`: the last sightings, of which `count` is the number of
    the last."""

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self.until_s = 0.0
        self.count = 0
        self.seen: deque[dict[str, Any]] = deque(maxlen=KEPT)


class Watching:
    """The watches of one broker. `active`: whether there is any. `readable`: has publications with
    an `id_hash` below a number take the readable path, also plain ones; to be set before the first
    watch, if there is another path."""

    def __init__(self, core: Broker) -> None:
        self.active = False
        self.readable: Callable[[int], None] = lambda below: None
        self._core = core
        self._watches: dict[str, _Watch] = {}
        self._below = ALL
        self._looked = self._looked_before = 0  # since the last tick, and at the last cut
        self._passed = self._rate = 0  # publications until the last tick, and in the second before

    # --- who asks ---------------------------------------------------------------------------------

    def asked(self, asked: Sightings, filter: Filter, now: float) -> dict[str, Any]:
        """Return what was seen since the last time, and go on watching. `now`: seconds. Raises
        `LimitError` if others watch for too many filters already."""
        watch = self._watches.get(filter.text)
        if watch is None:
            if len(self._watches) >= MOST_WATCHES:
                raise LimitError(
                    f"broker {self._core.name} watches for {MOST_WATCHES} filters already, which "
                    "is the most; try again when others have stopped"
                )
            watch = self._watches[filter.text] = _Watch(filter)
            self._set_active()
        watch.until_s = now + LEASE_S
        after = asked.after if asked.after <= watch.count else 0  # of a former life
        oldest = watch.count - len(watch.seen)
        fresh = [each for each in watch.seen if each["number"] > after][:MOST_SEEN]
        return {
            "last": fresh[-1]["number"] if fresh else watch.count,
            "missed": max(0, oldest - after) if after else 0,
            "share": self._below / ALL,
            "seen": fresh,
        }

    def tick(self, now: float) -> None:
        """End the watches of which nobody has asked for long, and follow the traffic; about once a
        second."""
        came, _ = self._core.links.passed()
        passed = self._core.counters["published"] + sum(came.values())
        self._passed, self._rate = passed, passed - self._passed
        if not self.active:
            return
        over = [text for text, watch in self._watches.items() if watch.until_s < now]
        for text in over:
            del self._watches[text]
        if self._looked > PER_S:
            self._look_at(self._below * PER_S // self._looked)
        elif self._looked < PER_S // 2 and self._below < ALL:
            self._look_at(self._below * 2)
        self._looked = self._looked_before = 0
        if over:
            self._set_active()

    def _set_active(self) -> None:
        before, self.active = self.active, bool(self._watches)
        if self.active and not before:
            self._look_at(ALL * PER_S // max(PER_S, self._rate))
        elif not self.active:
            self.readable(0)

    def _look_at(self, below: int) -> None:
        self._below = min(ALL, max(LEAST, below))
        self.readable(self._below)

    # --- what is seen -----------------------------------------------------------------------------

    def see(
        self, what: Any, link: LinkName, routed: Routed, effects: Sequence[Effect], took_ns: int
    ) -> None:
        """Look at an input of the core, at what it routed, and at the effects."""
        share_us = took_ns / 1000 / max(len(routed), 1)
        for publish, decision in routed:
            for watch in self._wanted(publish.publication):
                self._note(watch, publish, link, self._decided(publish, decision, share_us))
        if isinstance(what, list) and len(routed) < len(what):
            self._see_others(what, link, routed, effects)
        if self._looked - self._looked_before > PER_S:
            self._looked_before = self._looked
            self._look_at(self._below // 4)

    def _see_others(
        self, came: list[Publish], link: LinkName, routed: Routed, effects: Iterable[Effect]
    ) -> None:
        """Note the publications that were refused, or that wait."""
        done = {publish.publication.id for publish, _ in routed}
        refused = {
            effect.message.publication: effect.message.reason
            for effect in effects
            if isinstance(effect, Send) and isinstance(effect.message, Refused)
        }
        for publish in came:
            id = publish.publication.id
            if id in done:
                continue
            why = refused.get(id)
            told = {"outcome": "held" if why is None else "refused", "why": why or HELD}
            for watch in self._wanted(publish.publication):
                self._note(watch, publish, link, told)

    def _wanted(self, publication: Publication) -> list[_Watch]:
        """Return the watches for a publication."""
        if self._below < ALL and id_hash(publication.id) >= self._below:
            return []
        self._looked += 1
        return [each for each in self._watches.values() if each.filter.matches(publication)]

    def _note(self, watch: _Watch, publish: Publish, link: LinkName, told: dict[str, Any]) -> None:
        publication = publish.publication
        watch.count += 1
        watch.seen.append(
            {
                "number": watch.count,
                "publisher": publication.publisher,
                "seq": publication.seq,
                "published_us": publication.time_us,
                "at_us": now_us(),
                "by": link if publish.header.hops else publication.publisher,
                "hops": publish.header.hops,
                "again": publish.again,
                "confirm": bool(publish.confirm),
                "size": len(publish.body),
                **_content(publication),
                **told,
            }
        )

    def _decided(self, publish: Publish, decision: Decision, took_us: float) -> dict[str, Any]:
        """Return what was decided about a publication."""
        links, soft, sessions = self._core.links, self._core.soft_links, self._core.delivering
        hops = [
            {"to": hop, "queue_len": links.queue_len(hop), "soft": hop in soft}
            for hop, _ in decision.hops[:MOST_NAMED]
        ]
        local = list(decision.local)[:MOST_NAMED]
        keys = [sessions.sessions.get(name) for name in local]
        return {
            "outcome": _outcome(publish, decision),
            "matched": decision.matched,
            "took_us": round(took_us, 1),
            "to": hops,
            "hops_out": len(decision.hops),
            "clients": [
                name if key is None else f"session {key[1]} of {key[0] or 'nobody'}"
                for name, key in zip(local, keys, strict=True)
            ],
            "delivered": len(decision.local),
        }


HELD = "it waits until the advertisements of its publisher have settled"


def _outcome(publish: Publish, decision: Decision) -> str:
    """Return in a word what became of a publication at this broker."""
    if decision.duplicate:
        return "duplicate"
    if decision.local:
        return "delivered"
    if decision.hops:
        return "forwarded"
    return "not wanted here" if publish.header.hops else "unwanted"


def _content(publication: Publication) -> dict[str, Any]:
    """Return topics and attributes, the latter as the text of a JSON object: no program's numbers
    come in between. `cut`: something was left out."""
    attributes = dict(list(publication.attributes.items())[:MOST_ATTRIBUTES])
    shown = {name: _short(value) for name, value in attributes.items()}
    topics = [topic[:MOST_CHARS] for topic in publication.topics[:MOST_NAMED]]
    whole = shown == publication.attributes and tuple(topics) == publication.topics
    return {
        "topics": topics,
        "attributes": msgspec.json.encode(shown).decode(),
        "payload": len(publication.payload),
        "cut": not whole,
    }


def _short(value: Value) -> Value:
    if isinstance(value, str) and len(value) > MOST_CHARS:
        return value[:MOST_CHARS]
    return value
