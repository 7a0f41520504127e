"""The client library: asyncio (`client`), with a synchronous twin in `reefcast.sync`."""

from reefcast.client.batches import Published
from reefcast.client.client import Client
from reefcast.client.connecting import connect
from reefcast.client.durable import DurableSession, SessionChoices
from reefcast.client.event import Event, decode_delivery
from reefcast.client.handles import Advertisement, Subscription
from reefcast.client.history import History
from reefcast.client.last_values import LastValues
from reefcast.client.literals import literal
from reefcast.client.owed import OwedEvent, QueuedEvent
from reefcast.client.replay import Replay
from reefcast.client.settings import Options

__all__ = [
    "Advertisement",
    "Client",
    "DurableSession",
    "Event",
    "History",
    "LastValues",
    "Options",
    "OwedEvent",
    "Published",
    "QueuedEvent",
    "Replay",
    "SessionChoices",
    "Subscription",
    "connect",
    "decode_delivery",
    "literal",
]
