"""Ids of server-sent events: which positions they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.http.problems import HttpError
from reefcast.http.streams import Positions, event_bytes, owed_id, positions_in

POSITIONS = st.lists(st.integers(1, 60), max_size=40)


@given(POSITIONS, POSITIONS)
def test_ids_say_what_was_added(first: list[int], then: list[int]) -> None:
    positions = Positions(first)
    for position in then:
        positions.add(position)
    assert list(positions) == sorted({*first, *then})
    if first or then:
        assert positions_in(owed_id(7, positions), 7) == sorted({*first, *then})
        assert positions_in(owed_id(7, positions), 8) == []


def test_ranges_are_as_long_as_they_can_be() -> None:
    assert Positions([7, 3, 4, 5]).text == "3-5,7"
    assert Positions([]).text == ""


@pytest.mark.parametrize(
    "text", ["a", "1-", "-1", "0", "5-4", "1,,2", "1-70000", "1;2", "٣", "9" * 19, "", "7:1"]
)
def test_what_says_no_positions(text: str) -> None:
    with pytest.raises(HttpError):
        positions_in(f"7:{text}", 7)


@pytest.mark.parametrize("text", ["1-3", "a:1", ":1", "9999999999999999999:1"])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(HttpError, match="no id of an event of a session"):
        positions_in(text, 7)


def test_the_bytes_of_an_event() -> None:
    assert event_bytes(b"{}") == b"data: {}\n\n"
    assert event_bytes(b"{}", id="1-3", name="end") == b"event: end\nid: 1-3\ndata: {}\n\n"


@pytest.mark.parametrize("mark", ["\n", "\r", "\r\n", "\0"])
def test_no_publisher_writes_lines_of_a_stream(mark: str) -> None:
    written = event_bytes(b"{}", id=f"x{mark}{mark}data: forged:1").decode()
    replaced = "\ufffd" * 2 * len(mark)
    assert written == f"id: x{replaced}data: forged:1\ndata: {{}}\n\n"
