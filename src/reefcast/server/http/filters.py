"""Filters that a request names: within the broker's limits, and subscribed to."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from reefcast.client.handles import Subscription
from reefcast.errors import FilterWarning
from reefcast.model.effort import admit_filter
from reefcast.model.filters import Filter, parse_filter
from reefcast.server.asking import filter_limits
from reefcast.server.http.front import HttpFront
from reefcast.server.http.inner import InnerClient


def admitted(front: HttpFront, texts: Iterable[str]) -> list[Filter]:
    """Parse filters whose work is within the limits of the broker. Raises `LimitError` and
    `FilterSyntaxError`."""
    limits = filter_limits(front.node.host.limits)
    return [admit_filter(text, limits) or parse_filter(text) for text in texts]


async def subscribed(
    front: HttpFront, client: InnerClient, texts: Sequence[str], waiting: int
) -> Subscription:
    """Subscribe to filters, and wait until that has settled. Raises what that raises."""
    parsed = admitted(front, texts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FilterWarning)  # which nobody would read
        subscription = client.subscribe(*texts, local_queue_limit=waiting)
    await subscription.settled()
    del parsed  # not earlier: so the client and the broker parsed none of them again
    return subscription
