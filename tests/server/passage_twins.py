"""Two live brokers of one kind, sent the same bytes. One passes publications on by compiled calls
where it can, the other one sends all of them by the readable path. What they write must be the
same."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest import mock

from reefcast.model import wire
from reefcast.model.filters import parse_filter
from reefcast.model.looks import Sightings
from reefcast.model.messages import ControlMessage, MoveLink, PeerMessage, Settled, TableChange
from reefcast.model.wire import RESUME, FrameKind, Hello, Role
from reefcast.network.file import NetworkFile
from reefcast.protocol.frames import FrameReader
from reefcast.routing.mesh.meshed import Meshed
from reefcast.server import connection
from reefcast.server.client_session import ClientSession
from reefcast.server.connection import Connection
from reefcast.server.node import Node
from reefcast.traces.vocabulary import KINDS


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time passes only when it is told to."""

    now = 1000.0
    ties = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, *how: Any, **fields: Any) -> asyncio.TimerHandle:
        """Set a timer. Those for the same time fire in the order in which they were set, for both
        brokers: a heap alone does not keep the order of equals."""
        self.ties += 1
        return super().call_at(when + self.ties * 1e-9, *how, **fields)


@contextmanager
def clock() -> Iterator[Clock]:
    """Yield a loop in which no read takes so long that others get their turn in between."""
    loop = Clock()
    try:
        with mock.patch.object(connection, "SLICE_S", math.inf):
            yield loop
    finally:
        loop.close()


def turn(loop: Clock, turns: int = 3) -> None:
    """Let the loop do what is due."""
    for _ in range(turns):
        loop.run_until_complete(asyncio.sleep(0))


class Line(asyncio.Transport):
    """The transport of a connection: it keeps what is written, and takes `room` writes before it
    pauses."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = b""
        self.room = 1 << 30
        self.closed = False
        self.protocol: Any = None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "uvloop would raise"
        self.written += data
        self.room -= 1
        if self.room == 0:
            self.protocol.pause_writing()

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return False

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.protocol.connection_lost(None)


class Talk:
    """One end of a connection: what it sends to a broker, and what it receives."""

    def __init__(self, node: Node) -> None:
        self.line = Line()
        self.answered = 0
        self.connection = Connection(node.shared, node._greet)
        self.line.protocol = self.connection
        self.connection.connection_made(self.line)

    def say(self, data: bytes) -> None:
        if not self.line.closed:
            self.connection.data_received(data)

    @property
    def hello(self) -> Hello:
        """The broker's first frame."""
        kind, payload = next(iter(FrameReader().feed(self.line.written)))
        assert kind == FrameKind.HELLO
        return wire.decode_hello(payload)

    @property
    def heard(self) -> list[tuple[int, bytes]]:
        """All frames but HELLO, which contains random strings."""
        frames = FrameReader().feed(self.line.written)
        return [(kind, payload) for kind, payload in frames if kind != FrameKind.HELLO]


class Told:
    """One broker, and everything that is sent to it. `talks`: by sender, the latest connection."""

    def __init__(self, network: NetworkFile, name: str, *, readable: bool) -> None:
        self.node = Node(network, name, readable=readable)
        self.node.host.congestion._number = 0  # which is drawn from the wall clock
        self.talks: dict[str, Talk] = {}
        self.all: list[Talk] = []

    def _talk(self, who: str, hello: Hello) -> Talk:
        talk = self.talks[who] = Talk(self.node)
        self.all.append(talk)
        talk.say(wire.encode(FrameKind.HELLO, hello))
        return talk

    def client(self, who: str, **fields: Any) -> None:
        """Say hello as a client, or come back to the session of one that was here before."""
        before = self.talks.get(who)
        if before is not None:
            resumed = {"ticket": before.hello.ticket, "peer_session": before.hello.session}
            session = self.session(who)
            received = 0 if session is None else session.port._sent.last
            fields = {**fields, **resumed, "received": received, "attempt": len(self.all)}
        self._talk(who, wire.hello(Role.CLIENT, who, "", f"session of {who}", **fields))

    def broker(self, who: str) -> None:
        """Say hello as a neighbour, or come back to the link of one that was here before."""
        fields: dict[str, Any] = {}
        if who in self.talks:
            link = self.node.links[who]
            fields = {"peer_session": self.node.host.me.session, "ticket": link.ticket}
            fields["received"] = link.queue.window._sent.last
        self._talk(who, wire.hello(Role.BROKER, who, "test", f"session of {who}", **fields))

    def soft(self, who: str) -> None:
        """Open a soft link as another broker."""
        self._talk(who, wire.hello(Role.SOFT, who, "test", f"session of {who}"))

    def move(self, *links: str) -> None:
        """Ask for the move of a link of the overlay, as an operator; do nothing if no link may
        move."""
        if links:
            self.node.host.driver.wish(MoveLink(*links))

    def answer(self, who: str) -> None:
        """Let the neighbour answer `Settled` to everything that it was told and has not
        answered."""
        talk = self.talks[who]
        heard = [payload for kind, payload in talk.heard if kind == FrameKind.CONTROL]
        tokens = []
        for payload in heard[talk.answered :]:
            message = self.node.host.codec.decode_control(payload)
            if isinstance(message, TableChange | PeerMessage):
                tokens.append(message.token)
        talk.answered = len(heard)
        talk.say(b"".join(control(Settled(token)) for token in tokens))

    def watch(self, below: int) -> None:
        """Watch for all publications with a smaller `id_hash`."""
        watching, asked = self.node.host.watching, Sightings("TRUE")
        watching.asked(asked, parse_filter(asked.filter), self.node.loop.time())
        watching._look_at(below)

    def say(self, who: str, data: bytes) -> None:
        self.talks[who].say(data)

    def session(self, who: str) -> Any:
        return self.node.clients.sessions.get(who)

    def acknowledge(self, who: str, of_late: int) -> None:
        """Acknowledge the numbered frames that were written, except the last `of_late`."""
        end = self.talks[who].connection.end
        if isinstance(end, ClientSession):
            sent = end.port._sent
            number = max(sent.acknowledged, sent.last - of_late)
        elif end is not None:
            sent = end.queue.window._sent  # type: ignore[attr-defined]  # a BrokerEnd
            number = max(sent.acknowledged, sent.last - of_late)
        else:
            return
        self.say(who, wire.encode(FrameKind.ACK, number))

    def break_off(self, who: str) -> None:
        self.talks[who].line.close()

    def pause(self, who: str, writes: int) -> None:
        """Let the socket take only `writes` more writes."""
        self.talks[who].line.room = writes

    def resume(self, who: str) -> None:
        line = self.talks[who].line
        line.room = 1 << 30
        if not line.closed:
            self.talks[who].connection.resume_writing()

    def end(self) -> None:
        for talk in self.all:
            talk.line.close()
        self.node.host.driver.close()

    # --- what can be seen -------------------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        """Return everything that must be the same."""
        host = self.node.host
        links = {
            name: (queue.window.queue_len, len(queue.window._sent), queue.window.publications())
            for name, queue in host.outputs.links.items()
        }
        return {
            "heard": [(talk.heard, talk.line.closed) for talk in self.all],
            "counters": dict(+(host.core.counters + host.journal.counters)),
            "clients": {name: self._client(name) for name in self.node.clients.sessions},
            "links": links,
            "gone": dict(+host.core.links._gone),
            "came": dict(+host.core.links._came),
            "congested": host.congestion.targets,
            "announced": host.congestion.announced,
            "waiting": list(host.core.waiting()),
            "tables": host.core.tables(),
            "routing": self._routing(),
            "trace": self._trace(),
            "sightings": self._sightings(),
        }

    def _sightings(self) -> list[dict[str, Any]]:
        """Return what was seen of publications, without what is measured. (Queues are looked at
        when all that came together has been routed.) What came together has no order."""
        measured = ("number", "at_us", "took_us", "to")
        found = [
            {name: value for name, value in seen.items() if name not in measured}
            | {"to": [hop["to"] for hop in seen.get("to", ())]}
            for watch in self.node.host.watching._watches.values()
            for seen in watch.seen
        ]
        return sorted(found, key=lambda seen: (seen["publisher"], seen["seq"], repr(seen)))

    def _routing(self) -> dict[str, Any]:
        """Return what a routing keeps beside its tables: what it counts, for later decisions."""
        core = self.node.host.core
        seen: dict[str, Any] = {"overloaded": dict(+core.links.lst.found_overloaded)}
        if isinstance(core.router, Meshed):
            mesh = core.router.mesh
            kinds = +mesh.traffic._kinds
            courses = core.plain_way._courses
            for link, choice in courses.choices() if courses is not None else ():
                if choice.uses and mesh.chosen(choice.hops, link):
                    kinds[tuple(choice.hops), mesh._came_from.get(link)] += choice.uses
            seen |= {"kinds": dict(kinds), "traffic": mesh.traffic.sent}
            seen["sent"] = (mesh._sent_in_window, mesh.sent_in_period, mesh._window_s)
            seen["direct"] = mesh.traffic.paths.direct
        return seen

    def _trace(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of its trace, without what is measured. What came in one batch and went
        to different clients and neighbours has no order. Where a publication failed, the readable
        path tells nothing of the matching of those that came with it."""
        journal, found = self.node.host.journal, {}
        trace = journal.trace
        for kind, columns in KINDS.items() if trace is not None else ():
            if kind == "matching" and journal.counters["failures"]:
                continue
            names = [column.name for column in columns if column.name != "broker"]
            values = dict(zip(names, trace._recorder.columns(kind), strict=True))
            told = [values[name] for name in names if name not in ("time_us", "duration_ns")]
            found[kind] = sorted(zip(*told, strict=True), key=repr)
        return found

    def _client(self, name: str) -> tuple[Any, ...]:
        session = self.session(name)
        account, port = session._account, session.port
        return (
            (account.allowance, account.owed, set(account.blockers)),
            (port.queue_len, port.dropped, port.kept, port.unwritten, len(port._sent)),
            (port._unacknowledged(), list(port._resend), port._gap, port._crowded),
            (session.last_seq, session.taken, session.status()),
        )


class Twins:
    """The two brokers, sent the same at the same time."""

    def __init__(self, network: NetworkFile, name: str, loop: Clock) -> None:
        self.loop = loop
        self.both: list[Told] = []
        self._run(self._begin, network, name)

    def _run(self, function: Any, *how: Any, **fields: Any) -> None:
        """Run a step of both; only while the loop runs."""

        async def call() -> None:
            function(*how, **fields)

        self.loop.run_until_complete(call())

    def _begin(self, network: NetworkFile, name: str) -> None:
        self.both += [Told(network, name, readable=readable) for readable in (True, False)]

    def do(self, what: str, *how: Any, **fields: Any) -> None:
        for told in self.both:
            self._run(getattr(told, what), *how, **fields)

    def pass_time(self, seconds: float) -> None:
        self.loop.now += seconds
        turn(self.loop)

    def answer_all(self) -> None:
        """Let the neighbours answer everything that they were told."""
        turn(self.loop)
        for name in self.both[0].node.links:
            self.do("answer", name)
            turn(self.loop)

    def compare(self) -> None:
        turn(self.loop)
        readable, compiled = (told.seen() for told in self.both)
        for key, expected in readable.items():
            assert compiled[key] == expected, key

    def end(self) -> None:
        self.do("end")
        turn(self.loop)


def in_pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Split the bytes into several reads; `cuts` are percentages of their length."""
    places = sorted({0, len(data), *(len(data) * cut // 100 for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


def control(message: ControlMessage) -> bytes:
    return wire.encode(FrameKind.CONTROL, message)


FEATURES = {"features": (RESUME,)}
