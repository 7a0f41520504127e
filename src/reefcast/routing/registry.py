"""The routings by name. A new one is a module and a line here."""

from __future__ import annotations

from reefcast.errors import ConfigurationError
from reefcast.routing.acyclic import Acyclic
from reefcast.routing.flooding import Flooding
from reefcast.routing.router import Router
from reefcast.routing.scot import Idr, Spr
from reefcast.routing.tid import TidD, TidS

ROUTINGS: dict[str, type[Router]] = {
    routing.name: routing for routing in (Acyclic, Flooding, Spr, Idr, TidS, TidD)
}


def routing_named(name: str) -> type[Router]:
    """Raises `ConfigurationError` for a name that is not registered."""
    if name not in ROUTINGS:
        raise ConfigurationError(
            f"there is no routing named {name!r}; choose one of {', '.join(sorted(ROUTINGS))}"
        )
    return ROUTINGS[name]
