"""What a broker or a storage shows of itself, and asks of others, as its network file says."""

from __future__ import annotations

from reefcast.errors import ConfigurationError
from reefcast.logs import about, part
from reefcast.network.file import NetworkFile
from reefcast.security.audit import Audit, open_audit
from reefcast.server.certified import Certified
from reefcast.server.greeting import Anonymous, Authenticator
from reefcast.server.proving import Proving
from reefcast.server.tracing import Journal
from reefcast.tls.credentials import BrokerCredentials, broker_credentials
from reefcast.tls.identity import broker_uri, storage_uri

URIS = {"broker": broker_uri, "storage": storage_uri}
"""How certificates name members, by their kind."""


def credentials_of(
    network: NetworkFile, name: str, kind: str = "broker"
) -> BrokerCredentials | None:
    """Return what it shows and trusts, if the network file has TLS. Raises `ConfigurationError`."""
    tls = network.tls
    if not tls.on:
        return None
    uri = URIS[kind](network.network.name, name)
    return broker_credentials(tls.files(name), tls.clients, uri, f"{kind} {name}")


def authenticator_of(
    network: NetworkFile, name: str, journal: Journal, tls: BrokerCredentials | None
) -> Authenticator:
    """Return what proves others. Raises `ConfigurationError`."""
    certified = None if tls is None else Certified(network, journal.floods)
    if network.security is not None:
        return Proving(network, name, journal.counters, certified)
    if network.role:
        raise ConfigurationError(
            "the network file has a [[role]] and no [security]: nobody would have to prove who "
            "he is, and the roles would restrict nobody; add [security], or leave them out"
        )
    return certified or Anonymous(everywhere=network.network.insecure)


def audit_of(network: NetworkFile, name: str, kind: str = "broker") -> Audit:
    """Return the audit log. Raises `ConfigurationError` if it cannot be written."""
    section = network.security
    if section is None:
        return Audit()
    return open_audit(section.audit, name, section.audit_bytes, section.audit_files, kind)


def renew(tls: BrokerCredentials, name: str, kind: str, *, again: bool) -> tuple[bool, str]:
    """Read certificates and keys again, for new connections. Return whether they are others, and
    what is wrong with them, which is logged. `again`: also if no file has changed."""
    before, shown = tls.value, part("security")
    wrong = tls.look(again=again)
    if wrong:
        words = f"{kind} %s keeps the certificate that it has: %s"
        shown.error(words, name, wrong, extra=about(**{kind: name}, reason=wrong))
    elif tls.value is not before:
        words = f"{kind} %s shows the new certificate from now on"
        shown.warning(words, name, extra=about(**{kind: name}))
    return tls.value is not before, wrong
