"""How fast a user may publish at one broker: a token bucket for each user, which all of its clients
there share.

A bucket holds what may be sent in a second, of publications and of bytes. It may be overdrawn, by
what a client may send before it waits for credit; then the broker withholds that user's credit
until the bucket is no longer empty. So nothing is refused or lost, and the average stays below the
rate."""

from __future__ import annotations

from reefcast.network.sections import LimitsSection
from reefcast.protocol.principal import Principal

LEAST_WINDOW = 8
"""Publications; fewer would cost a turn each."""
Payer = tuple[str, str]
"""A proved user, or a client that has proved none: one of the two is ""."""


def payer_of(principal: Principal, client: str) -> Payer:
    """Return whose bucket a client's publications are taken from."""
    return (principal.user, "") if principal.is_named else ("", client)


class Bucket:
    """The bucket of one user. Rates are per second, 0 for no limit; times are in seconds."""

    __slots__ = ("_at_s", "_bytes", "_publications", "_rates")

    def __init__(self, publications_per_s: float, bytes_per_s: float, now: float) -> None:
        self._rates = (publications_per_s, bytes_per_s)
        self._publications, self._bytes = self._rates
        self._at_s = now

    def take(self, publications: int, size: int, now: float) -> float:
        """Take out what was sent; return `wait_s`."""
        self.wait_s(now)
        self._publications -= publications
        self._bytes -= size
        return self.wait_s(now)

    def wait_s(self, now: float) -> float:
        """Return after how many seconds the bucket is not overdrawn any more, 0 if it is not."""
        passed_s, self._at_s = max(0.0, now - self._at_s), max(now, self._at_s)
        count, size = self._rates
        self._publications = min(count, self._publications + passed_s * count)
        self._bytes = min(size, self._bytes + passed_s * size)
        return max(
            -self._publications / count if count else 0.0,
            -self._bytes / size if size else 0.0,
            0.0,
        )

    def is_full(self, now: float) -> bool:
        """Return whether a new bucket would be the same."""
        self.wait_s(now)
        return (not self._rates[0] or self._publications == self._rates[0]) and (
            not self._rates[1] or self._bytes == self._rates[1]
        )


class Rates:
    """The buckets of all users of a broker. `limited`: whether there are rates at all."""

    def __init__(self, limits: LimitsSection) -> None:
        self._buckets: dict[Payer, Bucket] = {}
        self.limit(limits)

    def limit(self, limits: LimitsSection) -> None:
        """Take over other rates; whoever has sent too much under the former ones begins anew."""
        self._count, self._size = limits.user_publications_per_s, limits.user_bytes_per_s
        self._credit = limits.credit
        self._buckets.clear()
        self.limited = self._count > 0 or self._size > 0

    @property
    def window(self) -> int:
        """How many publications a client may send before it waits for credit."""
        if not self._count:
            return self._credit
        return min(self._credit, max(LEAST_WINDOW, int(self._count)))

    def bucket(self, payer: Payer, now: float) -> Bucket:
        if payer not in self._buckets:
            self._buckets[payer] = Bucket(self._count, self._size, now)
        return self._buckets[payer]

    def forget_old(self, now: float) -> None:
        """Forget the buckets that a new one would not differ from."""
        full = [payer for payer, bucket in self._buckets.items() if bucket.is_full(now)]
        for payer in full:
            del self._buckets[payer]
