"""A second protocol for clients: a JSON object on each line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from reefcast.errors import ReefcastError
from reefcast.model import messages, wire
from reefcast.model.messages import Publish
from reefcast.model.publication import Publication, check_attributes
from reefcast.model.wire import Dropped, Role
from reefcast.server.client_port import ClientPort
from reefcast.server.client_session import ClientSession
from reefcast.server.clients import Welcome
from reefcast.server.greeting import LOCAL
from reefcast.server.node import Node


def line(**said: object) -> bytes:
    return json.dumps(said).encode() + b"\n"


class JsonPort(ClientPort):
    def delivery(self, numbers: Sequence[int], publish: Publish) -> bytes:
        event = publish.publication
        said = {"id": event.id, "time_us": event.time_us, "again": publish.again}
        return line(deliver=list(numbers), attributes=event.attributes, **said)

    def message(self, message: messages.ControlMessage) -> bytes:
        if isinstance(message, messages.Settled):
            return line(settled=message.token)
        assert isinstance(message, messages.Refused)
        return line(refused=message.token, reason=message.reason, publication=message.publication)

    def credit(self, count: int) -> bytes:
        return line(credit=count)

    def gap(self, dropped: Dropped) -> bytes:
        return line(dropped=dropped.count, groups=dropped.groups)

    def is_delivery(self, frame: bytes) -> bool:
        return frame.startswith(b'{"deliver"')

    def is_numbered(self, frame: bytes) -> bool:
        return not frame.startswith((b'{"credit"', b'{"acked"'))

    def numbers_of(self, delivery: bytes) -> tuple[int, ...]:
        return tuple(json.loads(delivery)["deliver"])

    def body_of(self, delivery: bytes) -> bytes:
        said = json.loads(delivery)
        event = Publication(*said["id"], said["time_us"], said["attributes"])
        return wire.encode_publication(event)


class JsonLines(asyncio.Protocol):
    """One connection of one client."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._session: ClientSession | None = None
        self._read = b""
        self._over = False
        self.closed, self.principal = asyncio.Event(), LOCAL
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._node.shared.all.add(self)

    def data_received(self, data: bytes) -> None:
        *whole, self._read = (self._read + data).split(b"\n")
        try:
            for each in whole:
                if not self._over:
                    self._handle_message(json.loads(each))
        except (ReefcastError, ValueError, KeyError, TypeError) as error:
            self.close(f"this does not go: {error}")

    def _handle_message(self, said: dict) -> None:
        session = self._session
        if session is None:
            self._greet(said)
        elif "close" in said:
            self._leave(for_good=True)
            self.transport.close()
        elif "ack" in said:
            session.acknowledged(said["ack"])
        else:
            session.taken += 1
            if "publish" in said:
                event = Publication(session.name, said["seq"], 0, check_attributes(said["publish"]))
                session.publications([Publish(event, body=wire.encode_publication(event))])
            else:
                self._ask(session, said)
            if not self._over:
                session.port.push_urgent(line(acked=session.taken))

    def _ask(self, session: ClientSession, said: dict) -> None:
        id, token = (session.name, said["number"]), said["token"]
        if "unsubscribe" in said:
            session.control(messages.Unsubscribe(id, token))
        elif "advertise" in said:
            session.control(messages.Advertise(id, said["advertise"], token))
        else:
            session.control(messages.Subscribe(id, said["subscribe"], token))

    def _greet(self, said: dict) -> None:
        wishes = {"queue_policy": said.get("policy", ""), "queue_limit": said.get("limit", 0)}
        wishes |= {"received": said.get("received", 0), "ticket": said.get("ticket", "")}
        self._session = self._node.clients.admit(
            self,
            wire.hello(Role.CLIENT, said["hello"], "", said["session"], **wishes),
            lambda: JsonPort(self._node.shared.flusher, keeps=True),
            self._welcome,
        )

    def _welcome(self, session: ClientSession, how: Welcome) -> None:
        told = {"policy": session.policy, "limit": session.port.limit, "received": session.taken}
        told |= {"ticket": session.ticket, "credit": how.credit}
        self.transport.write(line(welcome=session.name, resumed=how.resumed, **told))

    def close(
        self,
        reason: str,
        *,
        retry: bool = False,
        too_slow: bool = False,
        elsewhere: tuple[str, ...] = (),
    ) -> None:
        if not self._over:
            self._leave(for_good=not retry)
            self.transport.write(line(close=reason, retry=retry, too_slow=too_slow))
            self.transport.close()

    def _leave(self, *, for_good: bool) -> None:
        self._over, session = True, self._session
        if session is not None:
            session.left(self, session.taken, for_good=for_good)

    def stop_reading(self) -> None:
        self.transport.pause_reading()

    def pause_writing(self) -> None:
        self._session.port.paused = True

    def resume_writing(self) -> None:
        self._session.port.resume()

    def connection_lost(self, _: Exception | None) -> None:
        self._leave(for_good=False)
        self._node.shared.all.discard(self)
        self.closed.set()
