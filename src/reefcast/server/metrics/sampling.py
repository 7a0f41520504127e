"""Delays that nobody counts: how long matching takes, how old events are when they are delivered,
and how long confirmations take.

They are sampled, so that a busy broker spends nothing on them that can be noticed. Of publications
one read is looked at, then none for `PAUSE_S`; of those that are to be confirmed, a few are awaited
at a time. For all others the driver asks whether `Samples` are armed, or watching, which is all
that they cost; and brokers without an admin listener have no `Samples`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from time import monotonic, perf_counter_ns
from types import MappingProxyType
from typing import Any, Protocol

from reefcast.model.messages import Confirmed, Deliver, Effect, LinkName, Publish, Send
from reefcast.model.publication import PublicationId
from reefcast.model.wire import HEAD_BYTES, decode_publication, split_parts
from reefcast.protocol.batches import Batch
from reefcast.routing.router import Decision
from reefcast.server.metrics.histograms import MICRO, MILLI, Histogram
from reefcast.server.metrics.top import TopSubscriptions
from reefcast.server.passage import Output, Part, Run
from reefcast.timing import now_us

TICK_S = 1.0
PAUSE_S = 0.02
"""So at most fifty reads are looked at in a second; all of them where few come."""
MOST_PUBLISHERS, MOST_AWAITED = 32, 4
"""Publishers whose confirmations are awaited at a time, and publications of each."""
FORGET_S = 600.0
"""Seconds after which a confirmation that has not come is given up; it counts as that
late."""
COUNTED_OF_READ = 8
"""Publications of a read whose deliveries are counted for their subscriptions."""
LARGEST = 1 << 16
"""Bytes of the largest event that is decoded only to learn when it was published."""
NOTHING: Mapping[int, float] = MappingProxyType({})


class Timable(Protocol):
    """The compiled path of one link (`passage.CompiledPath`)."""

    def parts(self, run: Run, link: LinkName, clock: Callable[[], float]) -> Iterator[Part]:
        """Yield the results of a run."""


class Samples:
    """The sampled delays of one broker, in seconds. `matching`: for each publication of a read that
    was looked at; `delivery`: from publishing, by the publisher's clock; `confirmation`: from when
    a client's publication came; `lag`: how late the loop was. `top`: who gets the deliveries.

    `armed`: the next read of publications is to be looked at. `watching`: so, or the effects of
    inputs are, for a confirmation."""

    def __init__(self) -> None:
        self.matching = Histogram(MICRO)
        self.delivery = Histogram(MILLI)
        self.confirmation = Histogram(MILLI)
        self.lag = Histogram(MILLI)
        self.top = TopSubscriptions()
        self.armed = self.watching = True
        self._loop = asyncio.get_running_loop()
        self._ticked_s = monotonic()
        self._awaited: dict[str, dict[int, float]] = {}

    def tick(self) -> None:
        """Note how late the loop is, and forget what is not coming any more. To be called `TICK_S`
        after the last time."""
        now = monotonic()
        self.lag.observe(max(0.0, now - self._ticked_s - TICK_S))
        self._ticked_s = now
        self.top.tick(now)
        for publisher, own in list(self._awaited.items()):
            for seq in [seq for seq, since_s in own.items() if now - since_s > FORGET_S]:
                self._end(publisher, seq, now)

    # --- publications -----------------------------------------------------------------------------

    def timed(self, path: Timable) -> Timable:
        """Return a path that does the same, and is timed; nothing else is for a while."""
        self._rest()
        return _Timed(path, self)

    def see(
        self,
        what: Any,
        effects: Sequence[Effect],
        took_ns: int,
        clients: Container[LinkName],
        routed: Sequence[tuple[Publish, Decision]],
    ) -> None:
        """Look at an input of the core, its effects, what it took, and what it routed."""
        if self.armed and isinstance(what, list):
            self._rest()
            self.matched(len(what), took_ns)
            step = 1 + len(routed) // COUNTED_OF_READ
            for _, decision in routed[::step]:
                self.top.see_local(decision.local, step)
            first = next((each for each in effects if isinstance(each, Deliver)), None)
            if first is not None:
                self.delivered(first.publish.publication.time_us)
        if self._awaited:
            self._see_answers(effects, clients)

    def matched(self, count: int, took_ns: int) -> None:
        """Note what matching took for so many publications together."""
        if count:
            self.matching.observe(took_ns / 1e9 / count, count)

    def handed_out(self, outputs: Sequence[Output]) -> None:
        """Note who gets events, and how old the first is of those for a client."""
        self.top.see_outputs(outputs)
        batch = next((batch for _, is_client, batch in outputs if is_client), None)
        if batch is not None:
            self._note_age(batch)

    def _note_age(self, batch: Batch) -> None:
        frame = next(batch.frames())
        if len(frame) < LARGEST:
            publication = decode_publication(split_parts(frame[HEAD_BYTES:])[1])
            self.delivered(publication.time_us)

    def delivered(self, time_us: int) -> None:
        """Note that an event goes to clients that was published at `time_us`. A publisher whose
        clock is ahead counts as on time."""
        self.delivery.observe(max(0.0, (now_us() - time_us) / 1e6))

    def _rest(self) -> None:
        self.armed, self.watching = False, bool(self._awaited)
        self._loop.call_later(PAUSE_S, self._arm)

    def _arm(self) -> None:
        self.armed = self.watching = True

    # --- confirmations ----------------------------------------------------------------------------

    def came(self, batch: Sequence[Publish]) -> None:
        """Note publications of a client."""
        if batch and batch[-1].confirm:
            self.expect(batch[-1].publication.id, monotonic())

    def expect(self, id: PublicationId, now: float) -> None:
        """Expect the confirmation of a client's publication, unless enough are awaited. One that
        was sent again counts from the first time."""
        publisher, seq = id
        own = self._awaited.get(publisher)
        if own is None:
            if len(self._awaited) < MOST_PUBLISHERS:
                self._awaited[publisher] = {seq: now}
                self.watching = True
        elif len(own) < MOST_AWAITED:
            own.setdefault(seq, now)

    def _see_answers(self, effects: Sequence[Effect], clients: Container[LinkName]) -> None:
        now = monotonic()  # the loop's time may be that of the turn
        for effect in effects:
            if (
                isinstance(effect, Send)
                and isinstance(effect.message, Confirmed)
                and effect.link in clients
            ):
                self.confirmed(effect.message, now)

    def confirmed(self, answer: Confirmed, now: float) -> None:
        """Note an answer to a client; `kept` is one as well: the publication is safe."""
        own = self._awaited.get(answer.publisher, NOTHING)
        for seq in [seq for seq in own if answer.seq <= seq <= answer.seq + answer.more]:
            self._end(answer.publisher, seq, now)

    def _end(self, publisher: str, seq: int, now: float) -> None:
        own = self._awaited[publisher]
        self.confirmation.observe(now - own.pop(seq))
        if not own:
            del self._awaited[publisher]
            self.watching = self.armed or bool(self._awaited)


class _Timed:
    """A path whose work is timed: matching, routing and writing frames in memory, but not what is
    done with its results."""

    def __init__(self, path: Timable, samples: Samples) -> None:
        self._path = path
        self._samples = samples

    def parts(self, run: Run, link: LinkName, clock: Callable[[], float]) -> Iterator[Part]:
        """Yield what the path yields."""
        parts, count, took_ns = self._path.parts(run, link, clock), run.count, 0
        while True:
            began_ns = perf_counter_ns()
            part = next(parts, None)
            took_ns += perf_counter_ns() - began_ns
            if part is None:
                break
            if isinstance(part, tuple):
                self._samples.handed_out(part)
            else:
                count -= len(part)
            yield part
        self._samples.matched(count, took_ns)
