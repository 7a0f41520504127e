"""What an HTTP listener for operators needs of whom it is about: a broker or a storage."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from reefcast.model.grants import Grants
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile
from reefcast.security.audit import Audit
from reefcast.server.greeting import Authenticator
from reefcast.server.metrics.observed import Figure
from reefcast.server.tracing import Journal
from reefcast.tls.credentials import BrokerCredentials


@dataclass(frozen=True, kw_only=True)
class Operated:
    """A broker or a storage, as its HTTP listener sees it.

    `kind`: "broker" or "storage"; `session`: what this run of it is called; `tls`: what it shows
    and trusts, None where it speaks no TLS; `authenticator`: proves who asks; `grants`: what roles
    grant now; `not_ready`: says in words what is missing until it is ready, without names, for
    anybody may ask; `figures`: returns its metrics, of which the argument is one: the connections
    to the listener; `status`: returns its status as plain data."""

    kind: str
    name: str
    network: NetworkFile
    session: str
    tls: BrokerCredentials | None
    journal: Journal
    audit: Audit
    authenticator: Authenticator
    grants: Callable[[], Grants]
    not_ready: Callable[[], list[str]]
    figures: Callable[[int], Awaitable[list[Figure]]]
    status: Callable[[StatusRequest], dict[str, object]]
