"""The client library: asyncio (`client`), with a synchronous twin in `reefcast.sync`."""

from reefcast.client.batches import Published
from reefcast.client.client import Client, connect
from reefcast.client.event import Event, decode_delivery
from reefcast.client.handles import Advertisement, Subscription
from reefcast.client.history import History
from reefcast.client.literals import literal
from reefcast.client.replay import Replay
from reefcast.client.settings import Options

__all__ = [
    "Advertisement",
    "Client",
    "Event",
    "History",
    "Options",
    "Published",
    "Replay",
    "Subscription",
    "connect",
    "decode_delivery",
    "literal",
]
