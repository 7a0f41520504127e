"""The mesh of one broker: what it knows of the primary tree, its soft links, and where copies go.

It stands beside a subscription tree (`routing.tree`), whose rows have their anchors as ways. Who
owns it tells it of primary links and hands on what neighbours say.

Rules
-----
- Only this broker's own tables change when a soft link comes or goes; they do so at once.
- What a soft link that failed has not delivered goes to the same broker along primary links,
  unmatched (a *tunnel*); that one drops what it had got all the same, by its id.
- Every `round_s` links are looked at (`gains`), and loads are told to primary neighbours: those
  that were heard of from others, as far as Delta - 1 hops.

Source: the paper, sections 3 to 6.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from reefcast.model.messages import CloseLink, Header, LinkName, OpenLink, Publish, Send
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.links import Links
from reefcast.routing.mesh.anchors import towards
from reefcast.routing.mesh.gains import Links as LinkSets
from reefcast.routing.mesh.gains import Period, Round, gain, has_room, one_round
from reefcast.routing.mesh.maps import Neighbourhood
from reefcast.routing.mesh.messages import Loads, Tunnel, Vicinity
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.strategies import goes_direct
from reefcast.routing.mesh.traffic import Traffic
from reefcast.routing.mesh.vicinity import VicinityTable
from reefcast.routing.recent import RecentIds
from reefcast.routing.router import Action
from reefcast.routing.tables import Row

RATE_S = 1.0
"""Seconds over which the output rate is measured that SH uses."""
LATELY = 8192
"""Publications that came over soft links and are remembered: more than can be under way on one."""
SHARE_OF_BYTES = 0.02
BYTES_OF_LOAD, BYTES_OF_COPY = 16, 100
"""Bytes of an entry in `Loads`, and the least of a publication: loads may take 2 % of the
traffic."""


class LinkReport(NamedTuple):
    """The result of the last round for a link: publications sent, gain."""

    sent: int
    gain: float


class MeshOverlay:
    """See the module's docstring. `soft_links`: the router's, kept here. `wrap`: the header of a
    copy that goes through a tunnel, from the one that it had. `sent_in_period`: copies since the
    last round, of which loads are told."""

    def __init__(
        self,
        me: LinkName,
        options: MeshOptions,
        soft_links: dict[LinkName, SoftLink],
        links: Links,
        rng: random.Random,
        wrap: Callable[[Header, Tunnel], Header],
    ) -> None:
        self.me = me
        self._wrap = wrap
        self.options = options
        self._uses_soft_links = options.strategy != "S0"  # it may accept them, for others
        self.soft_links = soft_links
        self.candidates: tuple[LinkName, ...] = ()
        self.reports: dict[LinkName, LinkReport] = {}
        self.lost = 0
        self._limits = options.limits()
        self._links = links
        self._rng = rng
        self._vicinity = VicinityTable(me, options.delta)
        self.traffic = Traffic(self.mom)
        self.traffic.paths.direct = goes_direct(options.strategy, 0.0)
        self._branches: dict[LinkName, LinkName] = {}  # first hops, also of brokers not near now
        self._came_from: dict[LinkName, LinkName | None] = {}
        self._seen: RecentIds[tuple[LinkName, str, int]] = RecentIds(LATELY)
        self._loads: dict[LinkName, float] = {}  # heard in this period, or in the last one
        self._loads_now: dict[LinkName, float] = {}  # in this one
        self._window_s = self._period_s = 0.0
        self._sent_in_window = self.sent_in_period = 0

    @property
    def mom(self) -> Neighbourhood:
        return self._vicinity.mom

    # --- primary links ----------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> list[Send]:
        return self._relink(self._vicinity.up(link))

    def link_down(self, link: LinkName) -> list[Send]:
        return self._relink(self._vicinity.down(link))

    def synced(self, link: LinkName) -> list[Send]:
        """Drop what the neighbour has not told anew; its rows have been swept."""
        return self._relink(self._vicinity.synced(link))

    def continues(self, old: MeshOverlay, outer: Sequence[LinkName]) -> None:
        """Become a second set of tables beside `old`, of the same broker: share its soft links, and
        copy what was told by the primary neighbours that a move does not affect (`outer`)."""
        self.soft_links = old.soft_links
        self._seen, self._loads, self._loads_now = old._seen, old._loads, old._loads_now
        self._vicinity.continues(old._vicinity, outer)
        self._window_s = self._period_s = self._links.now
        self._relink([])

    def takes_over(self, old: MeshOverlay, links: Sequence[LinkName]) -> list[Send]:
        """Take the place of `old`: what it told these primary neighbours counts as told by this
        one."""
        return self._relink(self._vicinity.takes_over(old._vicinity, links))

    def again(self, link: LinkName) -> list[Send]:
        """Tell this primary neighbour again what has not reached it."""
        return self._relink(self._vicinity.again(link))

    def relink(self) -> None:
        """Rebuild the maps: soft links came or went."""
        self._relink([])

    def handle(self, message: Vicinity | Loads, link: LinkName) -> list[Send]:
        """Handle a message of a primary neighbour. Raises `ProtocolError`, changing nothing, for
        what cannot be."""
        if isinstance(message, Vicinity):
            return self._relink(self._vicinity.handle(message, link))
        for broker, load in message.loads:
            if broker in self.mom and self.mom.branch(broker) == link:
                self._loads[broker] = self._loads_now[broker] = load
        return []

    def _relink(self, sends: list[Send]) -> list[Send]:
        """Rebuild the maps: the MOM, or the links, have changed."""
        mom = self.mom
        real = [
            link
            for link, state in self.soft_links.items()
            if state.up and link in mom and self._uses_soft_links
        ]
        self.candidates = tuple(
            link for link in self.candidates if link in mom and link not in self.soft_links
        )
        self.traffic.relink(mom, real, self.candidates)
        for link in (*mom.around(self.me), *self.soft_links):
            if link in mom:
                self._branches[link] = mom.branch(link)
        self._came_from = {link: x if x in mom else None for link, x in self._branches.items()}
        return sends

    # --- anchors ----------------------------------------------------------------------------------

    def nearest(self, anchor: LinkName, link: LinkName) -> LinkName:
        """Return the anchor that primary neighbour `link` named, if it is behind that neighbour by
        what is known here (see `vicinity`), else the neighbour itself: it lies on the way."""
        return anchor if self._is_behind(anchor, link) else link

    def _is_behind(self, broker: LinkName, link: LinkName) -> bool:
        return broker in self.mom and self.mom.branch(broker) == link

    def anchor_for(self, row: Row, link: LinkName) -> LinkName:
        """Return the anchor with which the subscription is sent to this primary neighbour: this
        broker itself also for a row whose anchor is not behind its last hop now, or has not come up
        yet since the row was read from disk."""
        if row.local or not self._is_behind(row.next_hop, row.last_hop):
            return self.me
        return towards(self.mom, row.next_hop, link, self.options.delta)

    # --- publications -----------------------------------------------------------------------------

    def sends(self, anchors: Sequence[LinkName], link: LinkName) -> tuple[LinkName, ...]:
        """Return where copies go of a publication that came by `link`, and whose rows have these
        anchors (see `Paths.sends`)."""
        hops = self.traffic.sends(anchors, self._came_from.get(link))
        if hops:
            self._sent(len(hops))
        return hops

    def chosen(self, anchors: Sequence[LinkName], link: LinkName) -> tuple[LinkName, ...]:
        """Return what `sends` does, without counting it; `anchors` are all different."""
        return self.traffic.paths.sends(anchors, self._came_from.get(link))

    @property
    def is_steady(self) -> bool:
        """Whether `chosen` holds for what comes now; else the strategy is chosen anew with the next
        copies."""
        return self.options.strategy != "SH" or self._links.now - self._window_s < RATE_S

    def repeated(self, anchors: Sequence[LinkName], link: LinkName, times: int) -> None:
        """Count that copies went as `chosen` so many times more."""
        self.traffic.repeated(anchors, self._came_from.get(link), times)

    def went(self, copies: int) -> None:
        """Count copies of publications that went as `chosen`, of one input."""
        if copies:
            self._sent(copies)

    def _sent(self, copies: int) -> None:
        """Count copies for the rate that SH depends on."""
        now = self._links.now
        if now - self._window_s >= RATE_S:
            load = self._load(self._sent_in_window, now - self._window_s)
            self.traffic.paths.direct = goes_direct(
                self.options.strategy, load, self.options.load_threshold
            )
            self._window_s, self._sent_in_window = now, 0
        self._sent_in_window += copies
        self.sent_in_period += copies

    def _load(self, sent: int, over_s: float) -> float:
        """Return the load as a share of the capacity of the uplink."""
        capacity = self.options.capacity_per_s
        return sent / over_s / capacity if capacity and over_s else 0.0

    def is_new(self, publish: Publish, source: LinkName) -> bool:
        """Return whether a publication had not come from `source` before, and remember it: it can
        come over the soft link, and out of a tunnel, if that link fails and the other end learns of
        it first."""
        return self._seen.is_new((source, *publish.publication.id))

    # --- soft links -------------------------------------------------------------------------------

    def soft_up(self, link: LinkName) -> list[Action]:
        state = self.soft_links.get(link)
        if state is SoftLink.OPENING:
            self.soft_links[link] = SoftLink.OPENED
        elif state is not None:
            return []
        elif not self._may_accept(link):
            return [CloseLink(link)]
        else:
            self.soft_links[link] = SoftLink.ACCEPTED
        self._relink([])
        return []

    def alongside(self, link: LinkName) -> list[LinkName]:
        """Return the soft links into the branch of this primary neighbour."""
        return [soft for soft in self.soft_links if self._branches.get(soft) == link]

    def _may_accept(self, link: LinkName) -> bool:
        near = link in self.mom and self.mom.distance(link) > 1
        return near and has_room(self.mom, len(self.soft_links), self._limits)

    def tunnel(self, link: LinkName, lost: Sequence[Publish]) -> list[Send]:
        """Send publications to the other end of a soft link that failed, along primary links."""
        branch = self._branches.get(link)
        if branch is None or branch not in self.mom:
            self.lost += len(lost)
            return []
        tunnel = Tunnel(self.me, link)
        return [
            Send(
                branch,
                Publish(
                    publish.publication,
                    self._wrap(publish.header, tunnel),
                    publish.body,
                    publish.again,
                ),
            )
            for publish in lost
        ]

    def round(self) -> list[Action]:
        """Review soft links at the end of a round, and tell loads."""
        sent = self.traffic.end_period()
        period = Period(sent=sent, loads=self._loads, delays_s=self._delays_s())
        found = Round((), (), ())
        if self._uses_soft_links:
            found = one_round(self.mom, self._sets(), period, self._limits, self._rng)
        self._report(period)
        actions: list[Action] = list(self._tell_loads())
        gone = [
            link for link, state in self.soft_links.items() if state.up and link not in self.mom
        ]
        for link in (*found.drop, *gone):
            self.soft_links[link] = SoftLink.CLOSING
            actions.append(CloseLink(link))
        for link in found.promote:
            self.soft_links[link] = SoftLink.OPENING
            actions.append(OpenLink(link))
        self.candidates = found.candidates
        self._relink([])
        return actions

    def _sets(self) -> LinkSets:
        """Return the links in sets. Those that are not up yet, or no longer, count as the other
        end's: they take room."""
        opened = {x for x, state in self.soft_links.items() if state is SoftLink.OPENED}
        return LinkSets(
            opened=frozenset(x for x in opened if x in self.mom),
            accepted=frozenset(self.soft_links.keys() - opened),
            candidates=frozenset(self.candidates),
        )

    def _report(self, period: Period) -> None:
        threshold = self._limits.load_threshold
        self.reports = {
            link: LinkReport(period.sent.get(link, 0), gain(self.mom, link, period, threshold))
            for link in (*self.soft_links, *self.candidates)
            if link in self.mom
        }

    def _delays_s(self) -> dict[LinkName, float]:
        """Return how long a publication would wait for each primary link."""
        found = {}
        for link in self.mom.around(self.me):
            rate = self._links.rates(link).out_per_s
            found[link] = self._links.queue_len(link) / rate if rate else 0.0
        return found

    def _tell_loads(self) -> list[Send]:
        now = self._links.now
        own = self._load(self.sent_in_period, now - self._period_s)
        most = int(self.sent_in_period * SHARE_OF_BYTES * BYTES_OF_COPY / BYTES_OF_LOAD)
        self._period_s, self.sent_in_period = now, 0
        loads_of, self._loads, self._loads_now = self._loads, self._loads_now, {}
        sends = []
        for link in self.mom.around(self.me):
            loads = [(self.me, own)] if own else []
            loads += [
                (broker, loads_of[broker])
                for broker in self.mom.brokers
                if broker in loads_of and self._is_news(broker, link)
            ]
            share = most // max(1, len(self.mom.around(self.me)))
            if loads[:share]:
                sends.append(Send(link, Loads(loads=tuple(loads[:share]))))
        return sends

    def _is_news(self, broker: LinkName, link: LinkName) -> bool:
        """Return whether `link` is to be told of a broker's load: within Delta - 1 hops of it, the
        other way."""
        near = self.mom.distance(broker) < self.options.delta - 1
        return near and self.mom.branch(broker) != link
