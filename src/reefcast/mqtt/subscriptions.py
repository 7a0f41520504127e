"""The subscriptions of one MQTT client, and what an event means for them.

A subscription of a client is served in one of four ways (`Way`). Its topic filter, as the client
wrote it, names it: another one with the same text takes its place (MQTT-3.8.4-3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec

from reefcast.model.patterns import is_topic_match
from reefcast.mqtt.packets import MQTT_5, TopicRequest
from reefcast.mqtt.subscribing import MqttSubscription, has_condition

Served = tuple[int, int]
"""Who says that an event matches: a durable session (`LastingSession.source`), or 0 for the broker
itself; and the number of its subscription."""


class Way(Enum):
    """PASSING: for as long as the connection lasts. OWED: by the client's durable session. SHARED:
    by a durable session that several clients consume. SYSTEM: topics of this broker alone."""

    PASSING = "passing"
    OWED = "owed"
    SHARED = "shared"
    SYSTEM = "system"


class Subscription:
    """One subscription. `wanted`: what it asks for; `request`: the topic filter with its options;
    `identifier`: its Subscription Identifier, 0 for none; `served`: where its events come from."""

    __slots__ = ("identifier", "request", "served", "wanted", "way")

    def __init__(
        self, request: TopicRequest, wanted: MqttSubscription, identifier: int, way: Way
    ) -> None:
        self.request, self.wanted, self.identifier = request, wanted, identifier
        self.way = way
        self.served: Served = (0, 0)

    @property
    def topic_filter(self) -> str:
        """The topic filter as the client wrote it."""
        return self.request.topic_filter


class Match(NamedTuple):
    """What the subscriptions that an event matches say of its delivery. `pattern`: the topics of
    one of them; `qos`: the highest that was granted; `as_published`: the RETAIN flag stays as it
    was; `identifiers`: in ascending order."""

    pattern: str
    qos: int
    as_published: bool
    identifiers: tuple[int, ...]


class Subscriptions:
    """The subscriptions by their topic filters, and by where their events come from. `shapes`: of
    packets of plain events (`delivering.Shape`), by the numbers of passing subscriptions that want
    the client's own events, too; `is_plain`: all passing ones have such shapes, without
    identifiers. `version`: the protocol level."""

    def __init__(self, version: int = MQTT_5) -> None:
        self._version = version
        self.shapes: dict[int, tuple[int, bool, tuple[int, ...]]] = {}
        self.is_plain = False
        self._passing = self._identified = 0
        self._by_filter: dict[str, Subscription] = {}
        self._served: dict[Served, dict[str, Subscription]] = {}

    def __len__(self) -> int:
        return len(self._by_filter)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._by_filter.values())

    def get(self, topic_filter: str) -> Subscription | None:
        return self._by_filter.get(topic_filter)

    def put(self, subscription: Subscription) -> Subscription | None:
        """Add a subscription; return the one whose place it takes."""
        former = self._by_filter.get(subscription.topic_filter)
        self._by_filter[subscription.topic_filter] = subscription
        if former is not None:
            self._unserve(former)
        self._served.setdefault(subscription.served, {})[subscription.topic_filter] = subscription
        if subscription.way is Way.PASSING:
            self._pass(subscription)
        self._look()
        return former

    def _pass(self, subscription: Subscription) -> None:
        self._passing += 1
        if not subscription.request.no_local:
            as_published = subscription.request.retain_as_published
            identifiers = (subscription.identifier,) if subscription.identifier else ()
            self.shapes[subscription.served[1]] = (self._version, as_published, identifiers)
            self._identified += len(identifiers)

    def remove(self, topic_filter: str) -> Subscription | None:
        """Remove a subscription; return it, None if there is none."""
        subscription = self._by_filter.pop(topic_filter, None)
        if subscription is not None:
            self._unserve(subscription)
            self._look()
        return subscription

    def _look(self) -> None:
        """Find out whether plain events are delivered alike, whichever subscriptions match. A
        client may have 100 000 of them, so they are counted as they come and go."""
        self.is_plain = len(self.shapes) == self._passing > 0 and not self._identified

    def _unserve(self, subscription: Subscription) -> None:
        if subscription.way is Way.PASSING:
            self._passing -= 1
            _, _, identifiers = self.shapes.pop(subscription.served[1], (0, False, ()))
            self._identified -= len(identifiers)
        served = self._served[subscription.served]
        served.pop(subscription.topic_filter, None)
        if not served:
            del self._served[subscription.served]

    def of_system(self, topic: str) -> list[Subscription]:
        """Return the subscriptions of the way SYSTEM that match this topic."""
        return [
            each
            for each in self
            if each.way is Way.SYSTEM and is_topic_match(topic, each.wanted.pattern)
        ]

    def serves(self, served: Served) -> bool:
        """Return whether some subscription gets its events from this source and number."""
        return served in self._served

    def matched(self, source: int, numbers: Iterable[int], *, own: bool) -> Match | None:
        """Return what the subscriptions with these numbers say; None if there are none (any more),
        or if all of them want nothing of the client's own (`own`)."""
        found: list[Subscription] = []
        for number in numbers:
            found += self._served.get((source, number), {}).values()
        if own:
            found = [each for each in found if not each.request.no_local]
        if not found:
            return None
        return Match(
            found[0].wanted.pattern,
            max(each.request.qos for each in found),
            any(each.request.retain_as_published for each in found),
            identifiers_of(found),
        )


def merged(matches: Sequence[Match]) -> Match | None:
    """Return what several subscriptions say together; None for none."""
    if not matches:
        return None
    return Match(
        matches[0].pattern,
        max(each.qos for each in matches),
        any(each.as_published for each in matches),
        tuple(sorted({number for each in matches for number in each.identifiers})),
    )


def identifiers_of(subscriptions: Iterable[Subscription]) -> tuple[int, ...]:
    """Return the identifiers of subscriptions, in ascending order."""
    return tuple(sorted({each.identifier for each in subscriptions if each.identifier}))


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A subscription as the notes of a durable session have it. `condition`: the one that stood
    beside its topic filter."""

    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    identifier: int
    condition: str


_encode = msgspec.json.Encoder().encode
_kept = msgspec.json.Decoder(Kept)


def kept(subscription: Subscription) -> str:
    """Return the note of a subscription; its key has the topic filter."""
    request = subscription.request
    options = request.qos, request.no_local, request.retain_as_published, request.retain_handling
    beside = "" if has_condition(subscription.topic_filter) else subscription.wanted.condition or ""
    said = Kept(*options, subscription.identifier, beside)
    return _encode(said).decode()


def read_kept(topic_filter: str, note: str) -> tuple[TopicRequest, int, str]:
    """Return the topic filter with its options, the identifier and the condition of a note. Raises
    `msgspec.MsgspecError` for a text that is none."""
    said = _kept.decode(note)
    options = said.qos, said.no_local, said.retain_as_published, said.retain_handling
    return TopicRequest(topic_filter, *options), said.identifier, said.condition
