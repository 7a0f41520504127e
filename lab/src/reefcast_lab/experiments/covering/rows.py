"""Ids of the rows C1 to C12, and notes that claims of several modules share."""

from __future__ import annotations

from reefcast_lab.experiments.covering.parameters import PAPER


def row(number: int) -> str:
    """The id of claims and plots of this row."""
    return f"{PAPER}/C{number}"


MODEL = (
    "a queue grows as long as more comes than is served: how long that lasts depends on how near "
    "to its limit the busiest broker was before, which the paper does not say. The order of "
    "magnitude and the order of the strategies are what can be compared"
)

REST = (
    "the paper's delay is that of its brokers at rest, of which Table II says nothing: a way of "
    "eight brokers that take its 3 ms for a publication would make 0.03 s"
)
