"""Which of many bodies does one filter want? No event is decoded for it, unless it has several
topics, or another program wrote it in a way of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np

from reefcast.matching.columnar.tables import Bodies
from reefcast.matching.events import read_event, read_topic
from reefcast.matching.index import BYTES_HEAD, CompiledIndex
from reefcast.matching.machine import Int, compile_units, get8, kernel, put1
from reefcast.matching.passage.bodies import read_body
from reefcast.matching.passage.layout import F_EVENT, F_TOPICS, F_WORDS
from reefcast.matching.search import search
from reefcast.model.filters import TOPIC, Filter
from reefcast.model.wire import decode_publication

ROOM = 64
"""Words for what the index finds of one filter: more, and Python decides."""
_UNWANTED, _WANTED, _UNSURE = range(3)
_NAME = TOPIC.encode()
_NAME_SIZE = len(_NAME)


@kernel
def choose_bodies(
    state: Int, words: Int, name: Int, data: Int, offsets: Int, count: Int, chosen: Int
) -> None:
    """Write for each body (a byte) whether the index in `state` finds something for it, or that
    Python must decide. `words`: F_* and ROOM; `name`: of the attribute `topic`."""
    out = words + 8 * F_WORDS
    for row in range(count):
        put1(chosen, row, _UNSURE)
        read_body(data + get8(offsets, row), data + get8(offsets, row + 1), words)
        event, topics = get8(words, F_EVENT), get8(words, F_TOPICS)
        if event == 0 or topics > 1:
            continue
        at = read_event(state, event)
        if at == 0 or (topics == 1 and read_topic(state, at, name, _NAME_SIZE) == 0):
            continue
        found = search(state, out, 0, ROOM)
        if found >= 0:
            put1(chosen, row, _WANTED if found > 0 else _UNWANTED)


compile_units()


class BodyFilter:
    """A filter for encoded publications."""

    def __init__(self, filter: Filter) -> None:
        self._index: CompiledIndex[int] = CompiledIndex()
        self._index.add(0, filter)
        self._words = np.zeros(F_WORDS + ROOM, np.int64)

    def choose(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Return the bodies that the filter wants. Raises `ProtocolError` for bytes that are no
        publication."""
        together, chosen = Bodies.of(bodies), np.empty(len(bodies), np.uint8)
        choose_bodies(
            self._index.address,
            self._words.ctypes.data,
            id(_NAME) + BYTES_HEAD,
            together.data.ctypes.data,
            together.offsets.ctypes.data,
            len(bodies),
            chosen.ctypes.data,
        )
        unsure = np.flatnonzero(chosen == _UNSURE).tolist()
        if unsure:
            hits = self._index.match_many([decode_publication(bodies[i]) for i in unsure])
            chosen[unsure] = [bool(hit) for hit in hits]
        return list(compress(bodies, chosen.tolist()))
