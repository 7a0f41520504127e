"""Advisory events: what a broker publishes of its durable sessions.

Rules
-----
- They are ordinary publications with a topic below `$reefcast/session/`. The broker is their
  publisher, as a client of itself whose name is new in each life (ids are never used again), and
  which advertises them once, at the start. Nobody confirms them: they are as sure as other
  publications without confirmation.
- They are published in an input of their own, that of a timer, which comes at once or when the
  interval is over (`sessions.gathering`). So nothing else waits for them, and what they bring about
  at this broker's own sessions is seen to like any publication.

Source: `delivery.md`, rule 14.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from random import Random

from reefcast.model.messages import (
    ADVISOR_MARK,
    Advertise,
    Effect,
    Input,
    LinkKind,
    LinkUp,
    Publish,
    SetTimer,
)
from reefcast.model.publication import Publication, Value
from reefcast.model.reserved import RESERVED
from reefcast.model.wire import encode_publication
from reefcast.sessions.gathering import Gathered
from reefcast.sessions.outcome import Advisory

ADVISORY_TIMER = "advisories"
INTERVAL_S = 1.0
"""Seconds between two advisory events of one kind about one session, at least."""
PREFIX = RESERVED + "session/"


class Advising:
    """The advisory events of broker `broker`. `epoch_s`: what makes seconds UTC of the core's
    clock."""

    def __init__(self, broker: str, rng: Random, epoch_s: float) -> None:
        self.link = f"{ADVISOR_MARK}{broker}:{rng.randbytes(12).hex()}"
        self._broker = broker
        self._epoch_s = epoch_s
        self._gathered = Gathered(INTERVAL_S)
        self._seq = 0
        self._timer_s = inf

    def begin(self) -> list[Input]:
        """Return what the publisher says first, by its link."""
        advertised = Advertise((self.link, 1), f"topic LIKE '{PREFIX}%'")
        return [LinkUp(LinkKind.CLIENT), advertised]

    def told(self, advisories: Iterable[Advisory], now: float) -> list[Effect]:
        """Gather advisories; return the timer at which to publish them, unless a timer that is no
        later is set already."""
        self._gathered.add(advisories)
        due_s = max(now, self._gathered.due_s())
        if due_s >= self._timer_s:
            return []
        self._timer_s = due_s
        return [SetTimer(ADVISORY_TIMER, due_s)]

    def due(self, now: float) -> list[Publish]:
        """Return what is to be published now; the timer has come, and `told` sets the next one."""
        self._timer_s = inf
        return [self._published(each, now) for each in self._gathered.take(now)]

    def _published(self, advisory: Advisory, now: float) -> Publish:
        self._seq += 1
        kind = advisory.kind.replace("_", "-")
        publication = Publication(
            self.link,
            self._seq,
            int((now + self._epoch_s) * 1e6),
            attributes_of(advisory, self._broker),
            (PREFIX + kind,),
        )
        return Publish(publication, body=encode_publication(publication))


def attributes_of(advisory: Advisory, broker: str) -> dict[str, Value]:
    """Return the attributes of an advisory event of this broker, without those that do not
    apply."""
    found: dict[str, Value] = {
        "broker": broker,
        "owner": advisory.owner,
        "session": advisory.session,
        "count": advisory.count,
    }
    if advisory.consumer:
        found["consumer"] = advisory.consumer
    if advisory.reason:
        found["reason"] = advisory.reason
    for publisher, number in advisory.ids[:1]:
        found |= {"publisher": publisher, "number": number}
    return found
