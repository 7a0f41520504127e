"""What a client can be told when it connects."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypedDict

from reefcast.errors import ConfigurationError
from reefcast.model.messages import MOST_ORDER_S
from reefcast.model.publication import PublicationId
from reefcast.model.wire import QUEUE_POLICIES

P = ParamSpec("P")
OnDeliveries = Callable[[list[bytes]], None]
OnRefused = Callable[[PublicationId, str], None]
OnChange = Callable[[], None]
OnDropped = Callable[[int], None]
_log = logging.getLogger("reefcast.client")


class Options(TypedDict, total=False):
    """The keywords of `connect`, all optional. A name that ends in `_s` is a time in seconds.

    - `name`: the readable part of the client's id (default "client"); a random part follows it.
    - `network`: the network that the broker must belong to; by default any.
    - `queue_limit`: events that the broker keeps waiting for this client; by default as many as its
      network file says.
    - `queue_policy`: what the broker does when there are more: "drop_oldest" (and say how many),
      "block" (publishers wait, for `block_s` of its network file at most; then "disconnect"), or
      "disconnect" (the client ends with `SlowConsumerError`); by default what its network file
      says.
    - `local_queue_limit`: events of one subscription that may wait in the client for the
      application (1000); at that many the client stops reading from the broker.
    - `connect_timeout_s`: how long `connect` tries (5).
    - `reconnect_timeout_s`: how long a lost connection is sought again (60) before everything that
      waits raises `ConnectionLostError`.
    - `close_timeout_s`: how long `close` waits for acknowledgements (10).
    - `history_patience_s`: after how long without a word storages are asked again (10).
    - `backoff_first_s`, `backoff_max_s`: the pause between attempts to connect starts near the
      first (0.05), doubles with each, and stays below the second (2); each is drawn between half
      and all of its length.
    - `on_disconnect`, `on_reconnect`: called, without arguments, when the connection went and came.
    - `on_dropped`: called with the number of events that the broker dropped since it was called
      last, because this program did not keep up; `subscription.dropped` says how many of which.
    - `on_refused`: called with the id and the reason of each refused publication; without it the
      next `publish` or `flush` raises `RefusedError`.
    - `on_deliveries`: the low-level way to receive: called with a list of undecoded deliveries (see
      `decode_delivery`) instead of putting events into subscriptions; an error in it ends the
      client.

    An error in one of the other callbacks is logged (logger "reefcast.client").
    """

    name: str
    network: str
    queue_limit: int
    queue_policy: str
    local_queue_limit: int
    connect_timeout_s: float
    reconnect_timeout_s: float
    close_timeout_s: float
    history_patience_s: float
    backoff_first_s: float
    backoff_max_s: float
    on_disconnect: OnChange | None
    on_reconnect: OnChange | None
    on_dropped: OnDropped | None
    on_refused: OnRefused | None
    on_deliveries: OnDeliveries | None


@dataclass(frozen=True, slots=True)
class Settings:
    """`Options` with their defaults, checked: raises `ConfigurationError`.

    An empty `queue_policy` and a `queue_limit` of 0 stand for the broker's own.
    """

    name: str = "client"
    network: str = ""
    queue_limit: int = 0
    queue_policy: str = ""
    local_queue_limit: int = 1000
    connect_timeout_s: float = 5.0
    reconnect_timeout_s: float = 60.0
    close_timeout_s: float = 10.0
    history_patience_s: float = 10.0
    backoff_first_s: float = 0.05
    backoff_max_s: float = 2.0
    on_disconnect: OnChange | None = None
    on_reconnect: OnChange | None = None
    on_dropped: OnDropped | None = None
    on_refused: OnRefused | None = None
    on_deliveries: OnDeliveries | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigurationError("a client's name must not be empty")
        if self.queue_policy not in ("", *QUEUE_POLICIES):
            known = ", ".join(QUEUE_POLICIES)
            raise ConfigurationError(f"queue_policy {self.queue_policy!r} is none of {known}")
        if self.queue_limit < 0:
            raise ConfigurationError(f"queue_limit {self.queue_limit} is negative")
        check_local_queue_limit(self.local_queue_limit)
        for name in ("connect_timeout_s", "reconnect_timeout_s", "close_timeout_s"):
            if not getattr(self, name) >= 0:
                raise ConfigurationError(f"{name} {getattr(self, name)} is no time from 0 on")
        if not 0 < self.backoff_first_s <= self.backoff_max_s:
            raise ConfigurationError(
                f"backoff_first_s {self.backoff_first_s} must be above 0 and not above "
                f"backoff_max_s {self.backoff_max_s}"
            )


def check_local_queue_limit(limit: int) -> int:
    """Raises `ConfigurationError` for a limit with which no event could wait."""
    if limit < 1:
        raise ConfigurationError(f"local_queue_limit {limit} is less than 1")
    return limit


def check_order_s(order_s: float) -> float:
    """Raises `ConfigurationError` for what no broker would hold events for."""
    if not 0 <= order_s <= MOST_ORDER_S:
        raise ConfigurationError(f"order_s {order_s} is not between 0 and {MOST_ORDER_S:g} seconds")
    return order_s


def call_application(callback: Callable[P, None] | None, *args: P.args, **named: P.kwargs) -> None:
    """Calls back; an error of the application is logged and must not end the client."""
    if callback is None:
        return
    try:
        callback(*args, **named)
    except Exception:
        _log.exception("a callback of the application failed")


class Backoff:
    """Pauses between attempts to connect; `rng` spreads clients that lost the same broker."""

    def __init__(self, first_s: float, max_s: float, rng: random.Random) -> None:
        self._first_s = self._next_s = first_s
        self._max_s, self._rng = max_s, rng

    def reset(self) -> None:
        """A connection lasted: the next pause is a short one."""
        self._next_s = self._first_s

    def pause_s(self) -> float:
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._max_s)
        return pause_s * self._rng.uniform(0.5, 1.0)
