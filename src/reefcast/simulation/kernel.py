"""The fast kernel: one heap entry per hop.

Rules
-----
- The heap's keys are `(time, rank, number)`, all of them explicit: ranks order what happens at one
  instant (interventions 0, as what brokers find out by themselves; timers 1, clients 2, then every
  link its own), numbers count per rank.
- An entry of a link is a message's arrival at a broker. Of what is on its way on one link only the
  first is in the heap: the others wait in `Link.flight`, for a link keeps its order, and a full
  output queue holds tens of thousands. Nor is there more of what clients will do than the next.
- The broker's CPU is a FIFO server, so that the start of service is `max(arrival, busy until)`,
  known at once; the core is called there and then with that start as its `now`, and what it sends
  is put on the links at the end of service, which gives the arrivals at the neighbours: heap
  entries again, later ones.
- A service may thus be computed before its time has come. That is sound because all that it reads
  belongs to this broker (its core, its output queues), in the order of its own inputs; and because
  what could come between is known: timers of this broker that are due earlier run first, and
  nothing that starts at or after the next intervention (the *barrier*) is computed: it waits in
  the node's queue. What starts before the barrier and ends after it is `leaving`: its effects are
  applied once the intervention took place. So a crash finds the backlog as it is, and a change of
  bandwidth is in the sum already (see `links`).
- What several brokers share is read and changed in the order of time. So where brokers of one
  machine share a sender (`senders`), nothing is computed before its time: each service is `leaving`
  until the heap comes to its end (`WAKE_RANK`).
- `node.limit` is the instant before which an arrival may be served right away: the barrier, the
  node's next timer, or 0 while something else must come first.

`PlainKernel` of the tests is the twin with an event per step, and must write the same trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from typing import Any, cast

from reefcast.model.messages import (
    Deliver,
    Effect,
    Header,
    Input,
    LinkName,
    Publish,
    Send,
    Timer,
)
from reefcast.simulation.links import DROPPED, Link
from reefcast.simulation.node import Node, Service
from reefcast.simulation.recording import BrokerTrace
from reefcast.simulation.sizes import framed_size, wire_bytes
from reefcast.simulation.world import (
    CLIENT_RANK,
    FIRST_LINK_RANK,
    TIMER_RANK,
    NoProgressError,
    Setup,
    World,
)

WAKE_RANK = -1
"""The rank of ends of services, where nothing is computed before its time."""
ACTION_RANK = 0
"""The rank of actions that brokers find by themselves (`World.when`)."""
STEPS = 20_000
"""Heap entries between two looks at the limit and the length of the trace."""


class Kernel(World):
    """The fast kernel; see the module's docstring."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._heap: list[tuple[Any, ...]] = []
        self._scripts: list[tuple[float, int, int]] = []
        self._first_script = (math.inf, CLIENT_RANK, 0)
        self._nodes = list(self.nodes.values())
        self._targets = {
            link.rank: self.nodes[link.target] for n in self._nodes for link in n.links.values()
        }
        self._barrier = 0.0
        self._actions = 0
        self._background = 0  # entries of the heap that are timers nobody waits for
        self._in_time = setup.sender == "machine"  # nothing is computed before its time
        self.watch: Callable[[Link, Publish, float], None] | None = None
        """Called with each publication that was put on a link, and when."""
        self.served: Callable[[Node, Input, float], None] | None = None
        """Called with each input that a broker was given, and when it began to handle it; the node
        knows until when it is busy with it."""

    # --- the loop ---------------------------------------------------------------------------------

    def under_way(self) -> bool:
        waits = any(node.queue or node.leaving for node in self._nodes)
        return len(self._heap) > self._background or bool(self.interventions) or waits

    def schedule(self, handle: int, at: float) -> None:
        entry = (at, CLIENT_RANK, handle)
        if entry < self._first_script:
            self._first_script = entry
            heappush(self._heap, entry)
        else:
            heappush(self._scripts, entry)

    def make_link(self, node: Node, other: Node, *, soft: bool = False) -> Link:
        link = super().make_link(node, other, soft=soft)
        if soft:
            self._targets[link.rank] = other
        return link

    def set_timer(self, node: Node, key: str, due: float) -> None:
        node.timers[key] = due
        background = key in node.background
        self._background += background
        heappush(self._heap, (due, TIMER_RANK, node.index, key, background))
        self._set_limit(node)

    def when(self, node: Node, at: float, action: Callable[[], None]) -> None:
        self._actions += 1
        heappush(self._heap, (at, ACTION_RANK, self._actions, node, action))

    def send(self, node: Node, out: Link, message: Any, size: int, at: float, session: int) -> None:
        publication = type(message) is Publish
        if session != out.session:
            if not out.soft:
                self.kept.missed(node, out, message, out.ended[session])
            return
        extra = out.extra_s(at, message)
        if extra == DROPPED:
            self.lose(node, message, at, out.target, "fault")
            return
        framed = framed_size(message, size)
        end = out.sender.free_at = out.transmitted_at(max(out.sender.free_at, at), framed)
        queue_len = out.queue_len(at) + publication
        if publication:
            out.queued.append(end)
            if self.watch is not None:
                self.watch(out, message, at)
        self.record.sent(node.trace, out.target, message, framed, queue_len, at)
        out.number += 1
        arrival = out.arrives_at(end, extra)
        entry = (arrival, out.rank, out.number, out, message, size, session)
        out.flight.append(entry)
        if len(out.flight) == 1:
            heappush(self._heap, entry)

    def _cut(self, a: Node, b: Node, now: float) -> None:
        """Cut the links between two brokers: what is on its way is lost when it would have arrived,
        and the links begin anew."""
        for out in (a.links[b.name], b.links[a.name]):
            for entry in list(out.flight)[1:]:
                heappush(self._heap, entry)
            out.flight.clear()
        super()._cut(a, b, now)

    def empty(self, link: Link, now: float) -> list[Publish]:
        under_way = [entry[4] for entry in link.flight]
        link.flight.clear()
        link.emptied.add(link.session)
        link.begin_session(now)
        return [message for message in under_way if type(message) is Publish]

    def run(self, until: float, limit: int, progress: Callable[[float], None]) -> bool:
        last = self.record.messages_sent + limit
        self._raise_barrier(until)
        while True:
            if self._run_some():
                if not self.interventions or self._barrier == until:
                    break
                self._intervene(until)
            if self.record.messages_sent > last:
                raise NoProgressError(
                    f"more than {limit} messages passed between brokers until {self.now:.6f} s, "
                    "and the network is not quiet; give a higher limit if that is right"
                )
            self.record.flush_if_long()
            progress(self.now)
        busy_until = max(node.busy_until for node in self._nodes)
        self.now = max(self.now, until if until < math.inf else busy_until)
        self.clients_hear()
        return not self.under_way()

    def _raise_barrier(self, until: float) -> None:
        """Set the next instant that no service may pass, and serve what the former one held up."""
        next_one = self.interventions[0][0] if self.interventions else math.inf
        self._barrier = min(next_one, until)
        for node in self._nodes:
            if node.up:
                self._drain(node, self.now)

    def _intervene(self, until: float) -> None:
        self.now = at = self._barrier
        while self.interventions and self.interventions[0][0] == at:
            _, _, action = heappop(self.interventions)
            action(at)
        self._raise_barrier(until)

    def _run_some(self, steps: int = STEPS) -> bool:
        """Run up to so many entries; return True when nothing is left before the barrier."""
        heap, targets, barrier = self._heap, self._targets, self._barrier
        serve = self._serve_publication
        for _ in range(steps):
            if not heap or heap[0][0] >= barrier:
                return True
            entry = heap[0]
            if entry[1] < FIRST_LINK_RANK:
                if len(heap) == self._background and self._nobody_waits():
                    return True
                heappop(heap)
                self._not_from_link(entry)
                continue
            arrival, rank, _, link, message, size, session = entry
            if session == link.session:
                flight = link.flight
                flight.popleft()
                if flight:
                    heapreplace(heap, flight[0])
                else:
                    heappop(heap)
            else:
                heappop(heap)
            node = targets[rank]
            start = node.busy_until
            if start < arrival:  # noqa: PLR1730  (a call of max costs more)
                start = arrival
            if start < node.limit and session == link.session and type(message) is Publish:
                serve(node, link.source, message, size, start)
            else:
                self._arrives(node, link, message, size, session, arrival)
        self.now = entry[0]
        return False

    def _nobody_waits(self) -> bool:
        """Return whether nothing is left but background timers, in a run without an end: they would
        come for ever."""
        return self._barrier == math.inf and not any(node.queue for node in self._nodes)

    def _not_from_link(self, entry: tuple[Any, ...]) -> None:
        self.now = at = entry[0]
        if entry[1] == WAKE_RANK:
            self._drain(entry[3], at)
            return
        if entry[1] == ACTION_RANK:
            entry[4]()
            self._drain(entry[3], at)
            return
        if entry[1] == TIMER_RANK:
            node = self._nodes[entry[2]]
            self._background -= entry[4]
            if node.timers.get(entry[3]) == at:
                self._drain(node, at)
            return
        if self._scripts:
            self._first_script = heappop(self._scripts)
            heappush(self._heap, self._first_script)
        else:
            self._first_script = (math.inf, CLIENT_RANK, 0)
        script = self.scripts[entry[2]]
        node, inputs = self.act(script, at)
        start = max(at, node.busy_until)
        first, size = inputs[0] if len(inputs) == 1 else (None, 0)
        if isinstance(first, Publish) and start < node.limit:
            self.record.published(node.trace, first, size, start)
            self._serve_publication(node, script.client, first, size, start)
        elif inputs:
            node.queue.extend((at, script.client, item, size) for item, size in inputs)
            self._drain(node, at)

    def _arrives(
        self, node: Node, link: Link, message: Any, size: int, session: int, arrival: float
    ) -> None:
        """Handle the arrival of a message that cannot be served at once: queue it, keep it for a
        broker that is down, or lose it."""
        self.now = arrival
        if session != link.session:
            if not link.soft and session not in link.emptied:
                self.lose(self.nodes[link.source], message, link.ended[session], link.target)
        elif not node.up:
            self.kept.missed(self.nodes[link.source], link, message, arrival)
        else:
            node.queue.append((arrival, link.source, message, size))
            self._drain(node, arrival)

    # --- a broker's CPU ---------------------------------------------------------------------------

    def _set_limit(self, node: Node) -> None:
        held = node.queue or node.urgent or node.leaving or not node.up or self._in_time
        node.limit = 0.0 if held else min(self._barrier, node.first_timer()[0])

    def _drain(self, node: Node, clock: float) -> None:
        """Serve all that waits at `node` and starts before the barrier."""
        while self._serve_next(node, clock):
            pass
        self._set_limit(node)

    def _serve_next(self, node: Node, clock: float) -> bool:
        """Serve interventions first, then timers that are due before the next start, then the
        queue."""
        barrier, busy_until = self._barrier, node.busy_until
        if node.leaving:
            if node.leaving.at > self._applied_until():
                return False
            service, node.leaving = node.leaving, None
            self.apply(node, service)
            return True
        if node.urgent:
            at, link, item = node.urgent[0]
            if max(at, busy_until) >= barrier:
                return False
            node.urgent.popleft()
            self._serve(node, link, item, 0, max(at, busy_until))
            return True
        start = max(node.queue[0][0], busy_until) if node.queue else max(clock, busy_until)
        due, key = node.first_timer()
        if due <= start and (node.queue or due <= clock):
            if max(due, busy_until) >= barrier:
                return False
            del node.timers[key]
            self._serve(node, "", Timer(key), 0, max(due, busy_until))
            return True
        if not node.queue or start >= barrier:
            return False
        _, link, item, size = node.queue.popleft()
        self._serve(node, link, item, size, start)
        return True

    def _serve(self, node: Node, link: LinkName, item: Input, size: int, start: float) -> None:
        """Serve any input, in its turn."""
        effects = self.handle(node, link, item, size, start)
        self._leave(node, start, item, size, effects)

    def _leave(
        self, node: Node, start: float, item: Input, size: int, effects: list[Effect]
    ) -> None:
        """End the service that began at `start` after its time."""
        service = Service(start + self.prices.of(node, item, effects, start), item, size, effects)
        node.busy_until = service.at
        if self.served is not None:
            self.served(node, item, start)
        if service.at > self._applied_until():
            self._leave_later(node, service)
        else:
            self.apply(node, service)

    def _applied_until(self) -> float:
        """Return until when services may end so that their effects are applied at once."""
        return min(self.now, self._barrier) if self._in_time else self._barrier

    def _leave_later(self, node: Node, service: Service) -> None:
        sessions = {name: link.session for name, link in node.links.items()}
        node.leaving = service._replace(sessions=sessions)
        node.limit = 0.0
        if self._in_time:
            heappush(self._heap, (service.at, WAKE_RANK, node.index, node))

    def _serve_publication(
        self, node: Node, link: LinkName, publish: Publish, size: int, start: float
    ) -> None:
        """Serve a publication, the input that counts: where it was routed, and nothing else with
        it, its effects are its copies."""
        node.now = start
        core, costs, publication = node.core, self.costs, publish.publication
        effects = core.handle_publications((publish,), link, start)
        if len(core.last_routed) != 1:
            self._leave(node, start, publish, size, effects)
            return
        decision = core.last_routed[0][1]
        matching = costs.matching_s(decision, node.prt_rows)
        copies = len(effects) + max(len(decision.local) - 1, 0)  # what `copies_of` would count
        cost = costs.publication_s + matching + costs.copy_s * copies
        if decision.checked or decision.searched:
            cost += costs.choice_s(decision)
        at = node.busy_until = start + cost
        if self.served is not None:
            self.served(node, publish, start)
        trace = node.trace
        if trace is not None and (trace.everything or trace.wants(publication.id)):
            trace.matched(publication, decision, costs.publication_s + matching, start)
        else:
            trace = None
        if at > self._barrier:
            self._leave_later(node, Service(at, publish, size, effects))
        elif node.plain:
            self._leave_now(node, publish, effects, size, at, trace)
        else:
            self.apply(node, Service(at, publish, size, effects))

    def _leave_now(
        self,
        node: Node,
        publish: Publish,
        effects: list[Effect],
        size: int,
        at: float,
        trace: BrokerTrace | None,
    ) -> None:
        """Apply effects as `apply` does, where no link has faults and all effects are of this
        publication."""
        links, heap, watch = node.links, self._heap, self.watch
        sent = 0
        for effect in effects:
            if type(effect) is Send:
                out, message = links.get(effect.link), effect.message
                if out is None or type(message) is not Publish or not out.open:
                    self.apply(node, Service(at, publish, size, [effect]))
                    continue
                sender, queued, header = out.sender, out.queued, message.header
                free_at = sender.free_at
                framed = size if type(header) is Header else size + wire_bytes(header)
                end = (free_at if free_at > at else at) + framed / out.bytes_per_s
                sender.free_at = end
                while queued and queued[0] <= at:
                    queued.popleft()
                queued.append(end)
                sent += 1
                if watch is not None:
                    watch(out, publish, at)
                if trace is not None:
                    trace.publication_row(effect.link, publish, framed, len(queued), at)
                out.number = number = out.number + 1
                arrival = out.arrives_steadily(end) if out.jitter_s else end + out.latency_s
                entry = (arrival, out.rank, number, out, message, size, out.session)
                flight = out.flight
                flight.append(entry)
                if len(flight) == 1:
                    heappush(heap, entry)
            elif type(effect) is Deliver:
                self.record.handed_out(trace, effect, at)
            else:
                self.apply(node, Service(at, publish, size, [effect]))
        self.record.forwarded += sent

    # --- beside somebody who simulates other messages ---------------------------------------------

    def head(self, until: float = math.inf) -> tuple[float, int, Node] | None:
        """Return what comes next before `until`, None if nothing does: when it is due, its rank,
        and the node where it arrives. Before it is served (`step`, `serve_timer`), the node and its
        senders may be made busy for longer. There must be no interventions before `until`."""
        if self._barrier != until:
            self._raise_barrier(until)
        if not self._heap or self._heap[0][0] >= until:
            return None
        due, rank, *entry = self._heap[0]
        return due, rank, self._arrives_at(rank, entry)

    @property
    def is_idle(self) -> bool:
        """Whether nothing comes but timers that nobody waits for."""
        return len(self._heap) == self._background

    def step(self) -> None:
        """Serve what comes next, and nothing else."""
        if self._heap[0][1] >= FIRST_LINK_RANK:
            self._run_some(1)
        else:
            self._not_from_link(heappop(self._heap))

    def serve_timer(self, node: Node) -> None:
        """Serve the timer that is due next at a node where nothing waits, before an input that
        would be served then or later."""
        due, key = node.first_timer()
        del node.timers[key]
        self._serve(node, "", Timer(key), 0, max(due, node.busy_until))
        self._set_limit(node)

    def _arrives_at(self, rank: int, entry: list[Any]) -> Node:
        if rank >= FIRST_LINK_RANK:
            return self._targets[rank]
        if rank == CLIENT_RANK:
            return self.nodes[self.clients[self.scripts[entry[0]].client].broker]
        return self._nodes[entry[0]] if rank == TIMER_RANK else cast(Node, entry[1])
