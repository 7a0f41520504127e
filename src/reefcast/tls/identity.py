"""Who a certificate is for.

A *member* of a network (a broker, a storage, a peer) is named by a URI among the alternative names
of its certificate, with the network and the role, such as `reefcast://trading/broker/north`. So a
client whose subject has the name of a broker is none, nor is a broker of another network that
trusts the same authority. A client is named by the subject."""

from __future__ import annotations

import math
import ssl
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import quote

SHORT = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The short names of RFC 4514."""
BROKER, STORAGE, PEER = "broker", "storage", "peer"


class Identity(NamedTuple):
    """What a certificate says of its holder. `subject`: as RFC 4514 writes it, such as
    `CN=billing,O=Acme`; `uris`, `hosts`: its alternative names (DNS names and IP addresses);
    `ends_s`: when it expires, in seconds since 1970."""

    subject: str
    uris: frozenset[str]
    hosts: frozenset[str]
    ends_s: float = math.inf

    def is_broker(self, network: str, name: str) -> bool:
        return broker_uri(network, name) in self.uris

    def is_storage(self, network: str, name: str) -> bool:
        return storage_uri(network, name) in self.uris

    def is_peer(self, network: str, host: str) -> bool:
        """Return whether the holder may be a peer that listens on `host`."""
        return peer_uri(network) in self.uris and plain_host(host) in self.hosts

    def is_some_broker(self, network: str) -> bool:
        """Return whether the holder is any broker of the network."""
        return self._has(_uri(network, BROKER))

    def is_some_storage(self, network: str) -> bool:
        """Return whether the holder is any storage of the network, in its file or not."""
        return self._has(_uri(network, STORAGE))

    def _has(self, kind: str) -> bool:
        return any(uri.startswith(f"{kind}/") for uri in self.uris)


def broker_uri(network: str, name: str) -> str:
    return _uri(network, BROKER, name)


def storage_uri(network: str, name: str) -> str:
    return _uri(network, STORAGE, name)


def peer_uri(network: str) -> str:
    """Return the name of a peer: its address stands among the other names of its certificate."""
    return _uri(network, PEER)


def _uri(*parts: str) -> str:
    return "reefcast://" + "/".join(quote(part, safe="") for part in parts)


def identity_of(connection: Any) -> Identity | None:
    """Return who is at the other end of a connection (an `ssl.SSLObject`), as its verified
    certificate says; None if it has shown none, or if there is no TLS."""
    shown = None if connection is None else connection.getpeercert()
    return identity_in(shown) if shown else None


def identity_in(certificate: dict[str, Any]) -> Identity:
    """Return what a certificate says, in the form of `ssl.SSLSocket.getpeercert`."""
    names, ends = certificate.get("subjectAltName", ()), certificate.get("notAfter")
    return Identity(
        subject_in(certificate),
        frozenset(value for kind, value in names if kind == "URI"),
        frozenset(plain_host(value) for kind, value in names if kind in ("DNS", "IP Address")),
        math.inf if ends is None else ssl.cert_time_to_seconds(ends),
    )


def plain_host(host: str) -> str:
    """Return a host in one of several ways to write it: IPv6 addresses have many."""
    try:
        return str(ip_address(host.strip()))
    except ValueError:
        return host.lower()


def subject_in(certificate: dict[str, Any]) -> str:
    """Return the subject as RFC 4514 writes it: the most special part first."""
    parts = reversed(certificate.get("subject", ()))
    return ",".join(
        "+".join(f"{SHORT.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in parts
    )


def _escaped(value: str) -> str:
    escaped = "".join(f"\\{each}" if each in ',+"\\<>;' else each for each in value)
    if escaped.startswith((" ", "#")):
        escaped = f"\\{escaped}"
    return f"{escaped[:-1]}\\ " if value.endswith(" ") and len(value) > 1 else escaped
