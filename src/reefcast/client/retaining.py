"""What a client has to do with retained values: it has them kept and cleared, and asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from reefcast.client.encoding import merge_attributes
from reefcast.client.event import Event, as_retained
from reefcast.client.filter_check import check_filter
from reefcast.client.handles import Subscription, inbox_of
from reefcast.client.last_values import LastValues
from reefcast.client.recalling import Order, Recalling
from reefcast.client.session import Session
from reefcast.client.signal import Signal
from reefcast.errors import ConfigurationError, RefusedError
from reefcast.model import wire
from reefcast.model.flat import Attributes, as_sent
from reefcast.model.publication import Value
from reefcast.retaining import messages
from reefcast.retaining.keys import By, key_by_attributes, key_of, names_of
from reefcast.timing import now_us

Retain = bool | str | Iterable[str]
"""How an event is retained: not at all, under its topic (True), or under these attributes."""


class RetainedValue(NamedTuple):
    """A retained value and its key: a topic, or else attributes; as `clear_retained` takes it."""

    event: Event
    topic: str
    attributes: dict[str, Value] | None


class RetainingClient:
    """The part of a client that has to do with retained values. `_session`: its state."""

    _session: Session

    async def clear_retained(
        self, *, topic: str = "", attributes: Attributes | None = None
    ) -> None:
        """Clear the value that is retained under this topic, or under these attributes (all names
        of its key, with their values), in the whole network; wait until the broker has done so.

        Nobody gets an event. Later publications may be retained under the same key. Raises
        `ConfigurationError`, `RefusedError` if this client's advertisements do not allow it, and
        `ConnectionLostError`.
        """
        values = {} if attributes is None else as_sent(merge_attributes(attributes, {}))
        if bool(topic) == bool(values):
            raise ConfigurationError(
                "clear_retained clears one key: give either its topic, or its attributes"
            )
        if values:
            key_by_attributes(values, names_of(values))
        self._session.check()
        retaining = self._session.retaining
        # Not before what this client has retained: clocks are coarse, and may be set back.
        time_us = max(now_us(), retaining.latest_us + 1)
        clear = messages.Clear(
            token=retaining.next_token(), time_us=time_us, topic=topic, attributes=values
        )
        await self._until_done(retaining.order(clear))

    async def retained(self, filter: str = "TRUE") -> list[Event]:
        """Return the retained values that match, in no particular order. Raises
        `FilterSyntaxError`, `RefusedError` if the network retains nothing, and
        `ConnectionLostError`."""
        return [value.event for value in await self._recall(filter)]

    async def _recall(self, filter: str) -> list[RetainedValue]:
        """Return the retained values that match, with their keys."""
        check_filter(filter)
        self._session.check()
        recalling = Recalling(self._session.retaining, filter, 0.0, Signal())
        found: dict[bytes, messages.Entry] = {}
        try:
            with self._session.awaiting_answer():
                while not recalling.complete and recalling.error is None:
                    if not recalling.asked:
                        recalling.start()
                        continue
                    await recalling.changed.wait()
                    found |= {entry.key: entry for entry in recalling.take()}
        finally:
            recalling.cancel()
        if recalling.error is not None:
            raise recalling.error
        return [self._value(entry) for entry in found.values()]

    def _value(self, entry: messages.Entry) -> RetainedValue:
        event = as_retained(self._session.event_type(entry.body, self._session.replier))
        values = {name: event[name] for name in entry.by}
        return RetainedValue(event, "" if values else event.topics[0], values or None)

    def _retain(self, frame: bytes, retain: Retain, seq: int) -> Order:
        """Have a publication retained whose frame goes next, under this number. Raises
        `ConfigurationError`."""
        return self._order(order_of(frame, retain, self._session.retaining.next_token()), seq)

    def _order(self, message: messages.Retain, seq: int) -> Order:
        # If the broker refuses the publication, too, the caller learns that already.
        self._session.awaited[seq] = _know
        return self._session.retaining.order(message)

    async def _until_retained(self, order: Order, seq: int) -> None:
        """Wait until the broker has retained the publication with this number. Raises why it did
        not."""
        session = self._session
        try:
            await self._until_done(order)
        except RefusedError:
            with session.awaiting_answer():
                while session.outbox.acknowledged_seq < seq and not session.ended:
                    await session.acknowledged.wait()
            raise
        finally:
            session.awaited.pop(seq, None)

    async def _until_done(self, order: Order) -> None:
        """Wait until the broker has answered. Raises why it did not do it."""
        with self._session.awaiting_answer():
            while not order.over:
                await order.changed.wait()
        if order.error is not None:
            raise order.error

    def _last_values(
        self, subscription: Subscription, filter: str, handover_s: float
    ) -> LastValues:
        changed = inbox_of(subscription).changed
        recalling = Recalling(self._session.retaining, filter, handover_s, changed)
        return LastValues(subscription, recalling)


def _know(reason: str) -> None:
    """Ignore why a publication was refused: its caller learns that by another way."""


async def retained_values(client: RetainingClient, filter: str) -> list[RetainedValue]:
    """Return the retained values that match, with their keys; raises as `Client.retained`."""
    return await client._recall(filter)


def order_of(frame: bytes, retain: Retain, token: int) -> messages.Retain:
    """Return the message that has a publication retained. Raises `ConfigurationError`."""
    by = names_by(retain)
    body = bytes(wire.split_parts(frame[wire.KIND_AT + 1 :])[1])
    key_of(wire.decode_publication(body), by)
    return messages.Retain(token=token, body=body, by=by)


def names_by(retain: Retain) -> By:
    """Return the names of the attributes by which an event is retained, none for its topic."""
    if retain is True:
        return ()
    names = (retain,) if isinstance(retain, str) else tuple(retain or ())
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(
            f"retain = {retain!r} names no key: write retain=True for the event's topic, or name "
            'attributes, retain=("symbol",)'
        )
    return names_of(names)


def check_not_retained(retain: object) -> None:
    """Raise `ConfigurationError` if a batch is to be retained."""
    if retain is not False:
        raise ConfigurationError(
            "a batch is not retained: publish its events one by one, publish(..., retain=...)"
        )


def check_only(*, retained: bool, replay: object) -> None:
    """Raise `ConfigurationError` if both retained values and the past are wanted."""
    if retained and replay is not False:
        raise ConfigurationError(
            "a subscription begins with the past or with last values: give replay or retained"
        )
