"""Deliveries of a run as columns; no object per row."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reefcast.model.messages import Deliver
from reefcast.simulation.recording import BrokerTrace, Recording


class Delivered(NamedTuple):
    """Deliveries in the order of their time, a row for each publication and broker.

    `at_s`: when it was handed out, `delay_s`: since it was published, `width`: subscriptions that
    got it there.
    """

    at_s: NDArray[np.float64]
    delay_s: NDArray[np.float64]
    width: NDArray[np.int64]


class Columns(Recording):
    """Deliveries as columns."""

    def __init__(self, brokers: Sequence[str]) -> None:
        super().__init__(None, brokers, keep=False)
        self._at = array("d")
        self._delay = array("d")
        self._width = array("q")

    def handed_out(self, trace: BrokerTrace | None, deliver: Deliver, at: float) -> None:
        width = deliver.subscriptions
        self.delivered_clients += len(deliver.to)
        self.delivered_subscriptions += width
        self._at.append(at)
        self._delay.append(at - deliver.publish.publication.time_us * 1e-6)
        self._width.append(width)

    def take(
        self, at_s: NDArray[np.float64], delay_s: NDArray[np.float64], width: NDArray[np.int64]
    ) -> None:
        """Record deliveries that were computed; each subscription is a client of its own."""
        self.delivered_clients += int(width.sum())
        self.delivered_subscriptions += int(width.sum())
        self._at.frombytes(at_s.astype(np.float64).tobytes())
        self._delay.frombytes(delay_s.astype(np.float64).tobytes())
        self._width.frombytes(width.astype(np.int64).tobytes())

    def in_order(self) -> Delivered:
        """Return the deliveries so far."""
        at = np.frombuffer(self._at, dtype=np.float64)
        order = np.argsort(at, kind="stable")
        delay = np.frombuffer(self._delay, dtype=np.float64)[order]
        return Delivered(at[order], delay, np.array(self._width, dtype=np.int64)[order])
