"""What all connections of a broker share."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from reefcast.model import wire
from reefcast.model.versions import Offer
from reefcast.security.audit import Audit
from reefcast.server.admission import Greetings
from reefcast.server.client_port import Line
from reefcast.server.floods import Floods
from reefcast.server.greeting import Anonymous, Authenticator
from reefcast.server.outbox import Flusher
from reefcast.tls.credentials import BrokerCredentials


class Shared(NamedTuple):
    """What all connections of a broker share: `all` holds those that are not closed; when there are
    more than `limit`, a new one is turned away. `offer`: versions and features; `authenticator`:
    proves who others are; `brokers`: the names in the network file; `audit`: the audit log; `tls`:
    None without TLS; `greetings`: those that have not been greeted yet; `dials`: the broker to
    which this connection is to be made, if one is."""

    flusher: Flusher
    all: set[Line]
    limit: int
    floods: Floods
    offer: Offer = wire.OFFER
    authenticator: Authenticator = Anonymous()
    brokers: Container[str] = ()
    audit: Audit = Audit()
    tls: BrokerCredentials | None = None
    greetings: Greetings | None = None
    dials: str = ""
