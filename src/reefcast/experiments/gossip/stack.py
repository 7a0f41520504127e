"""The overlays of all topics as arrays, for measures of whole networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reefcast.experiments.gossip.structure import Graph, graph_of

Numbers = NDArray[np.int64]
Nodes = NDArray[np.int32]


class Stack(NamedTuple):
    """Nodes and topics are numbers. The subscribers of topic t are `members[starts[t] : starts[t +
    1]]`; the view of the i-th of all members is `neighbours[bounds[i] : bounds[i + 1]]`."""

    nodes: int
    starts: Numbers
    members: Nodes
    bounds: Numbers
    neighbours: Nodes
