"""What a column of times, dates or decimals cannot show, for the column of leftovers.

That is a text that is no time, or a number with too many digits. The kernels, which fill the column
of leftovers, do not read texts of times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Lost(NamedTuple):
    """Values of an attribute, as texts, and their rows."""

    name: str
    rows: np.ndarray[tuple[int], np.dtype[np.int64]]
    texts: pa.Array


def not_shown(name: str, forms: Sequence[pa.Array], shown: pa.Array) -> Iterator[Lost]:
    """Yield the values of an attribute that its column does not show. `forms`: the values as they
    came, by type, each NULL where another one is not."""
    if all(len(each) - each.null_count == 0 for each in forms):
        return
    texts = pc.coalesce(*map(_text, forms))
    rows = np.flatnonzero(pc.and_(pc.is_valid(texts), pc.is_null(shown)).to_numpy(False))
    if len(rows):
        yield Lost(name, rows, texts.take(pa.array(rows)))


def _text(array: pa.Array) -> pa.Array:
    if pa.types.is_floating(array.type):
        return text_of_floats(array)
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def text_of_floats(floats: pa.Array) -> pa.Array:
    """Return floats as texts, with a point or an exponent."""
    texts = pc.cast(floats, pa.string())
    whole = pc.match_substring_regex(texts, "^-?[0-9]+$")
    return pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)


def with_lost(maps: pa.MapArray, lost: Sequence[Lost]) -> pa.MapArray:
    """Return maps with more entries, behind those that they have."""
    ends = maps.offsets.to_numpy()
    rows = np.concatenate(
        [np.repeat(np.arange(len(maps)), np.diff(ends)), *(each.rows for each in lost)]
    )
    names = [pa.array([each.name]).take(pa.array(np.zeros(len(each.rows), int))) for each in lost]
    order = pa.array(np.argsort(rows, kind="stable"))
    keys = pa.concat_arrays([maps.keys, *names]).take(order)
    values = pa.concat_arrays([maps.items, *(each.texts for each in lost)]).take(order)
    counts = np.bincount(rows, minlength=len(maps))
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(starts), keys, values).cast(maps.type)
