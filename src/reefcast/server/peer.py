"""A peer: a broker inside the running program, which is in no network file.

    async with Peer("127.0.0.1:7411", join=["127.0.0.1:7301"]) as peer:
        async with reefcast.connect(peer.url) as client:
            async for event in client.subscribe("topic = 'fx' AND price > 10"):
                ...

Rules
-----
- A peer's name is its address: any broker that learns the name can dial it. So only routings whose
  brokers find each other have peers.
- It asks any broker or peer for what it must know (`NetworkFile.for_peers`): the network's name,
  the routing with its options, the addresses of the brokers with names, and whether clients must
  prove who they are. Later peers may ask this one for the same.
- What comes in through a peer is in the network, and no role of the network file is known here. So
  where clients must prove who they are, those of a peer must have the network's key; and those of
  a peer that does not have it, a key of its own, which it makes when it starts.
- It accepts only what cannot harm this program: no custom routing, which would be a module to
  import, no files to write, and without TLS no address that others can reach, unless
  `insecure`."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from reefcast.errors import ConfigurationError, ConnectionLostError, PeerError, RefusedError
from reefcast.extras import extra_for
from reefcast.logs import about, part
from reefcast.matching import warm_up
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile, parse_network
from reefcast.network.sections import BrokerEntry, NetworkSection, SecuritySection, TlsSection
from reefcast.protocol.privacy import is_loopback
from reefcast.routing.registry import ROUTINGS, routing_named
from reefcast.routing.router import Shape
from reefcast.security.credentials import NetworkKey, credentials_of_environment
from reefcast.security.files import read_key
from reefcast.server.admin import ask_status
from reefcast.server.node import Node
from reefcast.tls.credentials import (
    Asking,
    BrokerCredentials,
    asking_context,
    broker_credentials,
)
from reefcast.tls.files import TlsFiles
from reefcast.tls.identity import peer_uri

log = part("security")

ROUTING = "gossip"
"""The routing of a network that a peer begins."""
QUESTION = StatusRequest(rows=0, network_file=True)


class Peer:
    """A broker inside a program, without a network file; runs between `start` and `stop`, or as a
    context manager. Clients connect to its `url`.

    `listen`: the address (host:port) on which others reach it. `join`: addresses of brokers or
    peers of the network, tried in this order until one answers; without any, the peer begins a
    network `name` with `options` of routing `gossip`, and is its contact unless the options name
    others. `certificate`, `key`, `authority`: files (PEM), for a network with TLS: among the
    certificate's alternative names are the URI `reefcast://NETWORK/peer` and the host of `listen`.
    `insecure`: allow addresses that other machines can reach, without encryption. `network_key`:
    the file with the network's key, if it has one (`[security]` of the network file); then the peer
    demands it of others, and of its clients. Without it, in a network whose clients must prove who
    they are, only this program has clients at its peer, with the key in the attribute
    `network_key`. `admin`: the address (host:port) of its HTTP listener for operators, empty: none.
    """

    def __init__(
        self,
        listen: str,
        *,
        join: Iterable[str] = (),
        name: str = "reefcast",
        options: Mapping[str, Any] | None = None,
        certificate: str = "",
        key: str = "",
        authority: str = "",
        insecure: bool = False,
        network_key: str = "",
        admin: str = "",
    ) -> None:
        self.name = listen
        self._network_key = network_key
        self._own_key: Path | None = None
        self._entry = BrokerEntry(listen, listen, admin=admin)
        self._join = [BrokerEntry(address, address).address for address in join]
        self._begun = NetworkFile(
            network=NetworkSection(name=name, routing=ROUTING),
            routing={"contacts": [listen]} | dict(options or {}),
        )
        self._insecure = insecure
        self._tls = TlsSection(certificate=certificate, key=key, authority=authority)
        self._node: Node | None = None
        if self._join and options:
            raise ConfigurationError(
                "options are for a peer that begins a network; one that joins has the network's"
            )
        self._in(self._begun)

    @property
    def url(self) -> str:
        """The URL that clients connect to."""
        return f"reefcast{'+tls' if self._tls.on else ''}://{self.name}"

    @property
    def network_key(self) -> str:
        """The file with the key that clients of the peer must show (`connect(...,
        network_key=...)`), "" if they need none. Where the peer has no key of the network, and
        clients must prove who they are, it makes this file between `start` and `stop`, for programs
        of its account only."""
        return self._network_key or str(self._own_key or "")

    @property
    def node(self) -> Node:
        """The peer's broker, from `start` on."""
        assert self._node is not None, "the peer has not been started"
        return self._node

    async def start(self) -> None:
        """Join the network, and listen.

        Raises `ConnectionLostError` if none of the addresses in `join` answers,
        `ConfigurationError` if the peer cannot be in that network or cannot listen on its address,
        and `LocalError` if the packages of `reefcast[broker]` are not installed."""
        told = await self._told() if self._join else self._begun
        with extra_for("a peer"):
            await asyncio.to_thread(warm_up)  # takes seconds with an empty cache
        if told.security is not None and not self._network_key:
            self._make_key(told.network.name)
        try:
            network = self._in(told)
            node = Node(network, self.name, tls=self._credentials(network))
            await node.start()
        except BaseException:
            self._forget_key()
            raise
        self._node = node
        if self._own_key is not None:
            self._say_who_is_admitted(network)

    async def stop(self) -> None:
        """Leave all topics, close the clients' connections and stop; takes little more than
        `drain_s` (8 s) at most."""
        await self.node.stop()
        self._forget_key()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    # --- the network ------------------------------------------------------------------------------

    @property
    def _files(self) -> TlsFiles:
        return self._tls.files(self.name)

    def _credentials(self, network: NetworkFile) -> BrokerCredentials | None:
        """Return what the peer shows and trusts. Raises `ConfigurationError` if its certificate is
        not that of a peer of the network at its address."""
        if not self._tls.on:
            return None
        name, (host, _) = network.network.name, self._entry.address
        clients, uri = network.tls.clients, peer_uri(name)
        own = broker_credentials(self._files, clients, uri, f"a peer of {name}")
        if not own.value.identity.is_peer(name, host):
            raise ConfigurationError(
                f"the certificate {self._files.certificate} is not for {host}, where the peer "
                "listens: its alternative names need that host"
            )
        return own

    async def _told(self) -> NetworkFile:
        """Return the network as described by the first address in `join` that answers. Raises
        `ConnectionLostError` if none does."""
        failures: list[str] = []
        asking = Asking(asking_context(self._files, hosts=True)) if self._tls.on else None
        key = self._network_key
        shown = NetworkKey(read_key(Path(key))) if key else credentials_of_environment()
        for host, port in self._join:
            try:
                answer = await ask_status(host, port, QUESTION, asking, shown)
                return parse_network(str(answer.get("network_file", "")))
            except (PeerError, RefusedError) as error:
                failures.append(str(error))
        raise ConnectionLostError(f"no network to join: {'; '.join(failures)}")

    def _in(self, told: NetworkFile) -> NetworkFile:
        """Return the network as this peer sees it; raises `ConfigurationError` if the peer cannot
        be in it."""
        routing = told.network.routing
        if routing not in ROUTINGS or routing_named(routing).overlay is not Shape.NONE:
            raise ConfigurationError(
                f"network {told.network.name!r} has routing {routing!r}: only the brokers of its "
                "network file are in it, and nobody else can join"
            )
        for entry in (*told.broker, self._entry):
            open_to_others = not is_loopback(entry.address[0])
            if open_to_others and not self._insecure and not self._tls.on:
                raise ConfigurationError(
                    f"{entry.listen} is an address that other machines can reach, and there is no "
                    "encryption: give a certificate, listen on 127.0.0.1, or allow it (insecure)"
                )
        return NetworkFile(
            network=NetworkSection(
                name=told.network.name, routing=routing, insecure=self._insecure
            ),
            tls=msgspec.structs.replace(self._tls, clients=told.tls.clients),
            routing=told.routing,
            broker=[*(each for each in told.broker if each.name != self.name), self._entry],
            security=SecuritySection(key=self.network_key) if self.network_key else None,
        ).validate()

    def _make_key(self, network: str) -> None:
        """Make a key for the clients of this program. Raises `ConfigurationError` without TLS:
        brokers would demand the network's key."""
        if not self._tls.on:
            raise ConfigurationError(
                f"in network {network!r} everybody must prove who he is, and the peer has neither "
                "the key of the network (network_key, --network-key) nor a certificate: give one"
            )
        descriptor, file = tempfile.mkstemp(prefix="reefcast-peer-", suffix=".key")  # mode 0600
        self._own_key = Path(file)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(secrets.token_hex(32))

    def _say_who_is_admitted(self, network: NetworkFile) -> None:
        words = (
            "peer %s has no clients but those of its own program: in network %s clients must "
            "prove who they are, which a peer judges by the key of the network only, and it was "
            "given none (network_key, --network-key)"
        )
        log.warning(words, self.name, network.network.name, extra=about(broker=self.name))

    def _forget_key(self) -> None:
        """Remove the key that this peer has made, if so."""
        file, self._own_key = self._own_key, None
        if file is not None:
            file.unlink(missing_ok=True)
