"""Delays that nobody counts: how long matching takes, how old events are when they are delivered,
and how long confirmations take.

They are sampled, so that a busy broker spends nothing on them that can be noticed: about
`SAMPLES_PER_S` reads of publications in a second are looked at, whatever the load (all of them on a
broker that is almost idle), and the confirmations of a few publications at a time. A
broker without an admin listener has a plain `Driver`, which looks at nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic, perf_counter_ns
from types import MappingProxyType
from typing import Any

from reefcast.model.messages import Confirmed, Deliver, Effect, LinkName, Publish, Send
from reefcast.model.publication import PublicationId
from reefcast.model.wire import HEAD_BYTES, decode_publication, split_parts
from reefcast.protocol.batches import Batch
from reefcast.protocol.credit import CongestionControl
from reefcast.routing.broker import Broker
from reefcast.server.driver import Driver, Ways
from reefcast.server.metrics.histograms import MICRO, MILLI, Histogram
from reefcast.server.outputs import Outputs
from reefcast.server.passage import Part, Run
from reefcast.server.tracing import Journal
from reefcast.timing import now_us

TICK_S = 1.0
SAMPLES_PER_S = 100
MOST_PUBLISHERS, MOST_AWAITED = 32, 4
"""Publishers whose confirmations are awaited at a time, and publications of each."""
FORGET_S = 600.0
"""Seconds after which a confirmation that has not come is awaited no more; it counts as that
late."""
LARGEST = 1 << 16
"""Bytes of the largest event that is decoded only to learn when it was published."""
NOTHING: Mapping[int, float] = MappingProxyType({})


class Samples:
    """The sampled delays of one broker, in seconds. `matching`: for each publication of a read that
    was looked at; `delivery`: from publishing, by the publisher's clock; `confirmation`: from when
    a client's publication came; `lag`: how late the loop was."""

    def __init__(self) -> None:
        self.matching = Histogram(MICRO)
        self.delivery = Histogram(MILLI)
        self.confirmation = Histogram(MILLI)
        self.lag = Histogram(MILLI)
        self._ticked_s = monotonic()
        self._reads = self._skip = self._left = 0
        self._awaited: dict[str, dict[int, float]] = {}

    def is_due(self) -> bool:
        """Count a read of publications; return whether it is to be looked at."""
        self._reads += 1
        if self._left:
            self._left -= 1
            return False
        self._left = self._skip
        return True

    def tick(self) -> None:
        """Note how late the loop is, choose how many reads are skipped in the next second, and
        forget what is not coming any more. To be called `TICK_S` after the last time."""
        now = monotonic()
        self.lag.observe(max(0.0, now - self._ticked_s - TICK_S))
        self._ticked_s = now
        self._skip = self._reads // SAMPLES_PER_S
        self._left = min(self._left, self._skip)
        self._reads = 0
        for publisher, own in list(self._awaited.items()):
            for seq in [seq for seq, since_s in own.items() if now - since_s > FORGET_S]:
                self._end(publisher, seq, now)

    def matched(self, count: int, took_ns: int) -> None:
        """Note what matching took for so many publications together."""
        if count:
            self.matching.observe(took_ns / 1e9 / count, count)

    def delivered(self, time_us: int) -> None:
        """Note that an event goes to clients that was published at `time_us`. A publisher whose
        clock is ahead counts as on time."""
        self.delivery.observe(max(0.0, (now_us() - time_us) / 1e6))

    # --- confirmations ----------------------------------------------------------------------------

    @property
    def awaits(self) -> bool:
        """Whether a confirmation is awaited."""
        return bool(self._awaited)

    def came(self, id: PublicationId, now: float) -> None:
        """Expect the confirmation of a client's publication, unless enough are awaited. One that
        was sent again counts from the first time."""
        publisher, seq = id
        own = self._awaited.get(publisher)
        if own is None:
            if len(self._awaited) < MOST_PUBLISHERS:
                self._awaited[publisher] = {seq: now}
        elif len(own) < MOST_AWAITED:
            own.setdefault(seq, now)

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


class _Timed:
    """A way whose work is timed: matching, routing and writing frames in memory, but not what is
    done with its results. `age` is called with frames for a client."""

    def __init__(self, way: Ways, age: Callable[[Batch], None]) -> None:
        self._way = way
        self._age = age
        self.took_ns = 0
        self.count = 0

    def parts(self, run: Run, link: LinkName, clock: Callable[[], float]) -> Iterator[Part]:
        """Yield what the way yields."""
        parts, rest = self._way.parts(run, link, clock), run.count
        while True:
            began_ns = perf_counter_ns()
            part = next(parts, None)
            took_ns = perf_counter_ns() - began_ns
            if part is None:
                self.took_ns += took_ns
                self.count = rest
                return
            if isinstance(part, tuple):
                self.took_ns += took_ns
                for _, is_client, batch in part:
                    if is_client:
                        self._age(batch)
                        break
            else:
                rest -= len(part)
            yield part


class SampledDriver(Driver):
    """A driver that samples."""

    def __init__(
        self,
        core: Broker,
        outputs: Outputs,
        congestion: CongestionControl,
        journal: Journal,
        samples: Samples,
    ) -> None:
        super().__init__(core, outputs, congestion, journal)
        self._samples = samples
        self._looked_at = False

    def handle_run(self, run: Run, way: Ways, link: LinkName) -> None:
        if not self._samples.is_due():
            super().handle_run(run, way, link)
            return
        timed = _Timed(way, self._look_at)
        try:
            super().handle_run(run, timed, link)
        finally:
            self._samples.matched(timed.count, timed.took_ns)

    def _look_at(self, batch: Batch) -> None:
        """Note how old the first event is of those for a client."""
        frame = next(batch.frames())
        if len(frame) < LARGEST:
            publication = decode_publication(split_parts(frame[HEAD_BYTES:])[1])
            self._samples.delivered(publication.time_us)

    def _publications(self, batch: list[Publish], link: LinkName) -> tuple[list[Effect], int]:
        if batch and batch[-1].confirm and link in self._clients:
            self._samples.came(batch[-1].publication.id, monotonic())
        effects, failures = super()._publications(batch, link)
        if self._looked_at:
            self._looked_at = False
            for effect in effects:
                if isinstance(effect, Deliver):
                    self._samples.delivered(effect.publish.publication.time_us)
                    break
        return effects, failures

    def _ask(self, ask: Callable[..., list[Effect]], what: Any, link: LinkName) -> list[Effect]:
        publications = isinstance(what, list)
        if not publications or not self._samples.is_due():
            effects = super()._ask(ask, what, link)
        else:
            began_ns = perf_counter_ns()
            effects = super()._ask(ask, what, link)
            self._samples.matched(len(what), perf_counter_ns() - began_ns)
            self._looked_at = True
        if self._samples.awaits and (not publications or (what and what[-1].confirm)):
            self._see_answers(effects)
        return effects

    def _see_answers(self, effects: list[Effect]) -> None:
        now = monotonic()  # the loop's time may be that of the turn
        for effect in effects:
            if (
                isinstance(effect, Send)
                and isinstance(effect.message, Confirmed)
                and effect.link in self._clients
            ):
                self._samples.confirmed(effect.message, now)
