"""Positions for drawing the brokers of an overlay: stress majorization over hop distances.

Gansner, Koren and North, "Graph Drawing by Stress Majorization" (GD 2004), the localized update
with weights 1/d^2. Deterministic: it starts from a circle in breadth-first order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from reefcast.overlay.topology import Graph, centre, graph, hops_from

_ROUNDS = 300
Points = NDArray[np.float64]


def positions(
    brokers: Sequence[str], links: Iterable[Sequence[str]]
) -> dict[str, tuple[float, float]]:
    """Return coordinates for each broker of a connected overlay, centred on the origin, one hop
    about one unit apart, the long axis horizontal."""
    overlay = graph(brokers, [(a, b) for a, b in links])
    if len(overlay) == 1:
        return dict.fromkeys(overlay, (0.0, 0.0))
    order = _from_the_centre(overlay)
    reach = {name: hops_from(overlay, name) for name in order}
    hops = np.array([[reach[a][b] for b in order] for a in order], dtype=float)
    angles = np.linspace(0, 2 * np.pi, len(order), endpoint=False)
    radius = 0.2 + hops[0]
    points = np.column_stack((radius * np.cos(angles), radius * np.sin(angles)))
    for _ in range(_ROUNDS):
        points = _relax(points, hops)
    return {name: (float(x), float(y)) for name, (x, y) in zip(order, _level(points), strict=True)}


def _from_the_centre(overlay: Graph) -> list[str]:
    """Sort the brokers depth-first from the centre, so that branches start side by side."""
    order: list[str] = []
    waiting = [centre(overlay)]
    while waiting:
        name = waiting.pop()
        if name not in order:
            order.append(name)
            waiting.extend(reversed(overlay[name]))
    return order


def _relax(points: Points, hops: Points) -> Points:
    """Move each point to where its distances to the others are right on (weighted) average."""
    weights = np.divide(1.0, hops**2, out=np.zeros_like(hops), where=hops > 0)
    apart = points[:, None, :] - points[None, :, :]
    distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-9)
    wished = points[None, :, :] + apart * (hops / distance)[:, :, None]
    moved = (weights[:, :, None] * wished).sum(axis=1) / weights.sum(axis=1)[:, None]
    halfway: Points = 0.5 * (points + moved)  # a full step may swing for ever
    return halfway


def _level(points: Points) -> Points:
    """Move the points to the centre, and turn them so that the widest direction is horizontal."""
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    signs = np.where(axes[:, np.abs(axes).argmax(axis=1)].diagonal() < 0, -1.0, 1.0)
    turned: Points = centred @ (axes * signs[:, None]).T
    return turned
