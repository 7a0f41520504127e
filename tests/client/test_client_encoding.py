"""What an application publishes, as a frame."""

from __future__ import annotations

import pytest

from reefcast.client.encoding import encode_event
from reefcast.errors import InvalidValueError


@pytest.mark.parametrize(
    ("attributes", "topics"), [({"x": "\ud800"}, []), ({"\ud800": 1}, []), ({}, ["\ud800"])]
)
def test_text_that_is_no_unicode(attributes: dict[str, object], topics: list[str]) -> None:
    with pytest.raises(InvalidValueError, match="no Unicode"):
        encode_event(("p", 1), 0, attributes, topics, b"")
