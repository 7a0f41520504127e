"""The client library: asyncio (`client`), with a synchronous twin in `reefcast.sync`."""

from reefcast.client.client import Client, connect
from reefcast.client.event import Event, decode_delivery
from reefcast.client.handles import Advertisement, Subscription
from reefcast.client.settings import Options

__all__ = [
    "Advertisement",
    "Client",
    "Event",
    "Options",
    "Subscription",
    "connect",
    "decode_delivery",
]
