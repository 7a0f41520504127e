"""The compiled baselines from decoded events to rows: see `end_points`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reefcast.model.publication import Publication
from reefcast_lab.bench.matching.end_points import layout, run
from reefcast_lab.bench.matching.table import Array, Table


class EndPoints:
    """Counting, or REIN."""

    def __init__(self, table: Table, counting: bool) -> None:
        self._numbers = tuple(table.low)
        self._codes: dict[str, dict[Any, int]] = {
            name: {word: code for code, word in enumerate(words)}
            for name, words in table.vocabulary.items()
        }
        self._layout = layout(table, counting)
        self._counting = counting
        self._out = np.empty(1024, np.int32)

    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self._layout)

    def match(self, publication: Publication) -> Array:
        get = publication.attributes.__getitem__
        numbers = np.array([[*map(get, self._numbers)]], np.float64)
        codes = np.array([[of.get(get(name), -1) for name, of in self._codes.items()]], np.int64)
        return self._run(numbers, codes)[1]

    def match_batch(self, columns: Mapping[str, Any]) -> tuple[Array, Array]:
        count = len(next(iter(columns.values())))
        numbers = np.empty((count, len(self._numbers)))
        for i, name in enumerate(self._numbers):
            numbers[:, i] = columns[name]
        codes = np.empty((count, len(self._codes)), np.int64)
        for i, (name, of) in enumerate(self._codes.items()):
            codes[:, i] = [of.get(word, -1) for word in columns[name].to_pylist()]
        return self._run(numbers, codes)

    def _run(self, numbers: Array, codes: Array) -> tuple[Array, Array]:
        offsets = np.zeros(len(numbers) + 1, np.int64)
        while not run(self._layout, self._counting, numbers, codes, offsets, self._out):
            self._out = np.empty(4 * len(self._out), np.int32)
        return offsets, self._out[: offsets[-1]].copy()
