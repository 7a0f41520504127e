"""Sizes of messages on a link, in bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from reefcast.model.messages import Publish
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, encode, encode_publication, header_bytes

PUBLISH_OVERHEAD_BYTES = 9
"""Frame head, header length and header of a PUBLISH frame."""


def publication_size(publication: Publication) -> int:
    """Return the bytes of a PUBLISH frame whose header holds nothing but a hop count."""
    return PUBLISH_OVERHEAD_BYTES + len(encode_publication(publication))


def message_size(message: Any) -> int:
    """Return the bytes of the frame that carries the message; of a publication without what its
    header holds (see `publication_size`)."""
    if type(message) is Publish:
        return publication_size(message.publication)
    return len(encode(FrameKind.CONTROL, message))


def framed_size(message: Any, size: int) -> int:
    """Return `size`, which `message_size` gave, plus what a publication's header adds."""
    return size + wire_bytes(message.header) if type(message) is Publish else size


wire_bytes = lru_cache(maxsize=4096)(header_bytes)
"""Bytes that a header adds to a frame."""
