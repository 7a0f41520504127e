"""The links of one broker to its neighbours in the overlay: which there are, who dials, and who
may.

At first they are the links of the network file, but for those that were moved since by what is on
disk (`MovedLinks`). A broker dials the one to which it has moved its link, too, which may have
stopped before it knew of that. When the core moves one (`Promote`, `Demote`), a
soft link becomes a link of the overlay as it is, with its connection, its numbers and its queue
(`take_in`), and another one becomes a soft link (`release`).

Two ends rarely change a link at the same instant, and its connection may break in between. So one
end may have a link of the overlay where the other end has none any more, or none yet. Such a link
is not resumed: it is refused until the first end changes, too (`lose`). Meanwhile the core has it
as a soft link, and gets back what was not acknowledged.

A broker that is to stop keeps the links to near neighbours (connected now, or a moment ago): a
connection that breaks while it drains is made again. Neighbours that have been away for longer, or
have no memory of the link, are refused: their publications would be lost with this broker."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from functools import partial

from reefcast.errors import ProtocolError
from reefcast.model.messages import LinkDown, LinkName, Neighbours, Publish
from reefcast.model.wire import Hello, Role
from reefcast.network.file import NetworkFile
from reefcast.routing.capabilities import MovesLinks
from reefcast.server.broker_link import BrokerLink
from reefcast.server.connection import Connection
from reefcast.server.dialing import keep_connected
from reefcast.server.draining import places
from reefcast.server.end import End
from reefcast.server.host import Host
from reefcast.server.outputs import LinkQueue
from reefcast.server.shared import Shared


class OverlayLinks:
    """The links of the overlay; see the module's docstring."""

    def __init__(self, host: Host, network: NetworkFile, shared: Shared) -> None:
        self._host = host
        self._network = network
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self._dials: dict[LinkName, asyncio.Task[None]] = {}
        self._stopping = False
        self._near: set[LinkName] = set()
        self._tell_brokers()
        for name in host.moved.applied_to(network.neighbours(host.me.name)):
            self._new_link(name)

    def _tell_brokers(self) -> None:
        """Tell the core which brokers there are."""
        router = self._host.core.router
        if isinstance(router, MovesLinks):
            router.is_broker = self._network.is_node

    def _new_link(self, name: LinkName) -> BrokerLink:
        host = self._host
        queue = LinkQueue(name, host.limits, host.congestion, host.journal, host.codec)
        host.outputs.links[name] = queue
        return BrokerLink(host, queue, self._away)

    @property
    def links(self) -> dict[LinkName, BrokerLink]:
        """The present links of the overlay, by neighbour."""
        ends = {name: queue.end for name, queue in self._host.outputs.links.items()}
        return {name: end for name, end in ends.items() if isinstance(end, BrokerLink)}

    # --- who dials --------------------------------------------------------------------------------

    def dial(self) -> None:
        """Dial the neighbours that this broker is to dial."""
        for link in self.links.values():
            self._keep_connected(link)

    def _keep_connected(self, link: BrokerLink) -> None:
        # Who has a link by a move that its other end may not know of dials, too, at first.
        router = self._host.core.router
        moved = isinstance(router, MovesLinks) and link.name == router.moved_to
        introduces = moved and not link.dials
        if link.dials or introduces:
            self._dials[link.name] = self._loop.create_task(
                keep_connected(
                    self._shared,
                    self._network.address(link.name),
                    partial(self.new_connection, link),
                    random.Random(f"{self._host.me.session}{link.name}"),
                    link.connection,
                    lambda: not introduces or (link.connection is None and not link.peer_session),
                )
            )

    def new_connection(self, link: BrokerLink) -> Connection:
        """Return a connection to be made to the neighbour. It replaces the present one, and all
        that were begun before: what they say of the link is out of date."""

        def greet(connection: Connection, hello: Hello) -> End | None:
            me = self._host.me.name
            if hello.name != link.name:
                raise ProtocolError(f"broker {me} dialled {link.name!r}, not {hello.name!r}")
            if self._link_of(hello) is not link:
                raise ProtocolError(f"broker {me} has another link to {link.name!r} by now")
            if connection is not link.dialled:
                raise ProtocolError(f"broker {me} has dialled {link.name!r} again since")
            if self._is_late(connection, hello, link):
                return None
            link.greeted(connection, hello)
            return link

        shared = self._shared._replace(dials=link.name)
        link.dialled = Connection(shared, greet, first=link.hello)
        return link.dialled

    def arrive(self, connection: Connection, hello: Hello) -> End | None:
        """Accept a neighbour that dialled; None if it is refused. Raises `ProtocolError` if it is
        no neighbour."""
        known = hello.name in self.links
        link = self._link_of(hello)
        if link.dials and known:
            me = self._host.me.name
            raise ProtocolError(f"broker {me} dials {hello.name}, not the other way round")
        if self._is_late(connection, hello, link):
            return None
        connection.say_hello(link.answer(hello))
        link.greeted(connection, hello)
        if not known:
            self._keep_connected(link)
        return link

    def _is_late(self, connection: Connection, hello: Hello, link: BrokerLink) -> bool:
        """Return whether the broker is to stop and does not keep this link; if so, tell the other
        end."""
        if not self._stopping:
            return False
        if not link.knows(hello):
            self._forget(link.name)
        late = link.name not in self._near
        if late:
            connection.close(f"broker {self._host.me.name} was told to stop", retry=True)
        return late

    def _forget(self, name: LinkName) -> None:
        """Forget this neighbour, because the broker stops without it."""
        self._near.discard(name)
        self._hang_up(name)

    def _hang_up(self, name: LinkName) -> None:
        """Stop dialling this neighbour; a connection that exists stays."""
        attempts = self._dials.pop(name, None)
        if attempts is not None:
            attempts.cancel()

    def _link_of(self, hello: Hello) -> BrokerLink:
        """Return the link that `hello` is for; raises `ProtocolError` if there is none."""
        me = self._host.me
        if hello.network != me.network:
            raise ProtocolError(
                f"broker {me.name} belongs to the network {me.network!r}, "
                f"not to {hello.network!r}; give both brokers the same network file"
            )
        link = self.links.get(hello.name)
        if link is not None and self.is_soft(hello.name) and not link.knows(hello):
            self.lose(hello.name)
            link = None
        if link is None and hello.role is Role.BROKER and self._may_have_moved(hello.name):
            link = self._new_link(hello.name)
        if hello.role is not Role.BROKER or link is None:
            raise ProtocolError(
                f"broker {me.name} has no link to {hello.name!r} now; unless one is being moved, "
                "give both brokers the same network file"
            )
        return link

    def _may_have_moved(self, name: LinkName) -> bool:
        """Return whether a link that this broker does not know may have been moved to it: it may
        have stopped before it heard of that. The other end has it on disk."""
        router, taken = self._host.core.router, name in self._host.outputs.links
        if taken or self._stopping or not isinstance(router, MovesLinks):
            return False
        known = self._network.is_node(name) and name != self._host.me.name
        return known and self._host.keeper is not None and router.may_have_link(name)

    # --- brokers that come and go -----------------------------------------------------------------

    def become(self, network: NetworkFile) -> None:
        """Take over the links of this network file: those to brokers that it has besides are made,
        and those to brokers that it no longer has end."""
        gone = tuple(name for name in self._network.names if name not in network.names)
        self._network = network
        self._tell_brokers()
        known, wanted = self.links, network.neighbours(self._host.me.name)
        for name, link in known.items():
            if name not in network.names:
                self.release(link)
                link.leave(f"broker {name} was taken out of the network")
                del self._host.outputs.links[name]
        new = [name for name in wanted if name not in known]
        there = [name for name in known if name in network.names]
        self._host.driver.handle(Neighbours((*there, *new), gone), "")
        for name in new:
            self._keep_connected(self._new_link(name))

    # --- links that become others -----------------------------------------------------------------

    def is_soft(self, name: LinkName) -> bool:
        """Return whether the core has this link as a soft one, because it is being promoted or
        demoted."""
        return name in self._host.core.soft_links

    def forgotten_by(self, hello: Hello) -> None:
        """Lose the link to a broker that asks for a soft link, if that link has been promoted here:
        the other end has forgotten it."""
        link = self.links.get(hello.name)
        if link is None or not self.is_soft(hello.name):
            return
        if link.connection is None or hello.session != link.peer_session:
            self.lose(hello.name)

    def take_in(self, queue: LinkQueue, connection: Connection, peer_session: str) -> None:
        """Make a soft link, with its connection, a link of the overlay."""
        link = BrokerLink(self._host, queue, self._away)
        link.take_over(connection, peer_session)
        self._keep_connected(link)

    def release(self, link: BrokerLink) -> None:
        """Release a link that is no longer of the overlay; a connection that exists stays."""
        self._hang_up(link.name)
        link.close()

    def lose(self, name: LinkName) -> None:
        """Lose a link that the core has as a soft one: the other end has forgotten it, or will not
        return."""
        link = self.links[name]
        self.release(link)
        link.leave()
        lost = tuple(link.queue.window.publications())
        del self._host.outputs.links[name]
        self._host.driver.handle(LinkDown(lost), name)

    def _away(self, link: BrokerLink) -> None:
        """Handle a neighbour that stayed away for longer than the patience."""
        if self.is_soft(link.name):
            self.lose(link.name)
        else:
            link.give_up()
            self._host.driver.handle(LinkDown(), link.name)
            attempts = self._dials.get(link.name)
            if not self._stopping and (attempts is None or attempts.done()):
                self._keep_connected(link)  # the other end may not know of it any more

    # --- the broker's end -------------------------------------------------------------------------

    def refuse(self) -> None:
        """Refuse new links, and links to neighbours that are not near, because the broker is to
        stop."""
        self._stopping = True
        self._near = set(self.links)

    def near(self) -> tuple[LinkName, ...]:
        """Return the neighbours that a stopping broker waits for, and forget the others."""
        links = self.links
        for name in sorted(self._near):
            if name not in links or not links[name].near:
                self._forget(name)
        return tuple(sorted(self._near))

    def unacknowledged(self) -> Iterator[Publish]:
        """Yield the publications that the neighbours may not have."""
        for link in self.links.values():
            yield from link.queue.window.publications()

    @property
    def connected(self) -> tuple[LinkName, ...]:
        """Return the neighbours that are connected now."""
        return tuple(link.name for link in self.links.values() if link.connection is not None)

    def elsewhere(self) -> list[str]:
        """Return where clients of this broker can go, the neighbours that are connected first."""
        return places(self._network, self._host.me.name, self.connected)

    def drained(self) -> bool:
        """Return whether the neighbours that are near have acknowledged everything."""
        near, links = self.near(), self.links
        return all(links[name].queue.window.all_acknowledged for name in near)

    def hang_up(self) -> None:
        """Stop dialling."""
        for name in list(self._dials):
            self._hang_up(name)

    def close(self) -> None:
        """Stop waiting for neighbours."""
        for link in self.links.values():
            link.close()

    # --- what can be seen -------------------------------------------------------------------------

    def status(self) -> Iterator[dict[str, object]]:
        for link in self.links.values():
            yield link.status()
