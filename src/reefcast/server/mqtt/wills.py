"""The wills of clients whose connections were lost.

A will is published when the connection is lost, or `will_delay_interval` seconds later, or when the
session ends, whichever comes first; not if the client is back before that (MQTT-3.1.2-8 to -10,
MQTT-3.1.3-9). Meanwhile the client's session in the broker stays, without subscriptions, because
the will is its publication, under its rights. A broker that stops publishes the wills that wait."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from reefcast.errors import ProtocolError
from reefcast.logs import part
from reefcast.mqtt.gateway import Gateway
from reefcast.server.client_port import Line
from reefcast.server.client_session import ClientSession

log = part("clients")

Key = tuple[str, str]
"""The user and the client identifier."""


class Waiting(NamedTuple):
    """A will that waits."""

    line: Line
    session: ClientSession
    gateway: Gateway
    timer: asyncio.TimerHandle


class Wills:
    """The wills of one broker that wait, by client."""

    def __init__(self) -> None:
        self._waiting: dict[Key, Waiting] = {}
        self._stopping = False

    def lost(self, key: Key, line: Line, session: ClientSession, gateway: Gateway) -> None:
        """Handle the end of a connection; end its session in the broker unless a will waits."""
        delay_s = gateway.will_delay_s
        if delay_s <= 0 or self._stopping:
            _publish(line, session, gateway)
            return
        gateway.retire()
        session.port.paused = True
        timer = asyncio.get_running_loop().call_later(delay_s, self._due, key)
        self._waiting[key] = Waiting(line, session, gateway, timer)

    def _due(self, key: Key) -> None:
        waiting = self._waiting.pop(key)
        line, session, gateway = waiting.line, waiting.session, waiting.gateway
        gateway.drop_will_if_back(lambda: _publish(line, session, gateway))

    def is_back(self, key: Key, *, anew: bool) -> None:
        """Handle that a client is back; `anew`: its former session has ended."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return
        waiting.timer.cancel()
        if not anew:
            waiting.gateway.will = None
        _publish(waiting.line, waiting.session, waiting.gateway)

    def publish_all(self) -> None:
        """Publish all wills that wait, and from now on each at once: the broker stops."""
        self._stopping = True
        for key, waiting in list(self._waiting.items()):
            waiting.timer.cancel()
            del self._waiting[key]
            _publish(waiting.line, waiting.session, waiting.gateway)


def _publish(line: Line, session: ClientSession, gateway: Gateway) -> None:
    """Publish a will, if there is one, and end the session in the broker."""
    try:
        gateway.end()
    except ProtocolError as error:
        log.warning("the will of %s is not published: %s", session.name, error)
    session.left(line, 0, for_good=True)
