"""Soft links in the simulator: links that brokers open and close themselves (`OpenLink`).

Each end sends a sign on the link when it is open from its side (`SoftUp`), and when nothing more
comes (`SoftDown`): in order among the publications, so that none of them is lost. The signs stand
for the frames of connections; the cores get `LinkUp` and `LinkDown`, as live ones do.

A soft link that is cut (`faults.Cut`, or a crash) gives the cores what was not delivered. What
waits for the other end's CPU has been delivered, but is not yet acknowledged: it is given, too, and
served all the same, as it may be live."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from reefcast.model.messages import (
    CloseLink,
    ControlMessage,
    Effect,
    Input,
    LinkDown,
    LinkKind,
    LinkName,
    LinkUp,
    Publish,
)
from reefcast.routing.capabilities import SoftLink
from reefcast.simulation.links import Link
from reefcast.simulation.node import Node, Service
from reefcast.simulation.signs import SoftDown, SoftGone, SoftUp


class Handling(NamedTuple):
    """The functions of the world that soft links need: to make a link, to send on one, to act at a
    given time (`World.when`), to empty a link (returning the publications that were under way), and
    to lose something."""

    make: Callable[[Node, Node], Link]
    send: Callable[[Node, Link, Any, float], None]
    when: Callable[[Node, float, Callable[[], None]], None]
    empty: Callable[[Link, float], list[Publish]]
    lose: Callable[[Node, Input, float, LinkName], None]


class HasNodes(Protocol):
    nodes: dict[str, Node]


class SoftLinks:
    """The soft links of one world."""

    def __init__(self, world: HasNodes, handling: Handling) -> None:
        self._nodes = world.nodes
        self._do = handling

    # --- opening and closing ----------------------------------------------------------------------

    def open(self, node: Node, to: LinkName, at: float) -> None:
        other = self._nodes[to]
        for a, b in ((node, other), (other, node)):
            if b.name not in a.links:
                a.links[b.name] = self._do.make(a, b)
                a.judge()
        if other.up:
            self._say_up(node, to, at)
        else:
            self._find_gone(node, to, (), at)

    def _say_up(self, node: Node, to: LinkName, at: float) -> None:
        node.links[to].open = True
        self._do.send(node, node.links[to], SoftUp(node.name), at)

    def close(self, node: Node, to: LinkName, at: float) -> None:
        """Close a soft link from this side if it is open; a cut one is not, as the core will
        learn."""
        if not node.links[to].open:
            return
        node.links[to].open = False
        if self._nodes[to].up:
            self._say_down(node, to, at)
        else:
            self._tell_gone(node, to, (), at)

    def _say_down(self, node: Node, to: LinkName, at: float) -> None:
        self._do.send(node, node.links[to], SoftDown(node.name), at)

    def change(self, node: Node, link: LinkName, *, overlay: bool) -> None:
        """Promote or demote it in both directions at once: the first end to say so decides. A link
        that was cut in the meantime stays a soft one."""
        other = self._nodes[link]
        if not node.links[other.name].open:
            return
        for a, b in ((node, other), (other, node)):
            a.links[b.name].soft = not overlay
            others = [name for name in a.neighbours if name != b.name]
            a.neighbours = (*others, b.name) if overlay else tuple(others)
            (a.linked.add if overlay else a.linked.discard)(b.name)

    def demote(self, node: Node, now: float) -> None:
        """Fail the links of `node`, which is down, that their other ends hold for soft links."""
        for name in node.neighbours:
            other = self._nodes[name]
            if node.name in other.core.soft_links:
                self.change(node, name, overlay=False)
                self.cut(node, other, now)

    # --- what comes -------------------------------------------------------------------------------

    def came(self, node: Node, sign: SoftUp | SoftDown | SoftGone, start: float) -> list[Effect]:
        """Handle a sign that arrived: give the core the input that it means."""
        if isinstance(sign, SoftUp):
            return node.core.handle(LinkUp(LinkKind.SOFT), sign.source, start)
        lost = sign.lost if isinstance(sign, SoftGone) else ()
        state = node.core.soft_links.get(sign.source)
        if not lost and state is None:
            return []  # it was refused, or closed or cut in the meantime
        if state is SoftLink.OPENING:
            node.links[sign.source].open = False  # refused: there is nothing open to be closed
        return node.core.handle(LinkDown(lost), sign.source, start)

    def served(self, node: Node, service: Service, *, came_up: bool) -> None:
        """Open or close this side after the core has handled the sign, unless that is done, or the
        link was cut meanwhile. That the link went down (not `came_up`) comes before the core's
        effects: one of them may open it again."""
        sign, sessions, at = service.item, service.sessions, service.at
        if not isinstance(sign, SoftUp | SoftDown):
            return
        source, back = sign.source, node.links[sign.source]
        if sessions is not None and sessions[source] != back.session:
            return
        if isinstance(sign, SoftUp) is not came_up:
            return
        if not came_up:
            self.close(node, source, at)
        elif CloseLink(source) in service.effects:
            self._say_down(node, source, at)
        elif not back.open:
            self._say_up(node, source, at)

    # --- failures ---------------------------------------------------------------------------------

    def cut_all(self, links: Iterable[tuple[LinkName, LinkName]], now: float) -> None:
        """Cut those of `links` that are open soft links."""
        for a, b in links:
            if self.is_soft(a, b):
                self.cut(self._nodes[a], self._nodes[b], now)

    def is_soft(self, a: LinkName, b: LinkName) -> bool:
        link = self._nodes[a].links.get(b)
        return link is not None and link.soft

    def cut(self, a: Node, b: Node, now: float) -> None:
        """Cut the connection between two nodes."""
        self._fail(a, b, now)
        self._fail(b, a, now)

    def _fail(self, node: Node, other: Node, now: float) -> None:
        """Fail the direction from `node` to `other`."""
        out = node.links[other.name]
        lost = self._do.empty(out, now)
        state = node.core.soft_links.get(other.name)
        begun = state is not None and (out.open or state is not SoftLink.OPENING)
        out.open = False
        waiting = self._not_acknowledged(node, other)
        if not node.up:
            for publish in lost:
                self._do.lose(node, publish, now, other.name)
            return
        lost += waiting
        if lost or begun:
            self._tell_gone(node, other.name, lost, now)

    @staticmethod
    def _not_acknowledged(node: Node, other: Node) -> list[Publish]:
        """Return what came from `node` and waits at `other`: publications, which stay, and signs,
        which mean nothing any more."""
        mine = [entry for entry in other.queue if entry[1] == node.name]
        for entry in mine:
            if isinstance(entry[2], SoftUp | SoftDown):
                other.queue.remove(entry)
        return [item for _, _, item, _ in mine if isinstance(item, Publish)]

    @staticmethod
    def _tell_gone(node: Node, to: LinkName, lost: Sequence[Publish], at: float) -> None:
        """Tell the core in its turn, once, that the link is gone, with what is lost until then."""
        queue = node.queue
        for i, (since, link, item, size) in enumerate(queue):
            if link == to and isinstance(item, SoftGone):
                queue[i] = (since, to, SoftGone(to, (*item.lost, *lost)), size)
                return
        queue.append((at, to, SoftGone(to, tuple(lost)), 0))

    def stranded(self, node: Node, out: Link, message: ControlMessage | Publish, at: float) -> None:
        """Handle a message that the core sent before it learned that the link is cut; only
        publications are reported as lost."""
        if isinstance(message, Publish):
            self._find_gone(node, out.target, [message], at)

    def _find_gone(self, node: Node, to: LinkName, lost: Sequence[Publish], at: float) -> None:
        """Tell the core as an effect of a service that ends at `at`: what waits already is served
        before that."""
        tell = partial(self._tell_gone, node, to, lost, at)
        if any(link == to and isinstance(item, SoftGone) for _, link, item, _ in node.queue):
            tell()
        else:
            self._do.when(node, at, tell)
