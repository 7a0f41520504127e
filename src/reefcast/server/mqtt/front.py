"""The MQTT clients of one broker: who is connected, under which ids, and where others are."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from reefcast.errors import ProtocolError
from reefcast.mqtt.delivering import Renderer
from reefcast.mqtt.gateway import Gateway
from reefcast.mqtt.lasting import session_name
from reefcast.mqtt.reasons import Reason
from reefcast.protocol.client_ids import SECRET_BYTES, Identity, identity_of
from reefcast.protocol.principal import Principal
from reefcast.server.listeners import Listener
from reefcast.server.mqtt.port import packet_of
from reefcast.server.mqtt.searches import SearchRates
from reefcast.server.mqtt.serving import ServingBroker
from reefcast.server.mqtt.system import SystemTopics
from reefcast.server.mqtt.wills import Key, Wills
from reefcast.server.rights import require_status
from reefcast.server.shared import Shared
from reefcast.sessions.home import TAKEN_OVER
from reefcast.timing import MACHINE

ID = "mqtt:"
"""How the id of an MQTT client in the network begins; its client identifier follows."""


class MqttListener(NamedTuple):
    """A listener for MQTT. `over`: "tcp" or "websocket"; `tls`: whether it speaks TLS."""

    listener: Listener
    over: str
    tls: bool

    def status(self) -> dict[str, object]:
        """Return where it listens, as plain data."""
        listen = f"{self.listener.host}:{self.listener.port}"
        return {"listen": listen, "over": self.over, "tls": self.tls}


class Connected(Protocol):
    """A connection of a client. `key`: which client; `gateway`: None before it is admitted."""

    gateway: Gateway | None

    @property
    def key(self) -> Key: ...

    def end(self, reason: Reason, words: str) -> None: ...


class MqttFront:
    """See the module's docstring. `renderer`: makes the packets of all connections; `wills`: those
    that wait; `listeners`: where clients come in."""

    def __init__(self, node: ServingBroker) -> None:
        self.node = node
        self.renderer = Renderer(packet_of)
        self.wills = Wills()
        self._searches = SearchRates()
        self._system = SystemTopics(node)
        self._lines: dict[Key, Connected] = {}
        self.listeners: list[MqttListener] = []
        self._key: bytes | None = None

    @property
    def shared(self) -> Shared:
        return self.node.shared

    # --- who is connected -------------------------------------------------------------------------

    def take_over(self, line: Connected, *, anew: bool) -> None:
        """Note that this connection is its client's now; end the one before (MQTT-3.1.4-3).
        `anew`: the client wants nothing of its former session."""
        key = line.key
        former = self._lines.get(key)
        if former is not None:
            former.end(Reason.SESSION_TAKEN_OVER, TAKEN_OVER)
        self.wills.is_back(key, anew=anew)
        self._lines[key] = line

    def left(self, line: Connected) -> None:
        """Note that a connection is over."""
        if self._lines.get(line.key) is line:
            del self._lines[line.key]

    @property
    def connected(self) -> int:
        """How many clients are connected."""
        return len(self._lines)

    def status(self) -> dict[str, object]:
        """Return how many clients are connected, and where others may come in."""
        listening = [each.status() for each in self.listeners]
        return {"connected": self.connected, "listeners": listening}

    def wait_s(self, user: str, client_id: str, now: float) -> float:
        """Return how long a client has to wait until its session is searched for. Raises
        `MqttError` if it is to come again later."""
        relay = self.node.host.core.delivering.relay
        if not relay.would_search(user, session_name(client_id)):
            return 0.0
        return self._searches.wait_s(user, self.node.host.limits.user_searches_per_s, now)

    # --- ids --------------------------------------------------------------------------------------

    def identity(self, user: str, client_id: str, *, lasting: bool) -> Identity:
        """Return the identity of a client in the network. A client with a lasting session has the
        same one at each broker that has the network's key, and after each restart: so what it
        publishes again is known."""
        secret = MACHINE.get().token(SECRET_BYTES)
        if lasting:
            text = f"mqtt {self.node.network.network.name}\0{user}\0{client_id}"
            secret = hmac.new(self._own_key(), text.encode(), "sha256").hexdigest()
        return identity_of(ID + client_id, secret)

    def _own_key(self) -> bytes:
        """Return the key from which the secrets of lasting sessions are derived: the network's key;
        without one, the key of this broker's certificate; without that, a secret of this process.
        Nothing is secret where nobody proves who he is."""
        if self._key is None:
            network = self.node.network
            files = [network.security.key] if network.security else []
            if network.tls.on:
                files.append(network.tls.files(self.node.name).key or network.tls.certificate)
            found = [Path(file).read_bytes() for file in files if file]
            secret = MACHINE.get().token(SECRET_BYTES) if network.security else "no users"
            self._key = found[0] if found else secret.encode()
        return self._key

    # --- what this broker says of itself ----------------------------------------------------------

    def may_see_system(self, principal: Principal) -> bool:
        """Return whether a user may ask for the status, of which the `$SYS` topics are a part."""
        try:
            require_status(principal, self.node.host.core.granting.grants)
        except ProtocolError:
            return False
        return True

    def system_values(self, topic_filter: str) -> dict[str, bytes]:
        """Return the values now of the `$SYS` topics that match."""
        return self._system.values(topic_filter)

    def tick(self, now: float) -> None:
        """Tell who has subscribed to them what has changed of the `$SYS` topics; forget what is
        over."""
        self._searches.forget_old(now)
        if not self._system.is_due(now):
            return
        changed = self._system.changed()
        for line in list(self._lines.values()):
            if line.gateway is not None and changed:
                line.gateway.system_changed(changed)

    # --- where others are -------------------------------------------------------------------------

    def places(self, elsewhere: Iterable[str]) -> str:
        """Return where the brokers with these addresses serve MQTT, as a server reference."""
        network = self.node.network
        by_address = {entry.listen: entry.name for entry in network.broker}
        found = [by_address[each] for each in elsewhere if each in by_address]
        return " ".join(
            entry.listen
            for name in found
            for entry in network.listener
            if entry.broker == name and entry.protocol == "mqtt"
        )
