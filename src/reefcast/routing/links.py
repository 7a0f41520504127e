"""A router's view of its links: how many publications wait on them, and how many pass.

Publications are counted once, since the start; windows take the differences. Rates are counts of a
whole window, the last one that is over, so that a decision does not depend on the progress of the
present one. A window without any input of the broker counts as empty.

The LST (link status table) says which links are *overloaded* (OctopiA, section 9.2, equation 3):

    Q_len * (1 + Q_in) / (1 + Q_out) > tau

Q_len is the length of the link's output queue at this moment, Q_in and Q_out the publications that
entered and left that queue during the last whole window of `window_s`. A window ends when its time
is over, but is looked at only at the broker's next input. If several have passed by then, nothing
entered in the last of them (all that enters does so at an input), and what left is shared out over
all of them evenly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from reefcast.model.messages import LinkName
from reefcast.routing.counts import Counts

WINDOW_S = 1.0


class LinkQueues(Protocol):
    """What a driver reports of the links: publications waiting on `link`."""

    def queue_len(self, link: LinkName) -> int: ...


class NoQueues:
    """A driver that does not report queues."""

    def queue_len(self, link: LinkName) -> int:
        return 0


class Rates(NamedTuple):
    """Publications per second that came in and went out over a link."""

    in_per_s: float
    out_per_s: float


@dataclass(frozen=True, slots=True)
class Overload:
    """When a link counts as overloaded: `tau` is the limit of equation 3, in publications;
    `window_s` is t_w in seconds. The defaults are the paper's (section 10)."""

    tau: float = 10.0
    window_s: float = 0.05


class LinkStatus(NamedTuple):
    """A row of the LST: publications in the output queue now, and those that entered and left it
    in the last window; `load` is the left side of equation 3."""

    queue_len: int
    queue_in: int
    queue_out: float
    load: float
    overloaded: bool


class LinkStatusTable:
    """The LST of one broker; see the module's docstring."""

    def __init__(
        self, queues: LinkQueues, overload: Overload, entered: Mapping[LinkName, int]
    ) -> None:
        """Make the LST. `entered`: the publications that entered each link's output queue; its
        owner keeps counting."""
        self._queues = queues
        self.tau = overload.tau
        self.window_s = overload.window_s
        self._window = 0
        self._entered = entered
        self._entered_before: dict[LinkName, int] = {}
        self._len_before: dict[LinkName, int] = {}
        self._last: dict[LinkName, tuple[int, float]] = {}
        self._ratio: dict[LinkName, float] = {}
        self.found_overloaded: Counts[LinkName] = Counts()
        """How often a decision looked up the link and found it overloaded."""

    def pass_time(self, now: float) -> None:
        """Close the window if it is over at `now` (seconds)."""
        window = int(now / self.window_s)
        if window != self._window:
            self._close(window - self._window)
            self._window = window

    def overloaded(self, link: LinkName) -> bool:
        """Return whether a link is overloaded, for a decision; count it if so."""
        if self._queues.queue_len(link) * self._ratio.get(link, 1.0) <= self.tau:
            return False
        self.found_overloaded[link] += 1
        return True

    def room(self, link: LinkName) -> int:
        """Return how many publications more may wait on the link without its being overloaded; -1
        if it is. Counts nothing."""
        queue_len, ratio = self._queues.queue_len(link), self._ratio.get(link, 1.0)
        if queue_len * ratio > self.tau:
            return -1
        most = int(self.tau / ratio)  # rounded: the products decide
        while (most + 1) * ratio <= self.tau:
            most += 1
        while most * ratio > self.tau:
            most -= 1
        return most - queue_len

    def status(self, link: LinkName) -> LinkStatus:
        queue_len = self._queues.queue_len(link)
        queue_in, queue_out = self._last.get(link, (0, 0.0))
        load = queue_len * self._ratio.get(link, 1.0)
        return LinkStatus(queue_len, queue_in, queue_out, load, load > self.tau)

    def _close(self, windows: int) -> None:
        """Close the window that is over, and `windows - 1` more; links without any traffic keep no
        entry."""
        entered_before, self._entered_before = self._entered_before, dict(self._entered)
        len_before, self._len_before = self._len_before, {}
        self._last, self._ratio = {}, {}
        for link, so_far in self._entered.items():
            entered, waited = so_far - entered_before.get(link, 0), len_before.get(link, 0)
            if not entered and not waited:
                continue
            queue_len = self._queues.queue_len(link)
            left = max(waited + entered - queue_len, 0) / windows
            queue_in = entered if windows == 1 else 0
            self._last[link] = (queue_in, left)
            self._ratio[link] = (1 + queue_in) / (1 + left)
            if queue_len:
                self._len_before[link] = queue_len


class Links:
    """The links of one broker. `rates` are of windows of `WINDOW_S` seconds."""

    def __init__(
        self,
        queues: LinkQueues | None = None,
        overload: Overload | None = None,
    ) -> None:
        self._queues = queues or NoQueues()
        self.held: Callable[[LinkName], int] = _nothing_held
        """Kept by the broker: publications for a link that wait at the broker, not at its
        driver."""
        self._put: Counts[LinkName] = Counts()
        self.now = 0.0
        """When the present input came, seconds."""
        self._came: Counts[LinkName] = Counts()
        self._gone: Counts[LinkName] = Counts()
        self.lst = LinkStatusTable(self, overload or Overload(), self._gone)
        self._window = 0
        self._since = self._until = 0.0  # no window ends between these two
        self._came_before: dict[LinkName, int] = {}  # when the window began
        self._gone_before: dict[LinkName, int] = {}
        self._last_in: dict[LinkName, int] = {}
        self._last_out: dict[LinkName, int] = {}

    def queue_len(self, link: LinkName) -> int:
        """Return how many publications wait on `link`, including those put there since the present
        input came: the driver learns of them when the whole input has been routed."""
        return self._queues.queue_len(link) + self._put.get(link, 0) + self.held(link)

    def rates(self, link: LinkName) -> Rates:
        """Return the rates over the last whole window."""
        came, gone = self._last_in.get(link, 0), self._last_out.get(link, 0)
        return Rates(came / WINDOW_S, gone / WINDOW_S)

    def passed(self) -> tuple[Mapping[LinkName, int], Mapping[LinkName, int]]:
        """Return how many publications came over each link since the start, and how many went."""
        return self._came, self._gone

    def status(self, link: LinkName) -> dict[str, Any]:
        """Return the link's row of the LST, how often a decision met it overloaded, and its
        rates."""
        return {
            **self.lst.status(link)._asdict(),
            "found_overloaded": self.lst.found_overloaded[link],
            **self.rates(link)._asdict(),
        }

    # --- for the broker ---------------------------------------------------------------------------

    def pass_time(self, now: float) -> None:
        """Close the windows that are over at `now` (seconds), when an input comes."""
        self.now = now
        if self._put:
            self._put.clear()
        if now < self._until and now >= self._since:
            return
        self.lst.pass_time(now)
        # A little before the end: there the division below decides, which may round either way.
        ends = min((int(now / w) + 1) * w for w in (WINDOW_S, self.lst.window_s))
        self._since, self._until = now, ends * (1 - 1e-9)
        window = int(now / WINDOW_S)
        if window != self._window:
            follows = window == self._window + 1
            self._last_in = _growth(self._came, self._came_before) if follows else {}
            self._last_out = _growth(self._gone, self._gone_before) if follows else {}
            self._came_before, self._gone_before = dict(self._came), dict(self._gone)
            self._window = window

    def came(self, link: LinkName, count: int) -> None:
        """Count `count` publications that came in over `link`."""
        self._came[link] += count

    def waits(self, link: LinkName) -> None:
        """Count a publication that waits at the broker until it may go out over `link` (see
        `held`)."""
        self._gone[link] += 1

    def goes(self, link: LinkName, count: int = 1) -> None:
        """Count `count` publications that go out over `link`."""
        self._gone[link] += count
        self._put[link] += count


def _nothing_held(link: LinkName) -> int:
    return 0


def _growth(counts: Mapping[LinkName, int], before: Mapping[LinkName, int]) -> dict[LinkName, int]:
    return {link: count - before.get(link, 0) for link, count in counts.items()}
