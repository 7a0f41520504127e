"""The attributes that publishers have advertised, as a broker knows them.

Routing by advertisements tells every broker of all of them; with any other, a broker knows those of
its own clients. Equal advertisements count once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reefcast.model.attribute_ranges import AttributeRanges
from reefcast.model.filters import Filter, parse_filter
from reefcast.routing.broker import Broker
from reefcast.routing.tables import AdvertisementTable
from reefcast.server.looks.slices import slices

MOST_ATTRIBUTES = 1000
"""Attributes in one answer: those that most advertisements name."""


async def advertised_of(core: Broker, asked: Filter) -> dict[str, Any]:
    """Return the attributes of what is advertised and matches `asked`."""
    ranges = AttributeRanges(asked)
    async for some in slices(list({each.text: each for each in _filters(core)}.values())):
        for filter in some:
            ranges.add(filter)
    found = ranges.found()
    return {
        "attributes": [each.to_plain() for each in found[:MOST_ATTRIBUTES]],
        "left_out": max(len(found) - MOST_ATTRIBUTES, 0),
    }


def _filters(core: Broker) -> Iterator[Filter]:
    tables = core.router.tables().values()
    known = [table for table in tables if isinstance(table, AdvertisementTable)]
    for table in known:
        yield from (row.filter for row in table)
    if not known:
        for client in core.clients.values():
            yield from map(parse_filter, client.advertised())
