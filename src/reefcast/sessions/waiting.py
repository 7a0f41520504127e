"""A publication for which the queue of a session has no room."""

from __future__ import annotations

import msgspec

from reefcast.model.messages import Publish


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """`subscriptions`: those of the session that match, ascending."""

    publish: Publish
    subscriptions: tuple[int, ...]
