"""What a router may know of its links: publications waiting on them, and how many pass.

Rates are counts of a whole window: the last one that is over, so that a decision does not depend on
how far the present one has come. A window without any input of the broker counts as empty.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Protocol

from reefcast.model.messages import LinkName

WINDOW_S = 1.0


class LinkQueues(Protocol):
    """What a driver tells about the links: publications waiting on `link`."""

    def queue_len(self, link: LinkName) -> int: ...


class NoQueues:
    """A driver that does not report queues."""

    def queue_len(self, link: LinkName) -> int:
        return 0


class Rates(NamedTuple):
    """Publications per second that came in and went out over a link."""

    in_per_s: float
    out_per_s: float


class Links:
    """The links of one broker. `window_s`: length of a window in seconds."""

    def __init__(self, queues: LinkQueues | None = None, window_s: float = WINDOW_S) -> None:
        self.queues = queues or NoQueues()
        self.window_s = window_s
        self._window = 0
        self._in: Counter[LinkName] = Counter()
        self._out: Counter[LinkName] = Counter()
        self._last_in: Counter[LinkName] = Counter()
        self._last_out: Counter[LinkName] = Counter()

    def queue_len(self, link: LinkName) -> int:
        """Publications waiting on `link`."""
        return self.queues.queue_len(link)

    def rates(self, link: LinkName) -> Rates:
        """Over the last whole window."""
        return Rates(self._last_in[link] / self.window_s, self._last_out[link] / self.window_s)

    # --- for the broker ---------------------------------------------------------------------------

    def pass_time(self, now: float) -> None:
        """It is `now` (seconds): closes the window if it is over."""
        window = int(now / self.window_s)
        if window != self._window:
            follows = window == self._window + 1
            self._last_in = self._in if follows else Counter()
            self._last_out = self._out if follows else Counter()
            self._in, self._out = Counter(), Counter()
            self._window = window

    def came(self, link: LinkName, count: int) -> None:
        """`count` publications came in over `link`."""
        self._in[link] += count

    def goes(self, link: LinkName) -> None:
        """A publication goes out over `link`."""
        self._out[link] += 1
