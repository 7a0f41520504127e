"""Reefcast: a publish/subscribe network that routes by content.

    import reefcast

    async with reefcast.connect("reefcast://127.0.0.1:7301") as client:
        subscription = await client.subscribe("symbol = 'IBM' AND price < 100")
        await client.publish(symbol="IBM", price=99.5)
        async for event in subscription:
            print(event["price"])

What `__all__` names is the public face, typed and shown in docs/how-to/write-a-client.md; each name
is loaded when it is first used. The modules below are for those who work on Reefcast, and may
change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reefcast import cesql, sync, testing
    from reefcast.client import (
        Advertisement,
        Client,
        DurableSession,
        Event,
        History,
        LastValues,
        Options,
        OwedEvent,
        Published,
        QueuedEvent,
        Replay,
        SessionChoices,
        Subscription,
        connect,
        decode_delivery,
        literal,
    )
    from reefcast.errors import (
        CesqlError,
        ConfigurationError,
        ConnectionLostError,
        FilterSyntaxError,
        FilterWarning,
        InternalError,
        InvalidValueError,
        LocalError,
        NoReplyError,
        PeerError,
        ProtocolError,
        ReefcastError,
        RefusedError,
        SlowConsumerError,
        TlsError,
    )
    from reefcast.model.filters import Filter, parse_filter
    from reefcast.server.peer import Peer
    from reefcast.sessions.messages import SessionRow

    __version__: str

__all__ = [
    "Advertisement",
    "CesqlError",
    "Client",
    "ConfigurationError",
    "ConnectionLostError",
    "DurableSession",
    "Event",
    "Filter",
    "FilterSyntaxError",
    "FilterWarning",
    "History",
    "InternalError",
    "InvalidValueError",
    "LastValues",
    "LocalError",
    "NoReplyError",
    "Options",
    "OwedEvent",
    "Peer",
    "PeerError",
    "ProtocolError",
    "Published",
    "QueuedEvent",
    "ReefcastError",
    "RefusedError",
    "Replay",
    "SessionChoices",
    "SessionRow",
    "SlowConsumerError",
    "Subscription",
    "TlsError",
    "__version__",
    "cesql",
    "connect",
    "decode_delivery",
    "literal",
    "parse_filter",
    "sync",
    "testing",
]

_CLIENT = (
    *("Advertisement", "Client", "DurableSession", "Event", "History", "LastValues", "Options"),
    *("OwedEvent", "Published", "QueuedEvent", "Replay", "SessionChoices", "Subscription"),
)
_HOMES = {
    **dict.fromkeys((*_CLIENT, "connect", "decode_delivery", "literal"), "reefcast.client"),
    **dict.fromkeys(("Filter", "parse_filter"), "reefcast.model.filters"),
    "Peer": "reefcast.server.peer",
    "SessionRow": "reefcast.sessions.messages",
}


if not TYPE_CHECKING:  # a checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("reefcast")
        if name in ("cesql", "sync", "testing"):
            return import_module(f"reefcast.{name}")
        if name not in __all__:
            raise AttributeError(f"module 'reefcast' has no attribute {name!r}")
        return getattr(import_module(_HOMES.get(name, "reefcast.errors")), name)


def __dir__() -> list[str]:
    return __all__
