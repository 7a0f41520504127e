"""Retained values at one broker: it keeps them, tells its neighbours, and answers its clients.

Rules
-----
- Every broker has all values (as clustered MQTT brokers do), so that a question costs no message
  between brokers. `values` says which value is the last, `exchange` how brokers agree, `recalls`
  how clients are answered.
- A client's value must lie within its advertisements, as any publication (`claim`); what clears a
  key must be able to. A value is cleared or replaced only by who may publish such a value, as far
  as this broker has the value: who is restricted by a role cannot clear what it does not have.
- What a client may see (`routing.granting`) is part of what it asks.
- *No gap*: who subscribes, waits until that has settled, and then asks for what is retained, misses
  no value: it comes as a publication, or is in the answer, or both. For a client sends `Retain`
  before the publication, links keep their order, and each broker tells all neighbours before it
  handles the next message. So a broker that the publication has passed has the value; and where it
  passed before the subscription came, the value goes by the link by which that is confirmed before
  `Settled` does. Publications that go by soft links (mesh), or past a part of the network that was
  away, keep no such order: therefore a question is watched for some time (`recalls`).
- A broker that was cut off, or lost its memory, has the values again when its neighbours have told
  it. On a disk they are rows like the core's (`Service.keep`).

Costs: memory for all values at each broker; a message per link and value that is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from reefcast.errors import ConfigurationError, LocalError, ProtocolError
from reefcast.model.filters import TOPIC, Filter, parse_filter
from reefcast.model.grants import Grant
from reefcast.model.messages import LinkName, Publish, Send, ServiceMessage
from reefcast.model.publication import Publication, Value
from reefcast.model.wire import decode_publication
from reefcast.retaining.exchange import Exchange
from reefcast.retaining.keys import key_by_attributes, key_by_topic, key_of, names_of
from reefcast.retaining.messages import (
    BETWEEN_BROKERS,
    FROM_CLIENTS,
    MESSAGES,
    Asked,
    Clear,
    Compare,
    Entry,
    NotRetained,
    Recall,
    RecallOn,
    Retain,
    Retained,
    Spread,
    Took,
)
from reefcast.retaining.recalls import SLICE, Matcher, Recalls
from reefcast.retaining.values import TABLE, LastValues, Limits, Write, publication_of
from reefcast.routing.services import Service
from reefcast.routing.tables import Cell, TableView


class RetainedTable(TableView[Entry]):
    """The retained values of one broker, as an operator sees them."""

    columns = ("key", "publisher", "seq", "time_us", "bytes")

    def __init__(self, values: LastValues) -> None:
        self._values = values

    def __len__(self) -> int:
        return self._values.values

    def __iter__(self) -> Iterator[Entry]:
        return (entry for entry in self._values if entry.body)

    def describe(self, row: Entry) -> tuple[Cell, ...]:
        time_us, publisher, seq = row.version
        publication = publication_of(row)
        key = ", ".join(f"{name}={publication.attributes[name]}" for name in row.by)
        return (key or publication.topics[0], publisher, seq, time_us, len(row.body))


class RetainingService(Service):
    """Retained values at one broker. `epoch_s`: what makes seconds UTC of `now`; `unable`: why this
    network has none, "" if it does."""

    messages = MESSAGES

    def __init__(
        self, limits: Limits | None = None, *, epoch_s: float = 0.0, unable: str = ""
    ) -> None:
        self.values = LastValues(limits or Limits())
        self._exchange = Exchange(self.values)
        self._recalls = Recalls(self.values)
        self._epoch_s, self._unable = epoch_s, unable
        self._now = 0.0
        self._refused = 0
        self._grants: dict[LinkName, Grant] = {}

    # --- time, and the disk -----------------------------------------------------------------------

    @property
    def _utc_s(self) -> float:
        return self._now + self._epoch_s

    def pass_time(self, now: float) -> None:
        self._now = now
        self.values.expire(self._utc_s)

    def keep(self, rows: Mapping[str, Mapping[bytes, bytes]], write: Write) -> None:
        self.values.restore(rows.get(TABLE, {}), write)

    # --- messages ---------------------------------------------------------------------------------

    def handle(self, message: ServiceMessage, link: LinkName, *, client: bool) -> Sequence[Send]:
        if not isinstance(message, FROM_CLIENTS if client else BETWEEN_BROKERS):
            raise ProtocolError(
                f"{link!r} sent {type(message).__name__}, which is not for it to say"
            )
        if isinstance(message, Spread):
            return self._spread(message, link)
        if isinstance(message, Compare):
            return self._exchange.compared(message, link)
        if isinstance(message, Took):
            return self._exchange.took(message, link)
        assert isinstance(message, Asked)
        try:
            return self._asked(message, link)
        except LocalError as error:
            return self.refuse(message, link, str(error))

    def _asked(self, message: Asked, client: LinkName) -> Sequence[Send]:
        if self._unable:
            raise LocalError(self._unable)
        if isinstance(message, Retain | Clear):
            entry = _entry_of(message, client)
            self._check_replacing(entry, client)
            return self._take(entry, message, client)
        if isinstance(message, Recall):
            return self._recalls.begin(message, parse_filter(message.filter), client, self._now)
        if isinstance(message, RecallOn):
            return self._recalls.go_on(message.token, client)
        self._recalls.forget(message.token, client)
        return []

    def _check_replacing(self, entry: Entry, client: LinkName) -> None:
        """Raise `LocalError` if the value that a client clears or replaces is none that it could
        have published, or nobody here can tell."""
        grant, known = self._grants.get(client), self.values.get(entry.key)
        if grant is not None and known is None and not entry.body:
            raise LocalError(
                "there is no value of this key here that could be cleared; if another broker has "
                "one, it may be somebody else's"
            )
        if grant is not None and known is not None and known.body:
            objection = grant.objection(publication_of(known))
            if objection is not None:
                what = "replace" if entry.body else "clear"
                raise LocalError(f"the value that is there is not yours to {what}: {objection}")

    def granted(self, client: LinkName, grant: Grant | None) -> Sequence[Send]:
        if grant is None:
            self._grants.pop(client, None)
        else:
            self._grants[client] = grant
        self._recalls.granted(client, grant)
        return []

    def _take(self, entry: Entry, message: Asked, client: LinkName) -> list[Send]:
        """Take what a client sent."""
        if objection := self.values.objection(entry, self._utc_s):
            return self.refuse(message, client, f"this is not retained: {objection}")
        return [*self._new((entry,)), Send(client, Retained(token=message.token))]

    def _new(
        self, entries: Iterable[Entry], came_by: LinkName = "", *, late: bool = False
    ) -> list[Send]:
        """Take entries, and tell everybody of those that are new."""
        new = [entry for entry in entries if self.values.put(entry, self._utc_s)]
        if not new:
            return []
        # By this broker's clock at the latest: a publisher's may be ahead.
        published_s = min(self._now, min(e.version[0] for e in new) / 1e6 - self._epoch_s)
        told = self._recalls.came(new, published_s, late=late)
        return self._exchange.spread(new, came_by, late=late) + told

    def _spread(self, message: Spread, link: LinkName) -> list[Send]:
        for entry in message.entries:
            if entry.body:
                decode_publication(entry.body)  # or it is refused, before anything has changed
        sends = self._new(message.entries, link, late=message.late)
        if message.exchange:
            sends.append(Send(link, Took(exchange=message.exchange)))
        return sends

    def refuse(self, message: ServiceMessage, link: LinkName, reason: str) -> list[Send]:
        assert isinstance(message, Asked)
        self._refused += 1
        return [Send(link, NotRetained(token=message.token, reason=reason))]

    def claim(self, message: ServiceMessage) -> Publication | Mapping[str, Value] | None:
        if isinstance(message, Retain):
            return decode_publication(message.body)
        if isinstance(message, Clear):
            return {TOPIC: message.topic} if message.topic else message.attributes
        return None

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName, *, client: bool) -> Sequence[Send]:
        return [] if client else self._exchange.up(link)

    def link_down(self, link: LinkName, *, client: bool) -> Sequence[Send]:
        if client:
            self._recalls.left(link)
            self._grants.pop(link, None)
        else:
            self._exchange.down(link)
        return []

    def away(self, client: LinkName) -> Sequence[Send]:
        return []  # what it asked is answered when it is back

    # --- what others ask --------------------------------------------------------------------------

    def recalled(self, filter: Filter) -> Iterator[Publish]:
        matcher, keys = Matcher(filter), iter(self.values.keys())
        while some := list(islice(keys, SLICE)):
            entries = [entry for key in some if (entry := self.values.get(key)) is not None]
            for entry in matcher.matching(entries):
                yield Publish(publication_of(entry), body=entry.body)

    def tables(self) -> Mapping[str, TableView[Any]]:
        return {TABLE: RetainedTable(self.values)}

    def figures(self) -> Mapping[str, int]:
        values = self.values
        return {
            "retained_values": values.values,
            "retained_bytes": values.size,
            "retained_tombstones": len(values) - values.values,
            "retained_refused": self._refused,
        }


def _entry_of(message: Retain | Clear, client: LinkName) -> Entry:
    """Return what a client's message makes of its key. Raises `ConfigurationError`."""
    if isinstance(message, Clear):
        by = names_of(message.attributes)
        if bool(message.topic) == bool(by):
            raise ConfigurationError("what is cleared has either a topic or attributes")
        topical = not by
        key = key_by_topic(message.topic) if topical else key_by_attributes(message.attributes, by)
        return Entry(key, (message.time_us, client, -message.token), by)
    publication, by = decode_publication(message.body), names_of(message.by)
    version = (publication.time_us, *publication.id)
    return Entry(key_of(publication, by), version, by, b"" if message.clear else message.body)
