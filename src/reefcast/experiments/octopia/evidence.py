"""What stands under the table: where queues were, costs halved and doubled, the limits of IDR."""

from __future__ import annotations

from reefcast.experiments.campaign import Point


def evidence(points: list[Point]) -> list[str]:
    return []
