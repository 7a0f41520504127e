"""Notes of a session: their limits, beside the plainest count; and messages that carry them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving_sessions import Driver
from reefcast.errors import LimitError, LocalError
from reefcast.model.keeping import SessionOptions
from reefcast.sessions import notes as module
from reefcast.sessions.notes import Notebook, parts_of

KEYS = st.sampled_from(("", "a", "ä", "abc", "a" * 9))
TEXTS = st.sampled_from(("", "x", "üü", "x" * 11))


def size_of(notes: dict[str, str]) -> int:
    return sum(len(f"{key}{text}".encode()) for key, text in notes.items())


@given(st.lists(st.dictionaries(KEYS, st.none() | TEXTS)))
def test_notes_stay_within_their_limits(changes: list[dict[str, str | None]]) -> None:
    book, twin = Notebook({}), dict[str, str]()
    with pytest.MonkeyPatch.context() as patch:
        for name, most in {"NOTES": 3, "NOTES_BYTES": 20, "KEY_BYTES": 8, "TEXT_BYTES": 10}.items():
            patch.setattr(module, f"MOST_{name}", most)
        for notes in changes:
            after = {key: text for key, text in (twin | notes).items() if text is not None}
            long = any(
                text is not None and (len(key.encode()) > 8 or len(text.encode()) > 10)
                for key, text in notes.items()
            )
            if long or len(after) > 3 or size_of(after) > 20:
                with pytest.raises(LimitError, match="it may have"):
                    book.put(notes)
            else:
                book.put(notes)
                twin = after
            assert book.texts == twin
            assert Notebook(dict(twin))._bytes == book._bytes


@given(st.dictionaries(KEYS, TEXTS))
def test_parts_are_all_notes_and_none_is_too_large(notes: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART_BYTES", 12)
        parts = list(parts_of(notes))
    assert [item for part in parts for item in part.items()] == list(notes.items())
    assert all(len(part) == 1 or size_of(part) <= 12 for part in parts if part)
    assert all(parts) or parts == [{}]


def test_notes_by_a_consumer_need_it_attached_to_this_session() -> None:
    driver = Driver()
    for name in "st":
        driver.home.create("", name, f"${name}", SessionOptions(), 0.0)
    driver.home.attach("", "s", "c", 1, 0.0)
    driver.home.note("", "s", {"a": "1"}, 0.0, consumer="c")
    for name, consumer in (("s", "d"), ("t", "c")):
        with pytest.raises(LocalError, match=f"'{consumer}' is not attached to session '{name}'"):
            driver.home.note("", name, {"a": "2"}, 0.0, consumer=consumer)
    driver.home.detach("c", 0.0)
    with pytest.raises(LocalError, match="not attached"):
        driver.home.note("", "s", {"a": "2"}, 0.0, consumer="c")
    assert (driver.home.notes("", "s"), driver.home.notes("", "t")) == ({"a": "1"}, {})


def test_a_session_that_comes_again_has_no_notes_of_the_one_before() -> None:
    driver = Driver()
    driver.home.create("", "s", "$1", SessionOptions(), 0.0)
    driver.home.note("", "s", {"a": "1"}, 0.0)
    driver.settle()
    driver.home.close("", "s", 0.0)
    driver.settle()
    driver.kill(None)
    driver.home.create("", "s", "$2", SessionOptions(), 0.0)
    driver.settle()
    driver.kill(None)
    assert driver.home.notes("", "s") == {}
