"""The status of a router and its links for operators, as plain data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from reefcast.model.messages import LinkName
from reefcast.overlay.scot import Neighbours
from reefcast.routing.links import Links
from reefcast.routing.router import Router
from reefcast.routing.services import Service
from reefcast.routing.tables import table_rows


def router_status(
    router: Router,
    services: Iterable[Service],
    counters: Mapping[str, int],
    asked: Collection[str],
    between: tuple[int, int],
) -> dict[str, Any]:
    """Return the status of a router. `tables`: the number of rows of each table, of services only
    where there are some; `rows`: those `between` two numbers (the second is that behind the last)
    for the tables in `asked`, and those that are shown in any case; `counted`: those of the
    counters that say what the routing does, in its words; `legend`: what tables and counts mean
    (`Router.legend`)."""
    tables, figures = dict(router.tables()), dict(counters)
    for service in services:
        figures |= {name: count for name, count in service.figures().items() if count}
        tables |= {name: table for name, table in service.tables().items() if len(table)}
    return {
        "routing": router.name,
        "tables": {name: len(table) for name, table in tables.items()},
        "rows": {
            name: table_rows(table, *between)
            for name, table in tables.items()
            if table.shown or name in asked
        },
        "counters": figures,
        "counted": {words: counters.get(name, 0) for name, words in router.counted.items()},
        "legend": dict(router.legend),
    }


def links_status(
    links: Links,
    neighbours: Iterable[LinkName],
    place: Neighbours | None,
    soft_links: Iterable[LinkName] = (),
) -> dict[str, Any]:
    """Return the status of the links. `region`, `cluster`: None where the overlay is no SCOT.
    `lst`: the LST and what else is known of each link, by neighbour; `tau`: above which load a link
    is overloaded."""
    soft = {link: {**links.status(link), "kind": "soft", "cluster": None} for link in soft_links}
    return {
        "region": place and place.region,
        "cluster": place and place.cluster,
        "lst": {link: _link_status(links, link, place) for link in neighbours} | soft,
        "tau": links.lst.tau,
    }


def _link_status(links: Links, link: LinkName, place: Neighbours | None) -> dict[str, Any]:
    """Return the status of a link. `kind`: "a_link", "i_link", or "" where the overlay is no SCOT;
    `cluster`: that the link leads to."""
    return {
        **links.status(link),
        "kind": place.link_kind(link) if place else "",
        "cluster": place.cluster_of(link) if place else None,
    }
