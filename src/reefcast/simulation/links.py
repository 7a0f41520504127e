"""A directed link: an output queue, a sender of some bandwidth, a wire of some latency.

Theory of operation
-------------------
The sender is a FIFO server, the link's own or one that several links share (see `senders`), so that
a message's end of transmission is known the moment it is queued: `max(queued, free) + size /
bandwidth`. Changes of bandwidth and partitions are known before the run (see `faults`), so the sum
runs through them. The end of each transmission stays in a deque: how many lie after an instant is
the length of the queue at that instant.

Jitter (mean of an exponential distribution) and faults draw from a generator of the link's own, in
the order in which messages are queued: what happens on one link never depends on another. A message
never overtakes another on its link: it arrives at the earliest when the one before it did.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from reefcast.errors import ConfigurationError
from reefcast.model.messages import PeerMessage, Publish
from reefcast.simulation.faults import (
    BandwidthChange,
    Delay,
    Drop,
    LinkFault,
    Partition,
    Reorder,
    touches,
)
from reefcast.simulation.senders import Sender

DROPPED = -1.0


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """Latency in seconds, bandwidth in bytes per second, mean of the exponential jitter in
    seconds."""

    latency_s: float = 1e-3
    bytes_per_s: float = 125e6
    jitter_s: float = 0.0

    def validate(self) -> LinkSpec:
        """Return the spec itself. Raises `ConfigurationError` for numbers that no link has."""
        if not (self.latency_s >= 0 and self.jitter_s >= 0 and self.bytes_per_s > 0):
            raise ConfigurationError(f"{self}: latency and jitter are from 0, bandwidth above 0")
        if not all(map(math.isfinite, (self.latency_s, self.bytes_per_s, self.jitter_s))):
            raise ConfigurationError(f"{self}: a link's numbers are finite")
        return self


class Link:
    """`source` and `target` are brokers' names; `rank` orders simultaneous arrivals.

    `session` counts the times that an end crashed or came back: what belongs to an earlier session
    is lost, unless it was `emptied`; `ended` says when each one ended. `rates` are
    `(from_s, bytes_per_s)`, ascending. `number` counts the messages. `steady`: no fault touches the
    link. `flight`: for a kernel, what is on its way, in the order of arrival. `soft`: see
    `soft_links`; `open`: such a one is, from the side of its source.
    """

    __slots__ = (
        "_delays",
        "_draw",
        "_drops",
        "_per_jitter",
        "_reorders",
        "bytes_per_s",
        "cuts",
        "emptied",
        "ended",
        "flight",
        "jitter_s",
        "last_arrival",
        "latency_s",
        "number",
        "open",
        "queued",
        "rank",
        "rates",
        "rng",
        "sender",
        "session",
        "soft",
        "source",
        "spec",
        "steady",
        "target",
    )

    def __init__(
        self,
        source: str,
        target: str,
        spec: LinkSpec,
        faults: Sequence[LinkFault],
        rank: int,
        seed: int,
        *,
        soft: bool = False,
        sender: Sender | None = None,
    ) -> None:
        """Make a link; `sender`: None for one of its own."""
        mine = [fault for fault in faults if touches(fault, (source, target))]
        self.source, self.target, self.spec, self.rank = source, target, spec, rank
        self.rng = random.Random(f"{seed}/link/{source}/{target}")
        self.rates = _rates(spec, mine)
        self.cuts = sorted((f.from_s, f.to_s) for f in mine if isinstance(f, Partition))
        self._drops = [f for f in mine if isinstance(f, Drop)]
        self._delays = [f for f in mine if isinstance(f, Delay)]
        self._reorders = [f for f in mine if isinstance(f, Reorder)]
        self.steady = not mine
        self.jitter_s = spec.jitter_s
        self._per_jitter = 1 / spec.jitter_s if spec.jitter_s else 0.0
        self._draw = self.rng.random
        self.latency_s, self.bytes_per_s = spec.latency_s, spec.bytes_per_s
        self.soft, self.open = soft, not soft
        self.session = 0
        self.ended: list[float] = []
        self.emptied: set[int] = set()
        self.number = 0
        self.sender = sender or Sender()
        self.last_arrival = 0.0
        self.queued: deque[float] = deque()
        self.flight: deque[tuple[Any, ...]] = deque()

    def queue_len(self, now: float) -> int:
        """Return how many publications are queued or being transmitted at `now`, which never goes
        back."""
        queued = self.queued
        while queued and queued[0] <= now:
            queued.popleft()
        return len(queued)

    def begin_session(self, now: float) -> None:
        """Begin a new session after an end crashed or restarted: what is queued or on the wire no
        longer counts."""
        self.session += 1
        self.ended.append(now)
        self.sender.free_at = self.last_arrival = now
        self.queued.clear()

    def extra_s(self, now: float, message: Any) -> float:
        """Return the time of the message on the wire beyond the latency, drawn when it is queued;
        or `DROPPED`."""
        extra = -log(1.0 - self._draw()) / self._per_jitter if self.jitter_s else 0.0
        if self.steady:
            return extra
        for delay in self._delays:
            if delay.from_s <= now < delay.to_s:
                extra += delay.extra_s
        for reorder in self._reorders:
            if reorder.from_s <= now < reorder.to_s and self.rng.random() < reorder.share:
                extra += self.rng.uniform(0.0, reorder.up_to_s)
        for drop in self._drops:
            share = _lost_share(drop, message)
            if drop.from_s <= now < drop.to_s and share and self.rng.random() < share:
                return DROPPED
        return extra

    def transmitted_at(self, start: float, size: float) -> float:
        """Return when the last of `size` bytes leaves if the first leaves at `start`."""
        rates = self.rates
        index = bisect_right(rates, start, key=_first) - 1
        while True:
            rate = rates[index][1]
            end = start + size / rate if rate else math.inf
            if index + 1 == len(rates) or end <= rates[index + 1][0]:
                return end
            index += 1
            size -= rate * (rates[index][0] - start)
            start = rates[index][0]

    def arrives_at(self, sent: float, extra: float) -> float:
        """Return when a message arrives whose transmission ended at `sent`; the arrivals of all
        before it must be known."""
        arrival = sent + self.spec.latency_s + extra
        for cut_from, cut_to in self.cuts:
            if cut_from <= arrival < cut_to:
                arrival = cut_to + self.spec.latency_s
        arrival = max(arrival, self.last_arrival)
        self.last_arrival = arrival
        return arrival

    def arrives_steadily(self, sent: float) -> float:
        """Return the same as `arrives_at` with `extra_s`, in one step, for a link with jitter that
        no fault touches."""
        arrival = sent + self.latency_s - log(1.0 - self._draw()) / self._per_jitter
        if arrival < self.last_arrival:
            return self.last_arrival
        self.last_arrival = arrival
        return arrival


def _lost_share(drop: Drop, message: Any) -> float:
    if type(message) is Publish:
        return drop.share
    return drop.control if isinstance(message, PeerMessage) and not message.settles else 0.0


def _first(rate: tuple[float, float]) -> float:
    return rate[0]


def _rates(spec: LinkSpec, faults: Sequence[LinkFault]) -> list[tuple[float, float]]:
    """Return the bandwidth over time: what was last set, and nothing while the link is cut."""
    changes = sorted(
        (f.at_s, f.bandwidth_mbit_per_s * 125_000) for f in faults if isinstance(f, BandwidthChange)
    )
    cuts = [(f.from_s, f.to_s) for f in faults if isinstance(f, Partition)]
    instants = {0.0, *(at for at, _ in changes), *(at for cut in cuts for at in cut)}
    rates = []
    for at in sorted(instants):
        rate = spec.bytes_per_s
        for changed, value in changes:
            if changed <= at:
                rate = value
        cut = any(cut_from <= at < cut_to for cut_from, cut_to in cuts)
        rates.append((at, 0.0 if cut else rate))
    return rates
