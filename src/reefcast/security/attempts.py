"""Slowing down those who fail to prove who they are. No clock: `now` comes in (seconds).

Rules
-----
- Failures are counted by address and by user, whether or not there is such a user. IPv6 addresses
  count by their /64 network, which is what one machine usually has.
- The first `FREE` failures cost nothing. Each further one doubles the pause.
- Attempts of one address wait for that pause one behind the other: so many at once are no faster
  than one after the other. An attempt that would have to wait for more than `LONGEST_WAIT_S` is
  refused at once.
- Attempts for one user wait for a short pause, each by itself, and are not refused: else anybody
  could lock a user out by guessing.
- A success forgets the failures for its user. Those of the address stay until `FORGET_S` have
  passed since the last one: else who has a password of his own could go on guessing those of
  others.
- At most `MOST` addresses and `MOST` users are remembered, the latest."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

FREE = 3
FIRST_PAUSE_S = 0.1
ADDRESS_PAUSE_S, USER_PAUSE_S = 10.0, 1.0
"""The longest pauses."""
LONGEST_WAIT_S = 2.0
FORGET_S = 600.0
MOST = 10_000


class _Failures:
    """The failures of an address, or for a user. `free_s`: when the next attempt may begin."""

    __slots__ = ("count", "free_s", "last_s")

    def __init__(self) -> None:
        self.count = 0
        self.free_s = self.last_s = 0.0

    def pause_s(self, longest_s: float) -> float:
        if self.count < FREE:
            return 0.0
        doubled: float = FIRST_PAUSE_S * 2 ** min(self.count - FREE, 20)
        return min(doubled, longest_s)


class Attempts:
    """The attempts to prove something to one broker; see the module's docstring."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, _Failures] = OrderedDict()
        self._users: OrderedDict[str, _Failures] = OrderedDict()

    @property
    def remembered(self) -> int:
        """How many addresses and users are remembered."""
        return len(self._addresses) + len(self._users)

    def begin(self, address: str, user: str, now: float) -> tuple[float, bool]:
        """Return for how many seconds this attempt has to wait, and whether it may go on then. If
        it may not, that is when another attempt may be made. `user`: "" if nobody is named."""
        failures = _found(self._addresses, _place(address), now)
        wait_s = 0.0 if failures is None else max(0.0, failures.free_s - now)
        if wait_s > LONGEST_WAIT_S:
            return wait_s, False
        if failures is not None:
            failures.free_s = now + wait_s + failures.pause_s(ADDRESS_PAUSE_S)
        named = _found(self._users, user, now)
        return max(wait_s, 0.0 if named is None else named.pause_s(USER_PAUSE_S)), True

    def failed(self, address: str, user: str, now: float) -> None:
        """Note that an attempt failed."""
        failures = _noted(self._addresses, _place(address), now)
        failures.free_s = max(failures.free_s, now + failures.pause_s(ADDRESS_PAUSE_S))
        if user:
            _noted(self._users, user, now)

    def succeeded(self, user: str) -> None:
        """Forget the failures for this user."""
        self._users.pop(user, None)


def _found(remembered: OrderedDict[str, _Failures], key: str, now: float) -> _Failures | None:
    """Return the failures under `key`, if there are any that still count."""
    failures = remembered.get(key)
    if failures is not None and now - failures.last_s > FORGET_S:
        del remembered[key]
        return None
    return failures


def _noted(remembered: OrderedDict[str, _Failures], key: str, now: float) -> _Failures:
    """Count one more failure under `key`; return all of them."""
    failures = remembered.setdefault(key, _Failures())
    remembered.move_to_end(key)
    failures.count += 1
    failures.last_s = now
    if len(remembered) > MOST:
        remembered.popitem(last=False)
    return failures


def _place(address: str) -> str:
    """Return the key of an address: itself, or its /64 network."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
