"""A stream cut into frames, however it is divided into reads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from reefcast.model import wire
from reefcast.model.wire import FrameKind
from reefcast.protocol.frames import RUN, FrameReader

PUBLISH = wire.frame(FrameKind.PUBLISH, b"body")
AGAIN = wire.frame(FrameKind.PUBLISH_AGAIN, b"")
# Payloads that look like frames themselves: a reader that loses its place finds them.
frames = st.lists(
    st.sampled_from(
        (PUBLISH, AGAIN, wire.frame(FrameKind.PING, b""), wire.frame(FrameKind.PUBLISH, PUBLISH))
    ),
    max_size=6,
)


def whole(data: bytes, start: int) -> tuple[bytes, int]:
    """Return the bytes of the PUBLISH frames from `start` on, and where they end (a cutter)."""
    end = start
    while len(data) - end >= wire.HEAD_BYTES:
        length, kind = wire.HEAD.unpack_from(data, end)
        is_publication = kind in (FrameKind.PUBLISH, FrameKind.PUBLISH_AGAIN)
        if not is_publication or end + wire.LENGTH_BYTES + length > len(data):
            break
        end += wire.LENGTH_BYTES + length
    assert end > start
    return data[start:end], end


def by_runs(reader: FrameReader, data: bytes) -> list[tuple[int, Any]]:
    run, rest = reader.begin_run(data)
    first = [] if run is None else [(RUN, run)]
    return [*first, *reader.feed(rest)] if rest else first


@example([wire.frame(FrameKind.PUBLISH, PUBLISH)], [wire.HEAD_BYTES], True)
@given(frames, st.lists(st.integers(0, 100), max_size=5), st.booleans())
def test_runs_are_the_frames(sent: list[bytes], cuts: list[int], has_cutter: bool) -> None:
    data = b"".join(sent)
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    reader, found = FrameReader(), b""
    reader.cutter = whole if has_cutter else None
    for start, end in pairwise(places):
        for kind, payload in by_runs(reader, data[start:end]):
            assert (kind == RUN) == (has_cutter and kind != FrameKind.PING)
            found += payload if kind == RUN else wire.frame(FrameKind(kind), payload)
    assert found == data


def test_a_run_is_no_longer_than_frames_may_be() -> None:
    """A frame that is too long is left to `feed`, which refuses it."""
    reader = FrameReader(max_bytes=3)
    reader.cutter = whole
    assert reader.begin_run(PUBLISH) == (None, PUBLISH)
