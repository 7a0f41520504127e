"""The steps of a tortured run: their text, and a digest that tells two runs apart."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Any

from reefcast.model.messages import Fetched, Publish

LAST_LINES = 4000
"""So many lines are kept of a run of which the text is wanted."""


class Record:
    """`text`: whether lines are kept; `steps`: how many there have been."""

    def __init__(self, *, text: bool = False) -> None:
        self.steps = 0
        self.lines: deque[str] | None = deque(maxlen=LAST_LINES) if text else None
        self._hash = hashlib.sha256()

    def step(self, line: str) -> None:
        """Note that something happened."""
        self.steps += 1
        self._hash.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """The SHA-256 of all steps so far, in hexadecimal."""
        return self._hash.hexdigest()


def described(item: Any) -> str:
    """Return an input of a broker in a few words, without bodies."""
    if isinstance(item, Publish):
        made = item.publication
        again = " again" if item.again else ""
        attempt = f" confirm={item.confirm}" if item.confirm else ""
        return f"Publish {made.publisher}#{made.seq} {made.attributes}{attempt}{again}"
    if isinstance(item, Fetched):
        return f"Fetched {sorted(item.found)} missing {sorted(item.missing)}"
    return repr(item)
