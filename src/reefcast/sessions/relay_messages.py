"""Messages between brokers about durable sessions whose home is another broker.

A *circuit* leads from a broker whose clients use such a session (its *entry*) to the session's
home. It is laid by a search, and has the search's id. Each broker on it knows two links, that
towards the entry and that towards the home. A circuit that a broker does not know, it has cut.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from reefcast.model.messages import ServiceMessage
from reefcast.model.subjects import Subject
from reefcast.model.wire import MAX_NAME_CHARS
from reefcast.sessions.messages import MOST_NAME_CHARS, Owner, SessionName

MOST_BROKERS = 100_000

SearchId = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
BrokerName = Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARS)]
BrokerNames = Annotated[tuple[BrokerName, ...], msgspec.Meta(max_length=MOST_BROKERS)]
Client = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_NAME_CHARS)]


class OfCircuit(ServiceMessage, frozen=True, kw_only=True):
    """The root of these messages. `id`: of the search, and of the circuit that it lays."""

    id: SearchId


class Where(OfCircuit, frozen=True, kw_only=True, tag="where"):
    """Asks the receiver, and all brokers behind it, for the home of a session. `entry`: the broker
    that wants to know. `rank`: not empty if that makes the session when nobody has it; among
    several, the one with the lowest rank does."""

    owner: Owner
    session: SessionName
    entry: BrokerName
    rank: Annotated[str, msgspec.Meta(max_length=64)] = ""


class Here(OfCircuit, frozen=True, kw_only=True, tag="here"):
    """The session's home is the sender, or lies behind it; the circuit is laid up to there."""


class Nowhere(OfCircuit, frozen=True, kw_only=True, tag="nowhere"):
    """None of the brokers `reached` has the session; `missing`: those that could not be asked. Both
    are empty from a broker that had been asked already."""

    reached: BrokerNames = ()
    missing: BrokerNames = ()


class OnCircuit(OfCircuit, frozen=True, kw_only=True):
    """The root of what passes along a circuit, for or from one client of its entry. `part`: of the
    encoded message, which is complete with a part that is the `last`."""

    client: Client
    part: bytes
    last: bool = True


class ToHome(OnCircuit, frozen=True, kw_only=True, tag="to_home"):
    """A client asks."""


class ToClient(OnCircuit, frozen=True, kw_only=True, tag="to_client"):
    """The home answers, or hands out events."""


class IsUser(OfCircuit, frozen=True, kw_only=True, tag="is_user"):
    """To the home: who a client of the entry is, before it asks anything, and when that changes. Of
    a client that may do everything nothing is said, unless that is new."""

    client: Client
    subject: Subject | None


class Gone(OfCircuit, frozen=True, kw_only=True, tag="gone"):
    """To the home: a client of the entry is gone, or away; its consumers are detached."""

    client: Client


class Cut(OfCircuit, frozen=True, kw_only=True, tag="cut"):
    """The circuit ends here, and is not used any more."""


RELAY_MESSAGES = (Where, Here, Nowhere, IsUser, ToHome, ToClient, Gone, Cut)
"""Only between brokers."""
