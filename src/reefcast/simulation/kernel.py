"""The fast kernel: one heap entry per hop.

Rules
-----
- The heap's keys are `(time, rank, number)`, all of them explicit: ranks order what happens at one
  instant (interventions 0, timers 1, clients 2, then every link its own), numbers count per rank.
- An entry of a link is a message's arrival at a broker. The broker's CPU is a FIFO server, so that
  the start of service is `max(arrival, busy until)`, known at once; the core is called there and
  then with that start as its `now`, and what it sends is put on the links at the end of service,
  which gives the arrivals at the neighbours: heap entries again, later ones.
- A service may thus be computed before its time has come. That is sound because all that it reads
  belongs to this broker (its core, its output queues), in the order of its own inputs; and because
  what could come between is known: timers of this broker that are due earlier run first, and
  nothing that starts at or after the next intervention (the `barrier`) is computed; it waits in
  the node's queue. A crash thus finds the backlog, and a change of bandwidth has been in the sum
  already (see `links`).
- `node.limit` is the instant up to which an arrival may be served right away: the barrier, the
  node's next timer, or 0 while inputs wait.

`plain.PlainKernel` is the twin with an event per step, and must write the same trace.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Any

from reefcast.model.messages import Deliver, Input, LinkName, Publish, Send, Timer
from reefcast.simulation.links import DROPPED, Link
from reefcast.simulation.recording import BrokerTrace, Recording, tag_of
from reefcast.simulation.world import FIRST_LINK_RANK, NoProgressError, Node, Setup, World

INTERVENTION, TIMER, CLIENT = 0, 1, 2
FLUSH_MESSAGES = 200_000
"""Messages between two flushes of the trace."""


class Kernel(World):
    """See the module's docstring."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._heap: list[tuple[Any, ...]] = []
        self._timers_set = 0
        self.forwarded = 0
        self._publication_s = self.costs.publication_s
        self._copy_s = self.costs.copy_s
        self._matched_row_s = self.costs.matched_row_s

    # --- the loop ---------------------------------------------------------------------------------

    def under_way(self) -> bool:
        return bool(self._heap)

    def schedule(self, handle: int, at: float) -> None:
        heappush(self._heap, (at, CLIENT, handle))

    def run(self, until: float, limit: int) -> bool:
        last = self.forwarded + limit
        flush_at = self.forwarded + FLUSH_MESSAGES
        if until < math.inf:
            self.add_intervention(until, lambda now: None)
        self._bound()
        while self._step_batch(until):
            if self.forwarded > last:
                raise NoProgressError(
                    f"more than {limit} messages passed between brokers until {self.now:.6f} s, "
                    "and the network is not quiet; give a higher limit if that is right"
                )
            if self.forwarded >= flush_at:
                self.record.flush()
                flush_at = self.forwarded + FLUSH_MESSAGES
        return not self._heap

    def _step_batch(self, until: float, steps: int = 10_000) -> bool:
        """Up to `steps` entries and at most one intervention; False when there is nothing left
        before or at `until`."""
        heap, barrier = self._heap, self.barrier
        for _ in range(steps):
            if not heap or heap[0][0] >= barrier:
                return self._intervene(until)
            entry = heappop(heap)
            rank = entry[1]
            if rank >= FIRST_LINK_RANK:
                self._arrive(entry)
            elif rank == CLIENT:
                self.now = entry[0]
                self._act(entry[0], entry[2])
            else:
                self.now = entry[0]
                self._timer_due(entry)
        return True

    def _intervene(self, until: float) -> bool:
        """Only a start or a repair can set a silent network going again: those alone are awaited
        when nothing is under way."""
        if not self.interventions or self.barrier > until:
            return False
        self.now = at = self.barrier
        while self.interventions and self.interventions[0][0] == at:
            action = self.interventions[0][2]
            self.pop_intervention()
            action(at)
        self._bound()
        for node in self.nodes.values():
            self._drain(node, at)
        return at < until or not self.interventions and bool(self._heap) and at < until

    def _bound(self) -> None:
        for node in self.nodes.values():
            self._set_limit(node)

    def _set_limit(self, node: Node) -> None:
        waits = node.queue or node.urgent or node.relearning
        node.limit = 0.0 if waits else min(self.barrier, node.first_timer()[0])
