"""Reading on after the segments have changed.

Sealing moves rows out of the database into a segment that is not among the sources of a read that
is under way. So what was fetched counts only if the list of segments has not changed since the
sources were made; otherwise the read resumes with new sources, behind the last row that counted.

This suffices because of the order of changes: a segment is listed before its rows are dropped from
the database, and leaves the list before its file is removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from reefcast.history.merging import Source, Whole, merged
from reefcast.history.reading import Span
from reefcast.history.rows import Key, Row
from reefcast.history.segments import Segments
from reefcast.model.wire import decode_publication

Block = list[Row] | Whole


def blocks(
    segments: Segments, sources_of: Callable[[Span], list[Source]], span: Span, batch: int
) -> Iterator[tuple[Block, list[Source]]]:
    """Yield the blocks of a span as `merged` does, each with the sources it came from."""
    last: Block = []
    while True:
        listed = segments.all
        sources = sources_of(span)
        for block in merged(sources, batch):
            if segments.all is not listed:
                break
            yield block, sources
            last = block
        if segments.all is listed:
            return
        if last:
            span = replace(span, before=_end_of(last))


def _end_of(block: Block) -> Key:
    """Return the position of the last row."""
    if not isinstance(block, Whole):
        return block[-1][:3]
    last = decode_publication(block[-1])
    return last.time_us, last.publisher.encode(), last.seq
