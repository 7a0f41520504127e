"""The trace of a live broker, in the vocabulary of `traces.vocabulary`.

Rows are appended while publications are handled; files are written by a thread, every `flush_s`
seconds, so that what is older than that survives `kill -9`. Snapshots are taken every second.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from reefcast.logs import part
from reefcast.model import wire
from reefcast.model.messages import (
    FIRST_HOP,
    ControlMessage,
    Deliver,
    Discard,
    LinkName,
    Publish,
    SessionNews,
    is_advisory,
)
from reefcast.network.file import NetworkFile
from reefcast.network.sections import TraceSection
from reefcast.routing.router import Decision
from reefcast.server.floods import Floods
from reefcast.timing import now_us
from reefcast.traces.files import TraceRecorder
from reefcast.traces.vocabulary import FOUND_OVERLOADED
from reefcast.words import counted

QueueOf = Mapping[LinkName, int]
log = part("trace")


class LiveTrace:
    """The trace of one broker; `details` says whether rows about single publications are wanted,
    and `wanted_below` about which ones (`TraceRecorder`)."""

    def __init__(self, recorder: TraceRecorder, flush_s: float) -> None:
        self.details = recorder.details
        self.wanted_below = recorder.wanted_below
        self._recorder = recorder
        self._flush_s = flush_s
        self._flushed_at_s = 0.0
        self._writing: asyncio.Future[None] | None = None

    # --- publications -----------------------------------------------------------------------------

    def published(self, batch: Sequence[Publish]) -> None:
        """Record publications of a client of this broker."""
        recorder, now = self._recorder, now_us()
        for publish in batch:
            p = publish.publication
            if recorder.wants(p.id):
                recorder.row("publish", now, p.publisher, p.seq, len(publish.body))

    def matched(self, routed: Sequence[tuple[Publish, Decision]], took_ns: int) -> None:
        """Record publications that the core has routed; no row for those that it did not match.
        This broker's own, advisory events, count as published when they are routed."""
        recorder, now = self._recorder, now_us()
        share_ns = took_ns // max(len(routed), 1)
        for publish, decision in routed:
            p = publish.publication
            if is_advisory(p.id) and not publish.header.hops:
                self.published([publish])
            if decision.matched is not None and recorder.wants(p.id):
                recorder.row("matching", now, p.publisher, p.seq, decision.matched, share_ns)

    def delivered(self, deliver: Deliver) -> None:
        """Record a delivery: one row stands for all clients of this broker that got the
        publication."""
        p = deliver.publish.publication
        if self._recorder.wants(p.id):
            who = (len(deliver.to), deliver.subscriptions, deliver.publish.header.hops)
            self._recorder.row("delivery", now_us(), p.publisher, p.seq, p.time_us, *who)

    def discarded(self, discard: Discard, link: LinkName | None) -> None:
        p = discard.publish.publication
        if self._recorder.wants(p.id):
            self._recorder.row("discard", now_us(), p.publisher, p.seq, link, discard.reason)

    def message(
        self, link: LinkName, message: ControlMessage | Publish, size_bytes: int, queue_len: int
    ) -> None:
        """Record that a frame of `size_bytes` was put on a link."""
        row, now = self._recorder.row, now_us()
        if isinstance(message, Publish):
            p = message.publication
            if self._recorder.wants(p.id):
                row("message", now, link, "publish", p.publisher, p.seq, size_bytes, queue_len)
        else:
            tag = type(message).__struct_config__.tag
            row("message", now, link, tag, None, None, size_bytes, queue_len)

    # --- snapshots and files ----------------------------------------------------------------------

    def snapshot(
        self,
        tables: Mapping[str, int],
        queues: QueueOf,
        counters: Mapping[str, int],
        overloaded: Mapping[LinkName, int],
    ) -> None:
        """Record a snapshot. `overloaded`: how often decisions met a link overloaded."""
        row, now = self._recorder.row, now_us()
        for table, rows in tables.items():
            row("table", now, table, rows)
        for link, queue_len in queues.items():
            row("queue", now, link, queue_len)
        for counter, count in counters.items():
            row("counter", now, None, counter, count)
        for link, count in overloaded.items():
            row("counter", now, link, FOUND_OVERLOADED, count)

    def flush_if_due(self, now_s: float) -> None:
        """Start writing files in a thread, unless some are being written or it is too early."""
        if now_s - self._flushed_at_s < self._flush_s or self._busy:
            return
        self._flushed_at_s = now_s
        rows = self._recorder.drain()
        self._writing = asyncio.get_running_loop().run_in_executor(None, self._write, rows)

    def _write(self, rows: dict[str, list[list[Any]]]) -> None:
        """Write rows to files; after a failure, such as a full disk, the trace lacks them, and the
        broker goes on."""
        try:
            odd = self._recorder.write(rows)
        except Exception as error:
            lost = sum(len(columns[0]) for columns in rows.values())
            unforeseen = None if isinstance(error, OSError) else error
            log.error("%s of the trace lost: %s", counted(lost, "row"), error, exc_info=unforeseen)
        else:
            if odd:
                log.error("%s of the trace lost: numbers beyond 64 bits", counted(odd, "row"))

    @property
    def _busy(self) -> bool:
        return self._writing is not None and not self._writing.done()

    async def finish(self) -> None:
        """Write everything that is left."""
        if self._writing is not None:
            await self._writing
        self._write(self._recorder.drain())

    async def finish_beside(self) -> None:
        """Write everything that is left in a thread, because the broker goes on."""
        if self._writing is not None:
            await self._writing
        await asyncio.to_thread(self._write, self._recorder.drain())


def describe_run(network: NetworkFile) -> dict[str, Any]:
    """Return what `run.json` says of a live run."""
    scot = network.scot()
    return {
        "simulated": False,
        "network": network.network.name,
        "routing": network.network.routing,
        "brokers": network.names,
        "links": [list(link.between) for link in network.link],
        "places": msgspec.to_builtins(scot.places) if scot else {},
        "seed": None,
        "level": network.trace.level,
        "sample": network.trace.sample,
    }


def open_trace(section: TraceSection, broker: str) -> LiveTrace | None:
    """Open the trace that the network file asks for; load the Parquet library now, not later."""
    if section.level == "off":
        return None
    import pyarrow.parquet  # noqa: F401 (loaded now, not while the first events wait)

    recorder = TraceRecorder(section.directory, broker, section.level, section.sample)
    return LiveTrace(recorder, section.flush_s)


class Journal:
    """Counts and records of what happens in one live broker beyond its core's own counters, or in
    the admin listener of a storage.

    `trace` is None where none is wanted, `details` where it has no rows about publications. `kind`:
    "broker" or "storage".
    """

    def __init__(self, broker: str, trace: LiveTrace | None, kind: str = "broker") -> None:
        self.counters: Counter[str] = Counter()
        self.floods = Floods(self.counters, broker, kind)
        self._broker, self._kind = broker, kind
        self._follow(trace)

    def _follow(self, trace: LiveTrace | None) -> None:
        self.trace = trace
        self.details = trace if trace is not None and trace.details else None

    def trace_by(self, trace: LiveTrace | None) -> LiveTrace | None:
        """Write into another trace from now on; return the former one, which is to be finished."""
        former = self.trace
        self._follow(trace)
        return former

    @property
    def wanted_below(self) -> int:
        """Rows of publications with a smaller `id_hash` are wanted; 0: of none."""
        return 0 if self.trace is None else self.trace.wanted_below

    def lost(self, publish: Publish, reason: str, link: LinkName) -> None:
        """Record that a publication was lost on its way to `link`."""
        words = "broker %s: publication %s of %s did not reach %s, and is lost"
        names = self._broker, publish.publication.seq, publish.publication.publisher, link
        about = {"link": link, "client": publish.publication.publisher, "reason": reason}
        self.floods.log(part("links"), logging.WARNING, reason, words, *names, about=about)
        if self.details is not None:
            self.details.discarded(Discard(publish, reason), link)

    def dropped(self, body: Callable[[], bytes], client: LinkName) -> None:
        """Record a publication dropped for a client that does not keep up; decode it only if rows
        are wanted."""
        self.counters["queue_full"] += 1
        if self.details is not None:
            encoded = body()
            publish = Publish(wire.decode_publication(encoded), FIRST_HOP, encoded)
            self.details.discarded(Discard(publish, "queue_full"), client)

    def discarded(self, discard: Discard) -> None:
        """Record a discard of the core, which has counted those that nobody wanted, or that came
        twice."""
        if discard.link:
            self.lost(discard.publish, discard.reason, discard.link)
        elif self.details is not None:
            self.details.discarded(discard, None)

    def happened_to_session(self, news: SessionNews) -> None:
        """Record what a durable session lost, or is about to lose."""
        words = "broker %s: durable session %r of %s: %s, %d times%s"
        what = news.kind.replace("_", " ")
        names = self._broker, news.session, news.owner, what, news.count
        reason = f": {news.reason}" if news.reason else ""
        about = {"session": news.session, "user": news.owner, "reason": news.reason or what}
        session_log = part("sessions")
        self.floods.log(
            session_log, logging.WARNING, "session_news", words, *names, reason, about=about
        )

    def failed(self, what: str, error: Exception | None = None) -> None:
        """Record a failure; call it where the exception is handled, if no `error` is given. `what`
        follows "failed"."""
        words, shown = f"{self._kind} %s failed %s", part(self._kind)
        traceback = True if error is None else error
        self.floods.log(
            shown, logging.ERROR, "failures", words, self._broker, what, traceback=traceback
        )
