"""The publications of the measurement: about the same bytes for all brokers."""

from __future__ import annotations

from functools import cache

from reefcast.model.publication import Publication
from reefcast.model.wire import encode_publication
from reefcast_lab.bench import quotes

DIFFERENT = 1000


@cache
def some_events() -> list[quotes.Event]:
    """Return quotes; publications repeat them."""
    return quotes.events(DIFFERENT)


@cache
def some_bodies() -> list[bytes]:
    """Return them as other brokers carry them: encoded, with an id."""
    return [
        encode_publication(
            Publication("publisher-0123456789", number, 1_700_000_000_000_000, dict(event))
        )
        for number, event in enumerate(some_events(), 1)
    ]
