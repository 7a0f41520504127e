"""One run of a torture: a random network under a routing, and what was wrong in it."""

from __future__ import annotations

import random
import traceback
from contextlib import suppress
from itertools import pairwise
from typing import Any, get_args

from reefcast.errors import ConfigurationError
from reefcast.overlay.scot import Scot, scot
from reefcast.overlay.topology import edges_of, graph
from reefcast.routing.capabilities import MovesLinks
from reefcast.routing.covering.strategies import CoveringOptions, Strategy
from reefcast.routing.mesh.meshed import Meshed
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.strategies import StrategyName
from reefcast.routing.registry import ROUTINGS, routing_named
from reefcast.routing.router import Router, Shape
from reefcast_lab.torture.links import Directed
from reefcast_lab.torture.network import Network, NeverQuietError
from reefcast_lab.torture.script import Torture

PUBLICATIONS = 25


def overlay_of(
    rng: random.Random, routing: str, most: int = 5
) -> tuple[list[Directed], Scot | None]:
    """Return the links of a random overlay on which a routing works, and what SCOT it is."""
    names = "abcde"[: rng.randint(2, most)]
    kind = routing_named(routing)
    edges = [(names[rng.randrange(at)], names[at]) for at in range(1, len(names))]
    if issubclass(kind, Meshed) and rng.random() < 0.7:  # far enough apart for soft links
        edges = list(pairwise(names))
    shape = kind.overlay
    if shape is Shape.SCOT:
        labels = sorted({name for edge in edges[:2] for name in edge})
        product = scot(graph(labels, edges[:2]), rng.choice((1, 2, 3)))
        return list(edges_of(product.graph)), product
    if shape is Shape.ANY and rng.random() < 0.5 and len(names) > 2:
        more = [(one, other) for one in names for other in names if one < other]
        edges = sorted({*edges, *rng.sample(more, rng.randint(1, 2))})
    return edges, None


def network_of(seed: int, routing: str, *, text: bool = False) -> Network:
    """Return the random network of this seed."""
    rng = random.Random(seed)
    edges, product = overlay_of(rng, routing)
    kind = routing_named(routing)
    options: dict[str, Any] = {}
    if coverings := _coverings(kind):
        options["covering"] = rng.choice(coverings)
    if issubclass(kind.options, MeshOptions):
        options["strategy"] = rng.choice(get_args(StrategyName))
        options["delta"] = rng.choice((2, 3, 4))
        options["capacity_per_s"] = 1.0  # so that SH has both sides
    if issubclass(kind, MovesLinks) and (moves := random.Random(f"moves/{seed}")).random() < 0.5:
        options["coordinator"] = moves.choice(sorted({name for edge in edges for name in edge}))
    dedup_s = rng.choice((3600.0, 3600.0, 3600.0, 30.0))
    custody_bytes = rng.choice((300, 1 << 20, 1 << 20))
    return Network(
        edges,
        seed,
        routing,
        scot=product,
        dedup_s=dedup_s,
        custody_bytes=custody_bytes,
        advisories=rng.random() < 0.25,
        text=text,
        **options,
    )


def _coverings(kind: type[Router]) -> list[Strategy]:
    """Return the covering strategies that a routing takes."""
    found: list[Strategy] = []
    for strategy in get_args(Strategy) if issubclass(kind.options, CoveringOptions) else ():
        with suppress(ConfigurationError):
            kind.options(covering=strategy)
            found.append(strategy)
    return found


def routings() -> list[str]:
    """Return the names of the routings that confirm publications."""
    return [name for name in ROUTINGS if not routing_named(name).unconfirmed]


def torture(
    seed: int, routing: str = "acyclic", *, text: bool = False
) -> tuple[Network, list[str]]:
    """Run a random network under this routing; return it, and what was wrong."""
    network = network_of(seed, routing, text=text)
    try:
        return network, Torture(network, PUBLICATIONS).run()
    except NeverQuietError as error:
        network.problems.append(str(error))
        return network, network.problems
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        file = where.filename.rpartition("reefcast/")[2]
        said = f"crash: {type(error).__name__}: {error} ({file}:{where.lineno})"
        network.problems.append(said)
        return network, network.problems
