"""Soft links: connections to other brokers that the core opens and closes (`OpenLink`,
`CloseLink`).

Rules
-----
- A soft link is one connection. It carries publications and the messages of the routing
  (`PeerMessage`), but nothing that changes tables. It is never resumed: when it breaks, the core
  gets `LinkDown` at once, with the unacknowledged publications.
- A broker that is in no file (a peer) is dialled at the address in its name
  (`NetworkFile.address`).
- Either broker may dial. The dialled one asks its core (`LinkUp`), which may refuse (`CloseLink`).
- A broker that did not answer has less time to answer when it is dialled again.
- If two brokers dial each other at the same time, the connection of the one whose name sorts first
  counts: this one refuses the other's connection, and the other gives up its own when it arrives.
- A broker that dials one which still has the link is refused: the link must end there first, if
  need be by silence. Only a broker that restarted need not wait for that.
- Each direction of a link is *closed* by itself: when everything sent is acknowledged, DONE says
  that nothing more comes, and the core of the other end gets `LinkDown`. That end then closes its
  direction in the same way. After the second DONE nothing is under way but answers that nobody
  waits for, and the connection ends.
- `Promote` makes a soft link that is up a link of the overlay (see `overlay_links`); `Demote` makes
  a former link of the overlay a soft link. A demoted link without a connection is over. Messages
  that the other end sends before it learns of the demotion still reach the core; congestion notices
  concern only links of the overlay, and are ignored here.
- If a broker dials that this one has as a neighbour in the overlay, but without a connection, it
  had no link to promote: so the link is a soft one here, too, and over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar

import msgspec

from reefcast.errors import ProtocolError
from reefcast.logs import about, part
from reefcast.model import wire
from reefcast.model.messages import (
    Confirmed,
    ControlMessage,
    LinkDown,
    LinkKind,
    LinkName,
    LinkUp,
    Publish,
    Refused,
    Settled,
    Synced,
    TableChange,
)
from reefcast.model.wire import Congestion, FrameKind, Hello, Role
from reefcast.network.file import NetworkFile
from reefcast.server.broker_end import BrokerEnd
from reefcast.server.connection import Connection
from reefcast.server.dialing import (
    ANSWER_AGAIN_S,
    CONNECT_S,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    dial,
)
from reefcast.server.end import End, NativeLine
from reefcast.server.host import Host
from reefcast.server.outputs import LinkQueue
from reefcast.server.overlay_links import OverlayLinks
from reefcast.server.passage import Run
from reefcast.server.shared import Shared
from reefcast.server.soft_phases import Phase, Step, after
from reefcast.timing import MACHINE, Backoff

log = part("links")


class SoftLink(BrokerEnd):
    """One soft link to broker `name`, while its connection lives. `ended` is called when it is
    over, before the core learns of that, with the link and with whether another one may be opened
    in its place. `former`: whether it was a link of the overlay."""

    what: ClassVar[str] = "a broker, over a soft link"
    overlay: ClassVar[bool] = False

    def __init__(
        self,
        host: Host,
        queue: LinkQueue,
        connection: Connection,
        session: str,
        ended: Callable[[SoftLink, bool], None],
        phase: Phase = Phase.UP,
        *,
        former: bool = False,
    ) -> None:
        super().__init__(host, queue)
        self.session = session
        self.connection = connection
        self.phase = phase
        self._ended = ended
        self._former = former

    @property
    def state(self) -> str:
        """The state of the link, for the broker's status."""
        return "closing" if self.phase in (Phase.CLOSING, Phase.SAID, Phase.HEARD) else "up"

    @property
    def _done_received(self) -> bool:
        return self.phase in (Phase.HEARD, Phase.ENDED)

    # --- from the other end -----------------------------------------------------------------------

    def publications(self, batch: list[Publish]) -> None:
        if self._done_received:
            raise self._out_of_place("PUBLISH")
        super().publications(batch)

    def run(self, run: Run) -> None:
        if self._done_received:
            raise self._out_of_place("PUBLISH")
        super().run(run)

    def control(self, message: ControlMessage) -> None:
        is_answer = isinstance(message, Settled | Refused | Confirmed)
        if is_answer and self._done_received:
            return  # the core no longer waits for it
        if self._done_received or (isinstance(message, TableChange | Synced) and not self._former):
            raise self._out_of_place("CONTROL")
        super().control(message)

    def congestion(self, notice: Congestion) -> None:
        """Ignore a notice: for the other end this is a link of the overlay already, or still."""

    def acknowledged(self, number: int) -> None:
        super().acknowledged(number)
        self._go_on_closing()

    def done(self) -> None:
        if self._done_received:
            raise self._out_of_place("DONE")
        self.phase = after(self.phase, Step.HEAR)
        self._host.driver.handle(LinkDown(), self.name)
        self._go_on_closing()

    def lost(self, connection: NativeLine) -> None:
        """Give unacknowledged publications back to the core, which already knows of the end of the
        link if DONE came before."""
        if connection is not self.connection:
            return
        lost, done_received = tuple(self.queue.window.publications()), self._done_received
        words = "the soft link to %s broke; %d were not acknowledged"
        fields = about(broker=self._host.me.name, link=self.name, count=len(lost))
        log.info(words, self.name, len(lost), extra=fields)
        self.phase = after(self.phase, Step.LOSE)
        self._end(reopen=not lost)  # else this LinkDown is the answer
        if lost or not done_received:
            self._host.driver.handle(LinkDown(lost), self.name)

    # --- closing ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the link; nothing more will be sent."""
        self.phase = after(self.phase, Step.CLOSE)
        self._go_on_closing()

    def _go_on_closing(self) -> None:
        connection = self.connection
        if connection is None:
            return
        if self.phase in (Phase.CLOSING, Phase.HEARD) and self.queue.window.all_acknowledged:
            self.phase = after(self.phase, Step.SAY)
            connection.outbox.push_data(wire.encode(FrameKind.DONE, 0))
        if self.phase is Phase.ENDED:
            self._end()
            connection.close("the soft link is closed")

    def _end(self, *, reopen: bool = True) -> None:
        self.detach()
        self._ended(self, reopen)


class SoftLinks:
    """The soft links of one broker."""

    def __init__(
        self, host: Host, network: NetworkFile, shared: Shared, overlay: OverlayLinks
    ) -> None:
        self.stopping = False
        self._host = host
        self._me = msgspec.structs.replace(host.me, role=Role.SOFT)
        self.network = network
        self._overlay = overlay
        self._shared = shared
        self._loop = asyncio.get_running_loop()
        self._dials: dict[LinkName, asyncio.Task[None]] = {}
        self._backoffs: dict[LinkName, Backoff] = {}
        self._wanted_again: set[LinkName] = set()

    @property
    def links(self) -> dict[LinkName, SoftLink]:
        """The present soft links, by the broker at the other end."""
        ends = {name: queue.end for name, queue in self._host.outputs.links.items()}
        return {name: end for name, end in ends.items() if isinstance(end, SoftLink)}

    # --- what the core wants ----------------------------------------------------------------------

    def open(self, to: LinkName) -> None:
        """Dial broker `to`; the core learns the result, unless the broker is to stop, because the
        core might ask again and again."""
        link = self.links.get(to)
        if link is not None:
            self._wanted_again.add(to)
        elif self.stopping:
            log.info("no soft link to %s: this broker was told to stop", to)
        elif not self._may_have(to):
            self._host.driver.handle(LinkDown(), to)
        elif to not in self._dials:
            self._dials[to] = self._loop.create_task(self._dial(to))

    def close(self, name: LinkName) -> None:
        """Close the link, refuse it, or stop opening it. It may have ended in the meantime, which
        the core has learned or is about to learn."""
        link = self.links.get(name)
        if name in self._dials or name in self._wanted_again:
            self._give_up(name)
            self._host.driver.handle(LinkDown(), name)
        elif link is not None:
            link.close()

    def promote(self, name: LinkName) -> None:
        """Promote this soft link to a link of the overlay; do nothing if it is one already, or has
        ended in the meantime."""
        link = self.links.get(name)
        if link is not None and link.connection is not None:
            self._overlay.take_in(link.queue, link.connection, link.session)

    def demote(self, name: LinkName) -> None:
        """Demote this link of the overlay to a soft link; do nothing if it is one already, or has
        ended in the meantime."""
        former = self._overlay.links.get(name)
        if former is None:
            return
        connection = former.connection
        if connection is None:
            self._overlay.lose(former.name)
            return
        self._overlay.release(former)
        session = former.peer_session
        link = SoftLink(self._host, former.queue, connection, session, self._ended, former=True)
        connection.end = link

    def _give_up(self, name: LinkName) -> None:
        """Give up dialling `name`: the core no longer wants the link, or has it otherwise."""
        attempt = self._dials.pop(name, None)
        if attempt is not None:
            attempt.cancel()
        self._wanted_again.discard(name)

    # --- the broker that dials --------------------------------------------------------------------

    async def _dial(self, to: LinkName) -> None:
        connection: Connection | None = None
        greet = partial(self._dialled, to)
        within_s, pause_s = CONNECT_S, 0.0
        if to in self._backoffs:
            within_s, pause_s = ANSWER_AGAIN_S, self._backoffs[to].pause_s()
        else:  # until it is reached
            self._backoffs[to] = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, MACHINE.get().generator())
        try:
            await asyncio.sleep(pause_s)
            connection = await dial(
                self._shared,
                self.network.address(to),
                lambda: Connection(self._shared._replace(dials=to), greet, lambda: self._me),
                within_s,
            )
            if connection is not None:
                self._loop.call_later(within_s, self._give_up_unanswered, connection)
                await connection.closed.wait()
        except asyncio.CancelledError:
            if connection is not None:
                connection.abort()
            raise
        if self._dials.get(to) is asyncio.current_task():
            refusal = connection.refusal if connection is not None else ""
            log.info("no soft link to %s: %s", to, refusal or "it cannot be reached")
            del self._dials[to]
            self._host.driver.handle(LinkDown(), to)

    @staticmethod
    def _give_up_unanswered(connection: Connection) -> None:
        if not connection.greeted:
            connection.abort()

    def _dialled(self, to: LinkName, connection: Connection, hello: Hello) -> End:
        self._check(hello)
        if hello.name != to:
            raise ProtocolError(f"broker {self._me.name} dialled {to!r}, not {hello.name!r}")
        if self._dials.pop(to, None) is None:
            raise ProtocolError(f"broker {self._me.name} does not want this soft link any more")
        link = self._new(connection, hello, Phase.UP)
        self._host.driver.handle(LinkUp(LinkKind.SOFT), to)
        return link

    # --- the broker that is dialled ---------------------------------------------------------------

    def arrive(self, connection: Connection, hello: Hello) -> End | None:
        """Accept a broker that wants a soft link; None if it is refused. Raises `ProtocolError` for
        a hello that no broker of this network says."""
        self._overlay.forgotten_by(hello)
        self._check(hello)
        reason = self._obstacle(hello) or self._objection(connection, hello)
        if reason:
            connection.close(f"broker {self._me.name} {reason}", retry=True)
            return None
        connection.say_hello(self._me)
        return self.links[hello.name]

    def _check(self, hello: Hello) -> None:
        me = self._me
        if hello.network != me.network or hello.role is not me.role:
            raise ProtocolError(
                f"broker {me.name} belongs to the network {me.network!r}, and this connection is "
                "for soft links; give both brokers the same network file"
            )
        if not self._may_have(hello.name):
            raise ProtocolError(
                f"broker {me.name} has no soft link to {hello.name!r}, which is not a broker of "
                "the network, or is a neighbour; give both brokers the same network file"
            )

    def _may_have(self, name: LinkName) -> bool:
        stranger = name == self._me.name or not self.network.is_node(name)
        return not stranger and name not in self._overlay.links

    def _obstacle(self, hello: Hello) -> str:
        """Return why the link is refused without asking the core."""
        me, other = self._me.name, hello.name
        if self.stopping:
            return "was told to stop"
        if other in self._dials:
            if me < other:
                return f"dials {other} itself, and its connection counts"
            self._give_up(other)
        link = self.links.get(other)
        if link is not None and link.connection is not None:
            if link.session == hello.session:
                return f"has a soft link to {other} already"
            link.connection.close(f"broker {other} started anew")
        return ""

    def _objection(self, connection: Connection, hello: Hello) -> str:
        """Return why the core refuses the link; "" if it accepted it."""
        link = self._new(connection, hello, Phase.ASKED)
        done = self._host.driver.handle(LinkUp(LinkKind.SOFT), link.name)
        if done and link.phase is Phase.ASKED:
            link.phase = after(link.phase, Step.TAKEN)
            return ""
        self._ended(link)
        if link.name in self._host.core.soft_links:  # it failed on the way
            self._host.driver.handle(LinkDown(), link.name)
        return f"does not take a soft link to {link.name}"

    # --- links ------------------------------------------------------------------------------------

    def _new(self, connection: Connection, hello: Hello, phase: Phase) -> SoftLink:
        host = self._host
        queue = LinkQueue(hello.name, host.limits, host.congestion, host.journal, host.codec)
        link = SoftLink(host, queue, connection, hello.session, self._ended, phase)
        link.attach(connection)
        self._backoffs.pop(link.name, None)
        host.outputs.links[link.name] = queue
        return link

    def _ended(self, link: SoftLink, reopen: bool = True) -> None:
        del self._host.outputs.links[link.name]
        again = link.name in self._wanted_again
        self._wanted_again.discard(link.name)
        if again and reopen:
            self.open(link.name)

    # --- the broker's end -------------------------------------------------------------------------

    def refuse(self) -> None:
        """Refuse new links, because the broker is to stop."""
        self.stopping = True
        for attempt in self._dials.values():
            attempt.cancel()

    @property
    def drained(self) -> bool:
        return all(link.queue.window.all_acknowledged for link in self.links.values())

    def leave(self, reason: str) -> None:
        """Close all links; unacknowledged publications are sent over other links."""
        for link in list(self.links.values()):
            if link.connection is not None:
                link.connection.close(reason, retry=True)

    # --- what can be seen -------------------------------------------------------------------------

    def status(self) -> Iterator[dict[str, object]]:
        """Yield the status of the soft links that the core has."""
        for name in self._host.core.soft_links:
            if name in self._overlay.links:
                continue
            link = self.links.get(name)
            yield {
                "link": name,
                "state": "opening" if link is None else link.state,
                "user": "" if link is None else link.user,
                "reconnects": 0,
                "peer_session": "" if link is None else link.session,
            }
