"""Checking passwords without holding up anybody else.

Rules
-----
- Hashing happens in threads of its own, `THREADS` at once; at most `MOST_WAITING` wait for that.
- A password that was right is right for `CACHE_S` more seconds without hashing, so that many
  clients can come back at once. What is kept of it is a keyed hash, with a key that only this
  process has; it is of no use once the user's hash in the file is another one.
- A user who is not there costs as much as one who is, and so does one without a password."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from reefcast.errors import BusyError
from reefcast.security.passwords import MOST_PASSWORD_BYTES, is_password
from reefcast.security.users import Users

THREADS, MOST_WAITING = 2, 16
CACHE_S, MOST_CACHED = 60.0, 10_000


class PasswordChecker:
    """Checks the passwords of users, in the running event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")
        self._waiting = 0
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, float] = OrderedDict()

    def was_right(self, users: Users, name: str, password: str, now: float) -> bool:
        """Return whether this was found right a short while ago, at `now` (seconds)."""
        mark = self._mark(users, name, password)
        return self._right.get(mark, 0.0) > now

    async def is_right(self, users: Users, name: str, password: str, now: float) -> bool:
        """Return whether this is the user's password. Raises `BusyError` if too many others wait
        for an answer."""
        if self._waiting >= MOST_WAITING:
            raise BusyError("too many passwords are being checked; try again later")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            hashed = users.hash_of(name)
            right = await loop.run_in_executor(self._threads, _check, password, hashed)
        finally:
            self._waiting -= 1
        if right:
            self._remember(self._mark(users, name, password), now)
        return right

    def _mark(self, users: Users, name: str, password: str) -> bytes:
        mark = hashlib.blake2b(key=self._key)
        for part in (name, users.hash_of(name), password):
            encoded = part.encode(errors="surrogatepass")
            mark.update(len(encoded).to_bytes(8, "big") + encoded)
        return mark.digest()

    def _remember(self, mark: bytes, now: float) -> None:
        self._right[mark] = now + CACHE_S
        self._right.move_to_end(mark)
        while len(self._right) > MOST_CACHED or next(iter(self._right.values())) <= now:
            self._right.popitem(last=False)

    def close(self) -> None:
        """Check nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _check(password: str, hashed: str) -> bool:
    """Check a password; one that is too long for one costs as much as any."""
    short = len(password.encode(errors="surrogatepass")) <= MOST_PASSWORD_BYTES
    return is_password(password if short else "", hashed) and short
