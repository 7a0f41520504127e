"""Who others are by their certificates, in a network with TLS.

Rules
-----
- A broker of the network file needs a certificate that names it (`tls.identity`), and so does the
  broker that is dialled. A peer needs one that says that it is a peer, and has the host of its
  address.
- A storage needs the certificate of a storage, of a broker, or of a client. Who has that of a
  broker may also administer; who has that of a storage may not.
- The connection of a client, a storage or an operator ends when its certificate expires; that of a
  broker or a peer stays.
- A client with a certificate is known by its subject, if the network file asks for certificates of
  clients. Others have no name: they may do what clients do, and on loopback what operators do."""

from __future__ import annotations

import logging

from reefcast.errors import ConfigurationError, ProtocolError
from reefcast.logs import part
from reefcast.model.wire import Role
from reefcast.network.file import NetworkFile
from reefcast.network.sections import BrokerEntry
from reefcast.protocol.principal import ANONYMOUS, Principal, UserRole
from reefcast.protocol.privacy import is_loopback
from reefcast.server.floods import Floods
from reefcast.server.greeting import Authenticator, Greeting
from reefcast.tls.identity import Identity, broker_uri, identity_of, peer_uri

log = part("connections")

PROOF = "certificate"
OF_STORAGE = frozenset({UserRole.CLIENT, UserRole.STORAGE})
OF_PROVED = OF_STORAGE | {UserRole.ADMINISTRATOR}
UNNAMED = Principal(ANONYMOUS, frozenset({UserRole.CLIENT}), "nothing")
UNNAMED_HERE = Principal(
    ANONYMOUS, frozenset({UserRole.CLIENT, UserRole.ADMINISTRATOR}), "loopback"
)


class Certified(Authenticator):
    """Proves others by their certificates; see the module's docstring. `floods`: what limits the
    lines about brokers that were dialled and are others."""

    def __init__(self, network: NetworkFile, floods: Floods) -> None:
        self._floods = floods
        self._name = network.network.name
        self._brokers = frozenset(network.names)
        self._clients = network.tls.clients

    def for_network(self, network: NetworkFile) -> Certified:
        return Certified(network, self._floods)

    def prove(self, greeting: Greeting) -> Principal:
        shown = identity_of(greeting.shown("ssl_object"))
        if greeting.hello.role in (Role.BROKER, Role.SOFT):
            return self._broker(greeting, shown)
        return self.client(shown, greeting.address)

    def client(self, shown: Identity | None, address: str) -> Principal:
        """Return the principal of a client, a storage or an operator at this address."""
        if shown is not None and shown.is_some_storage(self._name):
            return Principal(shown.subject, OF_STORAGE, PROOF, expires_at_s=shown.ends_s)
        counts = shown is not None and (self._clients != "none" or shown.is_some_broker(self._name))
        if shown is not None and counts:
            return Principal(shown.subject, OF_PROVED, PROOF, expires_at_s=shown.ends_s)
        return UNNAMED_HERE if is_loopback(address) else UNNAMED

    def _broker(self, greeting: Greeting, shown: Identity | None) -> Principal:
        try:
            return self.member(greeting.hello.name, shown)
        except ProtocolError as error:
            if greeting.dialled:  # only this end knows, and nobody would look for it elsewhere
                fields = {"peer": greeting.hello.name, "reason": str(error)}
                words = "no link: %s"
                self._floods.log(log, logging.WARNING, "no_tls", words, error, about=fields)
            raise

    def member(self, name: str, shown: Identity | None) -> Principal:
        """Return the principal of a broker or a peer. Raises `ProtocolError` if the certificate
        does not prove that it is `name`."""
        if name in self._brokers:
            if shown is None or not shown.is_broker(self._name, name):
                raise ProtocolError(_unproved(name, broker_uri(self._name, name), shown))
            return Principal(name, frozenset({UserRole.BROKER}), PROOF)
        if shown is None or not shown.is_peer(self._name, _host_of(name)):
            uri = peer_uri(self._name)
            raise ProtocolError(_unproved(name, f"{uri} and the host of {name}", shown))
        return Principal(name, frozenset({UserRole.PEER}), PROOF)


def _host_of(name: str) -> str:
    """Return the host in the name of a peer, which is its address; "" in another name."""
    try:
        return BrokerEntry(name, name).address[0]
    except ConfigurationError:
        return ""


def _unproved(name: str, needed: str, shown: Identity | None) -> str:
    if shown is None:
        return f"{name!r} says that it is a broker, and shows no certificate"
    return (
        f"{name!r} says that it is a broker, but the certificate that it shows is for "
        f"{shown.subject}: among its alternative names it needs {needed}"
    )
