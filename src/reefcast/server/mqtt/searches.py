"""How often MQTT clients have the network searched for their sessions: a token bucket for each
user, which all of its clients at this broker share.

A CONNECT with a client identifier asks for the session of that name. If it is not at this broker,
the search for it costs two messages over each link, and most searches of a client that comes with
Clean Start find nothing. So beyond `user_searches_per_s` a client waits for its CONNACK; where it
would wait for longer than `MOST_WAIT_S`, it is told to come again."""

from __future__ import annotations

from reefcast.mqtt.reasons import MqttError, Reason
from reefcast.server.rates import Bucket

MOST_WAIT_S = 3.0
"""How long a client waits at most; its CONNACK is due within `HELLO_S`."""


class SearchRates:
    """The buckets of all users; clients that have proved none share one."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._buckets: dict[str, Bucket] = {}

    def wait_s(self, user: str, rate: float, now: float) -> float:
        """Return after how many seconds a client of this user may have its session searched for;
        `rate`: searches per second, 0 for no limit. Raises `MqttError` if it is to come again."""
        if rate != self._rate:
            self._rate = rate
            self._buckets.clear()
        if not rate:
            return 0.0
        if user not in self._buckets:
            self._buckets[user] = Bucket(rate, 0.0, now)
        bucket = self._buckets[user]
        wait_s = bucket.wait_s(now)
        if wait_s > MOST_WAIT_S:
            raise MqttError(
                Reason.CONNECTION_RATE_EXCEEDED,
                f"clients of this user look for their sessions at other brokers more than {rate:g} "
                "times a second (user_searches_per_s in [limits]); come again later",
            )
        bucket.take(1, 0, now)
        return wait_s

    def forget_old(self, now: float) -> None:
        """Forget the buckets that a new one would not differ from."""
        for user in [user for user, bucket in self._buckets.items() if bucket.is_full(now)]:
            del self._buckets[user]
