"""The kinds of publications: all that the same subscriptions of a crowd want.

A price belongs to a kind: all prices between two neighbouring ends of intervals are wanted by the
same subscriptions of its class.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reefcast_lab.experiments.covering.crowd import PROBES, Crowd, Stream

Ints = NDArray[np.int64]


class Kinds:
    """The kinds of publications, numbered from class to class."""

    def __init__(self, crowd: Crowd) -> None:
        self._bounds: list[Ints] = []
        self._first = [0]
        self.wanted: dict[str, tuple[int, int]] = {}
        """By a filter's text: the kinds that it wants, from the first to before the last."""
        for klass in range(PROBES, crowd.classes):
            ends = [end for one in crowd.of_class(klass) for end in (one.low, one.high + 1)]
            self._bounds.append(np.unique(np.array([0, *ends], np.int64)))
            self._first.append(self._first[-1] + len(self._bounds[-1]))
            for one in crowd.of_class(klass):
                self.wanted[one.filter] = (
                    self._place(klass, one.low),
                    self._place(klass, one.high + 1),
                )

    @property
    def number(self) -> int:
        return self._first[-1]

    def _place(self, klass: int, price: int) -> int:
        place = klass - PROBES
        return self._first[place] + int(np.searchsorted(self._bounds[place], price))

    def of(self, stream: Stream) -> Ints:
        """Return the kind of each publication."""
        kinds = np.empty(len(stream.klass), np.int64)
        for place, bounds in enumerate(self._bounds):
            mine = stream.klass == place + PROBES
            inside = np.searchsorted(bounds, stream.price[mine], side="right") - 1
            kinds[mine] = self._first[place] + inside
        return kinds
