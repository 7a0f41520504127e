"""What is around the gateway of an MQTT connection: what its listener offers, and its broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from reefcast.model import messages
from reefcast.model.effort import FilterLimits
from reefcast.model.messages import ControlMessage
from reefcast.mqtt.content import ContentOptions
from reefcast.mqtt.reasons import Reason


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a listener offers its clients. `receive_maximum`: QoS 1 and 2 publications that a client
    may have unacknowledged; `maximum_packet_size` (bytes); `session_expiry_s`: the longest time
    for which a session outlives its connection; `topic_alias_maximum`; `keep_alive_s`: 0 leaves it
    to the client; `content`: how payloads become attributes."""

    receive_maximum: int = 1024
    maximum_packet_size: int = 8 << 20
    session_expiry_s: int = 7 * 86_400
    topic_alias_maximum: int = 32
    keep_alive_s: int = 0
    content: ContentOptions = ContentOptions()


class Broker(Protocol):
    """The broker around a gateway, as its client sees it."""

    def control(self, message: ControlMessage) -> None:
        """Send a message to the core, which may answer at once (`Gateway.answer`)."""

    def publish(self, publications: list[messages.Publish]) -> None: ...

    def unspent(self) -> None:
        """Give back the credit of a publication of the client that is not passed on."""

    def write(self, packet: bytes) -> None: ...

    def send(self, packet: bytes) -> None:
        """Write a delivery, as the renderer made it."""

    def end(self, reason: Reason, words: str) -> None:
        """End the connection; tell the client why if it can be told."""

    def now_us(self) -> int: ...

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call this in so many seconds, if the connection still stands."""

    def count(self, name: str) -> None: ...

    def ready(self) -> None:
        """Learn that the CONNACK is sent, and other packets may come."""

    def system(self, topic_filter: str) -> Mapping[str, bytes]:
        """Return what the broker says of itself under topics that match."""

    def may_see_system(self) -> bool: ...

    def limits(self) -> FilterLimits: ...
