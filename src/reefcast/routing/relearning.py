"""Relearning after a start: who has told all that it knows, and who may be told `Synced`.

A broker that starts knows nothing. It is *relearning* until every expected neighbour has come up
and said `Synced`, or until it gives up waiting. A broker says `Synced` to U when it has heard it
from all neighbours whose tables are passed on to U. On a tree these are all others, so `Synced`
travels from the leaves inwards and back out, and a neighbour that hears it knows that everything
beyond has been told again.

A neighbour that was given up is *absent*: the broker goes on without it. But new inputs still wait
for it to settle (see `settlement`), and so does `Synced` for those who would be told what it tells,
until it is heard, or the patience with it is over, too. Until then nobody knows what is wanted
behind it: it is sent everything that might be wanted (`Router.absent`), which waits for it
(`holding`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reefcast.model.messages import LinkName


class Relearning:
    """`active`: from the start until all `expected` neighbours were heard, or given up.
    `passes_on(source, target)`: see `Relearns.passes_on`."""

    def __init__(
        self, expected: Iterable[LinkName], passes_on: Callable[[LinkName, LinkName], bool]
    ) -> None:
        self._missing = set(expected)
        self._absent: set[LinkName] = set()
        self._passes_on = passes_on
        self.active = bool(self._missing)
        self._untold: dict[LinkName, None] = {}
        self._patience_runs = False
        self._just_over = False
        self._just_complete = False

    @property
    def complete(self) -> bool:
        """Whether no neighbour is missing or absent."""
        return not (self._missing or self._absent)

    @property
    def unheard(self) -> set[LinkName]:
        """The neighbours that are missing or absent."""
        return self._missing | self._absent

    @property
    def absent(self) -> list[LinkName]:
        """The neighbours that were given up, by name."""
        return sorted(self._absent)

    def start_patience(self) -> bool:
        """Return whether the timer of patience is to be set now: once, while relearning."""
        start = self.active and not self._patience_runs
        self._patience_runs = True
        return start

    def came_up(self, link: LinkName) -> list[LinkName]:
        """Add a neighbour without memory of us that came up; return the neighbours to tell `Synced`
        now."""
        self._untold[link] = None
        return self._tell()

    def heard(self, link: LinkName) -> list[LinkName]:
        """Note that `link` said `Synced`; return the neighbours to tell now."""
        before = self.complete
        self._missing.discard(link)
        self._absent.discard(link)
        self._just_complete |= self.complete and not before
        return self._tell()

    def went(self, link: LinkName) -> list[LinkName]:
        """Stop waiting for `link`, which was given up."""
        self._untold.pop(link, None)
        return self.heard(link)

    def give_up(self) -> list[LinkName]:
        """Give up the neighbours that stayed away for too long; return the neighbours to tell
        now."""
        self._absent |= self._missing
        self._missing.clear()
        return self._tell()

    def forget_absent(self) -> list[LinkName]:
        """Stop waiting for those that were given up; return the neighbours to tell now."""
        self._just_complete |= bool(self._absent)
        self._absent.clear()
        return self._tell()

    def _tell(self) -> list[LinkName]:
        unheard = self._missing | self._absent
        ready = [
            link
            for link in self._untold
            if not any(self._passes_on(source, link) for source in unheard)
        ]
        for link in ready:
            del self._untold[link]
        if not self._missing and self.active:
            self.active, self._just_over = False, True
        return ready

    def is_just_over(self) -> bool:
        """Return True once, when relearning is over: what was held back may be sent."""
        over, self._just_over = self._just_over, False
        return over

    def is_just_complete(self) -> bool:
        """Return True once, when no neighbour is missing or absent any more: what waited may
        settle."""
        complete, self._just_complete = self._just_complete, False
        return complete
