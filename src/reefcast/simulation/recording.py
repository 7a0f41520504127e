"""The record of a run: counters, deliveries, trace rows. In columns, with no object per row.

Deliveries are kept as the effects that the broker made anyway, and become columns when asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reefcast.errors import ConfigurationError
from reefcast.model.messages import ControlMessage, Deliver, LinkName, Publish
from reefcast.model.publication import Publication, PublicationId
from reefcast.routing.broker import Broker
from reefcast.routing.router import Decision
from reefcast.traces.files import TraceRecorder, remove_former_run, write_run
from reefcast.traces.vocabulary import FOUND_OVERLOADED, LEVELS

FLUSH_ROWS = 500_000


def microseconds(time_s: float) -> int:
    """Return simulated time as traces write it."""
    return int(time_s * 1e6 + 0.5)


def tag_of(message: ControlMessage | Publish) -> str:
    """Return the message's name in a trace."""
    return "publish" if type(message) is Publish else str(message.__struct_config__.tag)


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Options of a trace; see `traces.vocabulary.LEVELS`. `snapshot_s`: simulated seconds between
    snapshots of tables, queues and counters."""

    directory: Path
    level: str = "full"
    sample: float = 1.0
    snapshot_s: float = 1.0

    def validate(self) -> TraceOptions:
        """Return the options themselves. Raises `ConfigurationError` for an unknown level or a
        share that is none."""
        if self.level not in LEVELS:
            raise ConfigurationError(f"trace level {self.level!r} is none of {', '.join(LEVELS)}")
        if not 0 <= self.sample <= 1 or self.snapshot_s <= 0:
            raise ConfigurationError(f"{self}: sample is a share, snapshot_s is above 0")
        return self


@dataclass(frozen=True, slots=True)
class Deliveries:
    """One row per publication and subscription, in the order of delivery.

    `time_us`: when it was delivered, since the start of the run; `number`: of the client's
    subscription; `hops`: links between brokers that were crossed.
    """

    time_us: NDArray[np.int64]
    published_us: NDArray[np.int64]
    publisher: list[str]
    seq: NDArray[np.int64]
    client: list[str]
    number: NDArray[np.int64]
    hops: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.time_us)


class BrokerTrace:
    """One broker's rows; those of the hot loop go straight to the columns."""

    __slots__ = ("_deliveries", "_matchings", "_messages", "everything", "recorder")

    def __init__(self, recorder: TraceRecorder) -> None:
        self.recorder = recorder
        self.everything = recorder.level == "full"
        self._messages = [column.append for column in recorder.columns("message")]
        self._matchings = [column.append for column in recorder.columns("matching")]
        self._deliveries = [column.append for column in recorder.columns("delivery")]

    def wants(self, id: PublicationId) -> bool:
        return self.everything or self.recorder.wants(id)

    def publication_row(
        self, link: LinkName, publish: Publish, size: int, queue_len: int, at: float
    ) -> None:
        """Record that a publication was sent to a neighbour."""
        publication = publish.publication
        time_us, to, message, publisher, seq, size_bytes, waiting = self._messages
        time_us(int(at * 1e6 + 0.5))
        to(link)
        message("publish")
        publisher(publication.publisher)
        seq(publication.seq)
        size_bytes(size)
        waiting(queue_len)

    def matched(
        self, publication: Publication, decision: Decision, cost_s: float, at: float
    ) -> None:
        """Record that a publication was matched in `cost_s` seconds; no row if it was not matched
        here."""
        if decision.matched is None:
            return
        time_us, publisher, seq, matched, duration_ns = self._matchings
        time_us(int(at * 1e6 + 0.5))
        publisher(publication.publisher)
        seq(publication.seq)
        matched(decision.matched)
        duration_ns(int(cost_s * 1e9 + 0.5))

    def delivery_row(
        self, publish: Publish, subscribers: int, subscriptions: int, at: float
    ) -> None:
        time_us, publisher, seq, published_us, clients, matched, hops = self._deliveries
        publication = publish.publication
        time_us(int(at * 1e6 + 0.5))
        publisher(publication.publisher)
        seq(publication.seq)
        published_us(publication.time_us)
        clients(subscribers)
        matched(subscriptions)
        hops(publish.header.hops)


class Had:
    """A memory of which client has which publication. Like the memory of real clients
    (`client.recent`), it is asked only about publications marked *again*, and reads the deliveries
    only then. Unlike theirs it forgets nothing."""

    def __init__(self) -> None:
        self._pairs: set[tuple[PublicationId, LinkName]] = set()
        self._seen = 0

    def new(self, deliver: Deliver, before: Sequence[Deliver]) -> Deliver:
        """Return the delivery to those clients that did not get the publication `before`."""
        for at in range(self._seen, len(before)):
            had = before[at]
            self._pairs.update((had.publish.publication.id, client) for client in had.to)
        self._seen = len(before)
        id = deliver.publish.publication.id
        to = {c: numbers for c, numbers in deliver.to.items() if (id, c) not in self._pairs}
        return Deliver(deliver.publish, to)


class Recording:
    """`forwarded`: publications sent between brokers; `control`: the other messages between them,
    by kind; `delivered_clients`, `delivered_subscriptions`: deliveries, counted in two ways;
    `keep`: whether they are kept as well (`delivered`, `delivered_at`), and what comes again is not
    counted twice. `damaged`: publications of which a fault took a copy."""

    def __init__(self, trace: TraceOptions | None, brokers: Sequence[str], keep: bool) -> None:
        self.keep = keep
        self.counters: Counter[str] = Counter()
        self.control: Counter[str] = Counter()
        self.forwarded = 0
        self.delivered_clients = 0
        self.delivered_subscriptions = 0
        self.discards: Counter[str] = Counter()
        self.damaged: set[PublicationId] = set()
        self.delivered: list[Deliver] = []
        self.delivered_at: list[float] = []
        self._had = Had()
        self.trace = trace
        if trace:
            remove_former_run(trace.directory)
        self.recorders = (
            {b: TraceRecorder(trace.directory, b, trace.level, trace.sample) for b in brokers}
            if trace
            else {}
        )

    @property
    def snapshots(self) -> bool:
        return any(recorder.snapshots for recorder in self.recorders.values())

    def details_of(self, broker: str) -> BrokerTrace | None:
        """Return the recorder for rows about single messages, if they are wanted."""
        recorder = self.recorders.get(broker)
        return BrokerTrace(recorder) if recorder and recorder.details else None

    # --- rows -------------------------------------------------------------------------------------

    def published(self, trace: BrokerTrace | None, publish: Publish, size: int, at: float) -> None:
        publication = publish.publication
        self.counters["published"] += 1
        if trace and trace.wants(publication.id):
            trace.recorder.row("publish", microseconds(at), *publication.id, size)

    def sent(
        self,
        trace: BrokerTrace | None,
        link: LinkName,
        message: ControlMessage | Publish,
        size: int,
        queue_len: int,
        at: float,
    ) -> None:
        """Record that a message was queued for a broker."""
        if type(message) is Publish:
            self.forwarded += 1
        else:
            self.control[tag_of(message)] += 1
        self._message_row(trace, link, message, size, queue_len, at)

    def answered(
        self,
        trace: BrokerTrace | None,
        client: LinkName,
        message: ControlMessage,
        size: int,
        at: float,
    ) -> None:
        """Record that a control message was handed to a client."""
        self._message_row(trace, client, message, size, 0, at)

    def _message_row(
        self,
        trace: BrokerTrace | None,
        link: LinkName,
        message: ControlMessage | Publish,
        size: int,
        queue_len: int,
        at: float,
    ) -> None:
        if trace is None:
            return
        id = message.publication.id if type(message) is Publish else None
        if id is None or trace.wants(id):
            values = (link, tag_of(message), *(id or (None, None)), size, queue_len)
            trace.recorder.row("message", microseconds(at), *values)

    def handed_out(self, trace: BrokerTrace | None, deliver: Deliver, at: float) -> None:
        """Record that one publication was delivered to clients of one broker."""
        if deliver.publish.again and self.keep:
            deliver = self._had.new(deliver, self.delivered)
            if not deliver.to:
                return
        subscriptions = deliver.subscriptions
        self.delivered_clients += len(deliver.to)
        self.delivered_subscriptions += subscriptions
        if self.keep:
            self.delivered.append(deliver)
            self.delivered_at.append(at)
        if trace and trace.wants(deliver.publish.publication.id):
            trace.delivery_row(deliver.publish, len(deliver.to), subscriptions, at)

    def discarded(
        self,
        trace: BrokerTrace | None,
        publish: Publish,
        link: LinkName | None,
        reason: str,
        at: float,
    ) -> None:
        """Record that a publication was discarded. `link`: the neighbour that it was on its way to;
        None if it was at the broker itself."""
        publication = publish.publication
        self.discards[reason] += 1
        if reason in ("fault", "link_lost"):
            self.damaged.add(publication.id)
        if trace and trace.wants(publication.id):
            trace.recorder.row("discard", microseconds(at), *publication.id, link, reason)

    def snapshot(
        self, broker: str, core: Broker, queues: dict[LinkName | None, int], at: float
    ) -> None:
        """Record the sizes of a broker's tables and queues, and its counters."""
        recorder = self.recorders[broker]
        time_us = microseconds(at)
        for table, rows in sorted(core.tables().items()):
            recorder.row("table", time_us, table, rows)
        for link, queue_len in queues.items():
            recorder.row("queue", time_us, link, queue_len)
        for counter, count in sorted(core.counters.items()):
            recorder.row("counter", time_us, None, counter, count)
        for name, count in sorted(core.links.lst.found_overloaded.items()):
            recorder.row("counter", time_us, name, FOUND_OVERLOADED, count)

    @property
    def messages_sent(self) -> int:
        """How many messages of all kinds were sent between brokers."""
        return self.forwarded + self.control.total()

    def flush_if_long(self) -> None:
        """Write files once the columns are long; which ones depends on the run alone."""
        if any(len(r.columns("message")[0]) > FLUSH_ROWS for r in self.recorders.values()):
            self.flush()

    # --- at the end -------------------------------------------------------------------------------

    def flush(self) -> None:
        for recorder in self.recorders.values():
            recorder.flush()

    def write_run(self, run: dict[str, Any]) -> None:
        if self.trace:
            how = {"level": self.trace.level, "sample": self.trace.sample}
            write_run(self.trace.directory, run | how)

    def deliveries(self) -> Deliveries:
        """Return the deliveries as columns. Raises `ConfigurationError` if the run was told not to
        keep them."""
        if not self.keep:
            raise ConfigurationError("this run kept no deliveries; give keep_deliveries=True")
        effects = self.delivered
        widths = np.array([effect.subscriptions for effect in effects], dtype=np.int64)
        rows = np.repeat(np.arange(len(effects)), widths)
        which = rows.tolist()
        publications = [effect.publish.publication for effect in effects]

        def column(values: Sequence[int]) -> NDArray[np.int64]:
            return np.array(values, dtype=np.int64)[rows]

        return Deliveries(
            time_us=column([microseconds(at) for at in self.delivered_at]),
            published_us=column([publication.time_us for publication in publications]),
            publisher=[publications[row].publisher for row in which],
            seq=column([publication.seq for publication in publications]),
            client=[c for e in effects for c, numbers in e.to.items() for _ in numbers],
            number=np.array(
                [n for e in effects for numbers in e.to.values() for n in numbers], dtype=np.int64
            ),
            hops=column([effect.publish.header.hops for effect in effects]),
        )
