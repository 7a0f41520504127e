"""What answers each route of `reefcast.http.routes`, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from reefcast.server.http.asking import Answering
from reefcast.server.http.publishing import publish
from reefcast.server.http.streaming import events

ANSWERS: Mapping[str, Answering] = {
    "publish": publish,
    "events": events,
}
