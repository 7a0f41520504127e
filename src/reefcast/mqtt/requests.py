"""What one MQTT client asks for: SUBSCRIBE and UNSUBSCRIBE, one after the other.

Rules
-----
- A SUBACK comes when the subscriptions have settled: what is published from then on, anywhere, is
  delivered. Retained values follow it.
- Another subscription with the same topic filter takes the place of the former one when it has
  settled, so that nothing is missed meanwhile (MQTT-3.8.4-3, MQTT-3.8.4-4).
- Subscriptions with QoS 1 and 2 of a client with a durable session belong to that session; all
  others end with the connection, and are made again when the session goes on.
- A shared subscription is a durable session that all its clients consume. It ends when the last of
  them has unsubscribed, or when none has been there for as long as the longest of their sessions
  lasts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol

from reefcast.errors import ReefcastError
from reefcast.model.effort import FilterLimits
from reefcast.model.messages import EntityId, Refused, Subscribe, Unsubscribe
from reefcast.mqtt import packets
from reefcast.mqtt.asking import Asking
from reefcast.mqtt.begun import Changes
from reefcast.mqtt.lasting import (
    SUBSCRIPTION,
    LastingSession,
    SessionFailed,
    shared_name,
)
from reefcast.mqtt.packets import Suback, TopicRequest, Unsuback
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.reasons import MqttError, Reason, reason_of_refusal
from reefcast.mqtt.subscribing import MqttSubscription, Origin, subscription_of
from reefcast.mqtt.subscriptions import Match, Subscription, Subscriptions, Way, kept, read_kept
from reefcast.retaining.messages import Recall, Recalled, RecallOn

OWN_SOURCE = 1
"""Stands for the client's own durable session (`LastingSession.source`)."""
MOST_WORDS = 1000
"""Characters of a reason string."""


class Client(Protocol):
    """The client whose requests these are."""

    def write(self, packet: packets.Packet) -> None: ...

    def send_retained(self, values: Iterable[bytes], match: Match) -> None:
        """Send retained values, as they are encoded."""

    def change(self, former: Subscription | None, change: Callable[[], object]) -> Changes:
        """Change the subscriptions, of which `former` ends; return what is to be noted."""

    def changed(self) -> None:
        """Go on after a change, which is noted, or was taken back."""

    async def attach(self, session: LastingSession) -> None:
        """Become a consumer of a session, whose events come from now on. Raises `SessionFailed`."""

    def system(self, subscription: Subscription) -> None:
        """Send what the broker says of itself now."""

    def may_see_system(self) -> bool: ...


class Requests:
    """The subscriptions of one client, and how they change. `publisher`: its id in the network;
    `lasting`: its durable session, None if it has none; `share_s`: how long the sessions of its
    shared subscriptions outlast it; `window`: how many events it takes of each at once; `limits`:
    returns those of filters."""

    def __init__(
        self,
        client: Client,
        asking: Asking,
        subscriptions: Subscriptions,
        publisher: str,
        window: int,
        share_s: float,
        limits: Callable[[], FilterLimits],
    ) -> None:
        self._client = client
        self._asking = asking
        self._subscriptions = subscriptions
        self._publisher = publisher
        self._window = window
        self._share_s = share_s
        self._limits = limits
        self._numbers, self._sources = itertools.count(1), itertools.count(OWN_SOURCE + 1)
        self._shared: dict[str, LastingSession] = {}
        self.lasting: LastingSession | None = None

    @property
    def shared(self) -> Iterator[LastingSession]:
        """The sessions of its shared subscriptions."""
        return iter(self._shared.values())

    # --- SUBSCRIBE --------------------------------------------------------------------------------

    async def subscribe(self, packet: packets.Subscribe) -> None:
        """Answer a SUBSCRIBE."""
        reasons, words, recalls = [], [], []
        for request in packet.requests:
            try:
                what = subscription_of(
                    request.topic_filter, packet.properties.user_properties, self._limits()
                )
                identifier = next(iter(packet.properties.subscription_identifiers), 0)
                subscription = self._new(request, what, identifier)
                former = await self._enter(subscription)
                reasons.append(Reason(request.qos))
                if _wants_retained(subscription, is_new=former is None):
                    recalls.append(subscription)
            except MqttError as error:
                reasons.append(error.reason)
                words.append(str(error))
            except ReefcastError as error:
                reasons.append(reason_of_refusal(str(error)))
                words.append(str(error))
        said = Properties(reason_string="; ".join(words)[:MOST_WORDS]) if words else Properties()
        self._client.write(Suback(packet.packet_id, tuple(reasons), said))
        for subscription in recalls:
            if subscription.way is Way.SYSTEM:
                self._client.system(subscription)
            else:
                self._asking.begin(self._recall(subscription))

    def _new(self, request: TopicRequest, what: MqttSubscription, identifier: int) -> Subscription:
        if what.origin is Origin.SYS:
            way = Way.SYSTEM
        elif what.group:
            way = Way.SHARED
        elif self.lasting is not None and (request.qos or self._is_owed(request.topic_filter)):
            way = Way.OWED
        else:
            way = Way.PASSING
        return Subscription(request, what, identifier, way)

    def _is_owed(self, topic_filter: str) -> bool:
        """Return whether a session owes what matches a topic filter: it goes on, so that a
        subscription with QoS 0 in the place of a former one loses nothing (MQTT-3.8.4-4)."""
        former = self._subscriptions.get(topic_filter)
        return former is not None and former.way is Way.OWED

    async def _enter(self, subscription: Subscription) -> Subscription | None:
        """Have the network serve a subscription, and remember it; return the former one of its
        topic filter."""
        await self._serve(subscription)
        topic_filter = subscription.topic_filter
        former = self._subscriptions.get(topic_filter)
        await self._change(topic_filter, former, subscription)
        if former is not None:
            await self._unserve(former)
        await self._consume(subscription)
        return former

    async def _change(
        self, topic_filter: str, former: Subscription | None, now: Subscription | None
    ) -> None:
        """Have the subscription `now` in the place of `former`, once the session has noted it.
        Raises `SessionFailed`, and changes nothing."""
        notes = self._client.change(former, partial(self._put, topic_filter, now))
        try:
            if self.lasting is not None:
                notes[SUBSCRIPTION + topic_filter] = None if now is None else kept(now)
                await self.lasting.note(notes)
        except SessionFailed:
            self._put(topic_filter, former)
            self._client.changed()
            raise
        self._client.changed()

    def _put(self, topic_filter: str, subscription: Subscription | None) -> None:
        if subscription is None:
            self._subscriptions.remove(topic_filter)
        else:
            self._subscriptions.put(subscription)

    async def _serve(self, subscription: Subscription) -> None:
        filter = subscription.wanted.filter
        if subscription.way is Way.PASSING:
            number = next(self._numbers)
            answer = await self._asking.ask(
                lambda token: Subscribe((self._publisher, number), filter, token)
            )
            if isinstance(answer, Refused):
                raise MqttError(reason_of_refusal(answer.reason), answer.reason)
            subscription.served = (0, number)
        elif subscription.way is Way.OWED:
            assert self.lasting is not None
            number = await self.lasting.add_filter(filter)
            subscription.served = (self.lasting.source, number)
        elif subscription.way is Way.SHARED:
            await self._join(subscription)
        elif not self._client.may_see_system():
            raise MqttError(
                Reason.NOT_AUTHORIZED,
                "what brokers say of themselves is for users who may ask for the status",
            )

    async def _join(self, subscription: Subscription) -> None:
        """Find or make the session of a shared subscription."""
        what = subscription.wanted
        name = shared_name(what.group, subscription.topic_filter.partition("/")[2])
        session = self._shared.get(name)
        if session is None:
            session = LastingSession(self._asking, name, next(self._sources))
            await session.open_shared(self._share_s)
        number = await session.add_filter(what.filter)
        self._shared[name] = session
        subscription.served = (session.source, number)

    async def _consume(self, subscription: Subscription) -> None:
        """Become a consumer of the session that serves a subscription, which is known by now: what
        is handed out at once is for it. The client's own one may have been refused when it came:
        its user might see nothing then."""
        if subscription.way is Way.OWED:
            assert self.lasting is not None
            await self._attach(self.lasting)
        for session in self._shared.values():
            if session.source == subscription.served[0]:
                try:
                    await self._attach(session)
                except SessionFailed:
                    self._subscriptions.remove(subscription.topic_filter)
                    self._shared.pop(session.name, None)
                    raise
                return

    async def _attach(self, session: LastingSession) -> None:
        if session.consumer:
            return
        try:
            await self._client.attach(session)
        except SessionFailed as error:
            if not error.again or session is not self.lasting:  # else the client tries again
                raise

    # --- UNSUBSCRIBE ------------------------------------------------------------------------------

    async def unsubscribe(self, packet: packets.Unsubscribe) -> None:
        """Answer an UNSUBSCRIBE."""
        reasons = []
        for topic_filter in packet.topic_filters:
            subscription = self._subscriptions.get(topic_filter)
            if subscription is None:
                reasons.append(Reason.NO_SUBSCRIPTION_EXISTED)
                continue
            try:
                await self._change(topic_filter, subscription, None)
                await self._unserve(subscription)
                reasons.append(Reason.SUCCESS)
            except SessionFailed:
                reasons.append(Reason.UNSPECIFIED_ERROR)
        self._client.write(Unsuback(packet.packet_id, tuple(reasons)))

    async def _unserve(self, subscription: Subscription) -> None:
        """End what served a subscription, unless it serves another one."""
        source, number = subscription.served
        if self._subscriptions.serves(subscription.served):
            return
        if subscription.way is Way.PASSING:
            id: EntityId = (self._publisher, number)
            await self._asking.ask(lambda token: Unsubscribe(id, token))
        elif subscription.way is Way.OWED and self.lasting is not None:
            await self.lasting.remove_filter(subscription.wanted.filter)
        elif subscription.way is Way.SHARED:
            for name, session in list(self._shared.items()):
                if session.source == source:
                    del self._shared[name]
                    await session.leave()

    def retire(self) -> None:
        """End all subscriptions that the broker itself serves: their events are not wanted any
        more."""
        for subscription in self._subscriptions:
            if subscription.way is Way.PASSING:
                id: EntityId = (self._publisher, subscription.served[1])
                self._asking.tell(partial(Unsubscribe, id))

    # --- retained values --------------------------------------------------------------------------

    async def _recall(self, subscription: Subscription) -> None:
        """Send the retained values that match a subscription."""
        token, filter = 0, subscription.wanted.filter

        def make(number: int) -> Recall:
            nonlocal token
            token = number
            return Recall(token=number, filter=filter)

        answer = await self._asking.ask(make)
        request = subscription.request
        identifiers = (subscription.identifier,) if subscription.identifier else ()
        match = Match(subscription.wanted.pattern, request.qos, True, identifiers)
        while isinstance(answer, Recalled):
            if self._subscriptions.get(subscription.topic_filter) is subscription:
                self._client.send_retained((entry.body for entry in answer.entries), match)
            if not answer.more:
                return
            answer = await self._asking.more(token, RecallOn(token=token))

    # --- a session that goes on -------------------------------------------------------------------

    async def resume(self, notes: Mapping[str, str], numbers: Mapping[str, int]) -> None:
        """Make the subscriptions of a session that goes on. `notes`: those of its subscriptions, by
        topic filter; `numbers`: of the durable session's filters. The client becomes a consumer
        of its own session only after that: what matches no subscription is dropped."""
        assert self.lasting is not None
        stray, shared = dict(numbers), []
        for topic_filter, note in notes.items():
            request, identifier, condition = read_kept(topic_filter, note)
            pairs = (("filter", condition),) if condition else ()
            try:
                subscription = self._new(
                    request, subscription_of(topic_filter, pairs, self._limits()), identifier
                )
                number = numbers.get(subscription.wanted.filter)
                if subscription.way is Way.OWED and number is not None:
                    subscription.served = (self.lasting.source, number)
                    stray.pop(subscription.wanted.filter, None)
                else:
                    await self._serve(subscription)
            except (MqttError, SessionFailed):
                continue  # what it may not have any more
            self._subscriptions.put(subscription)
            if subscription.way is Way.SHARED:
                shared.append(subscription)
        for subscription in shared:
            with suppress(SessionFailed):  # so it was removed again
                await self._consume(subscription)
        for filter in stray:
            await self.lasting.remove_filter(filter)


def _wants_retained(subscription: Subscription, *, is_new: bool) -> bool:
    handling = subscription.request.retain_handling
    return subscription.way is not Way.SHARED and (handling == 0 or (handling == 1 and is_new))
