"""The routings by name. A new routing is a module and a line here.

A name with a colon is the place of a class, `module:Class`: so a network file can have a routing
that is not part of this package."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from reefcast.errors import ConfigurationError
from reefcast.extras import extra_for
from reefcast.overlay.scot import Scot
from reefcast.overlay.topology import Graph, edges_of, is_connected, is_tree
from reefcast.routing.router import Router, Shape

ROUTINGS = {
    "acyclic": "reefcast.routing.acyclic:Acyclic",
    "flooding": "reefcast.routing.flooding:Flooding",
    "gossip": "reefcast.routing.gossip.router:Gossip",
    "idr": "reefcast.routing.idr:Idr",
    "idr-mesh": "reefcast.routing.mesh.cluster:IdrMesh",
    "mesh": "reefcast.routing.mesh.movable:MovableMesh",
    "spr": "reefcast.routing.scot:Spr",
    "spr-mesh": "reefcast.routing.mesh.cluster:SprMesh",
    "tid-d": "reefcast.routing.tid:TidD",
    "tid-s": "reefcast.routing.tid:TidS",
}


@cache
def routing_named(name: str) -> type[Router]:
    """Return the routing of this name. Raises `ConfigurationError` for a name that is not
    registered, and for a place that has no routing."""
    place = name if ":" in name else ROUTINGS.get(name)
    if place is None:
        raise ConfigurationError(
            f"there is no routing named {name!r}; choose one of {', '.join(ROUTINGS)}, "
            "or say where yours is: my_module:MyRouting"
        )
    module, _, attribute = place.partition(":")
    try:
        with extra_for(f"routing {name!r}"):
            found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"routing {name!r} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Router)):
        raise ConfigurationError(f"routing {name!r} is not a subclass of reefcast's Router")
    return found


def check_overlay(routing: str, graph: Graph, scot: Scot | None) -> None:
    """Raise `ConfigurationError` if the routing does not work on this overlay."""
    shape = routing_named(routing).overlay
    edges = edges_of(graph)
    if shape is Shape.NONE and edges:
        raise ConfigurationError(
            f"brokers of routing {routing!r} find each other: remove the links, as the one between "
            f"{' and '.join(edges[0])}, and name some brokers as contacts in [routing]"
        )
    if shape is not Shape.NONE and not is_connected(graph):
        raise ConfigurationError("the overlay is not connected: some brokers cannot be reached")
    if shape is Shape.TREE and not is_tree(graph):
        raise ConfigurationError(
            f"routing {routing!r} needs a tree, but {len(edges)} links between "
            f'{len(graph)} brokers make cycles; use routing = "flooding", or remove links'
        )
    if shape is Shape.SCOT and scot is None:
        raise ConfigurationError(
            f"routing {routing!r} needs a SCOT (Label Order property): give every [[broker]] its "
            "region and cluster; `reefcast topology scot` writes such a file"
        )
