"""The structured cyclic overlay of OctopiA (SCOT): a tree times a complete graph.

Section 3 and 4 of the paper. `SCOT(T, m)` is the Cartesian product of a tree `T` (the *acyclic
factor*) and the complete graph on `0..m-1` (the *connectivity factor*). Its broker `B(x, y)` has
a label `x` of the tree and a cluster index `y`, and these links:

- `(x, y) - (x', y)` for every link `x - x'` of the tree: an **aLink**, inside a cluster;
- `(x, y) - (x, y')` for all `y != y'`: an **iLink**, inside a region.

**Cluster** `C_y`: all brokers of one `y`, a copy of the tree. **Region** `R_x`: all brokers of one
`x`, a clique. *Primary* neighbours are over aLinks, *secondary* over iLinks. An *edge* broker has
at most one primary neighbour, an *inner* one two or more; all of a region are of one kind.

Rules, by the paper's names, which stand in the refusals:

- Acyclic property: the first factor is a tree (connected, no cycle).
- Connectivity property: the second factor is complete.
- Index property: the labels of the second factor are `0..m-1`.
- Label Order property: a broker's first label is of the tree, its second the cluster index; so
  the factors are given in this order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reefcast.errors import ConfigurationError
from reefcast.overlay.topology import Edge, Graph, diameter, edges_of, graph, is_connected, is_tree


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a broker, `B(region, cluster)`; `cluster` counts from 0."""

    region: str
    cluster: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A broker's view of a SCOT: its region, its cluster, how many clusters there are, and its
    links.

    `primary`: the neighbours over aLinks, sorted. `secondary`: those over iLinks, each with its
    cluster, in the order of the clusters.
    """

    region: str
    cluster: int
    clusters: int
    primary: tuple[str, ...]
    secondary: dict[str, int]

    def link_kind(self, neighbour: str) -> str:
        """Return the kind of the link to a neighbour: "a_link" or "i_link"."""
        return "i_link" if neighbour in self.secondary else "a_link"

    def cluster_of(self, neighbour: str) -> int:
        """Return the cluster that the link to a neighbour leads to."""
        return self.secondary.get(neighbour, self.cluster)


@dataclass(frozen=True, slots=True)
class Scot:
    """A SCOT and its classification; made by `scot`, `scot_product` and `scot_of` only.

    `places`: of every broker, by name. `graph`: the overlay, by names of brokers; `tree`: the
    acyclic factor, by labels."""

    tree: Graph
    clusters: int
    places: dict[str, Place]
    graph: Graph

    @property
    def a_links(self) -> list[Edge]:
        """Links inside a cluster: `clusters * (|tree| - 1)`."""
        return [(a, b) for a, b in edges_of(self.graph) if self._cluster_of(a, b) is not None]

    @property
    def i_links(self) -> list[Edge]:
        """Links between clusters: `|tree| * clusters * (clusters - 1) / 2`."""
        return [(a, b) for a, b in edges_of(self.graph) if self._cluster_of(a, b) is None]

    @property
    def diameter(self) -> int:
        """The diameter in hops: that of the tree, plus one if there is another cluster."""
        return diameter(self.tree) + (self.clusters > 1)

    def cluster(self, index: int) -> list[str]:
        """Return the brokers of `C_index`. Raises `ConfigurationError` if there is no such
        cluster."""
        if not 0 <= index < self.clusters:
            raise ConfigurationError(
                f"there is no cluster {index}: the clusters are 0 to {self.clusters - 1}"
            )
        return [name for name, place in self.places.items() if place.cluster == index]

    def region(self, label: str) -> list[str]:
        """Return the brokers of `R_label`. Raises `ConfigurationError` if there is no such
        region."""
        if label not in self.tree:
            raise ConfigurationError(
                f"there is no region {label!r}: the regions are {', '.join(self.tree)}"
            )
        return [name for name, place in self.places.items() if place.region == label]

    def is_edge(self, name: str) -> bool:
        """Return whether a broker has at most one primary neighbour; else it is an inner one."""
        return len(self.tree[self.places[name].region]) <= 1

    def neighbours(self, name: str) -> Neighbours:
        """Return the neighbours of one broker."""
        region, here = self.places[name].region, self.places[name].cluster
        around = [(self.places[other].cluster, other) for other in self.graph[name]]
        return Neighbours(
            region=region,
            cluster=here,
            clusters=self.clusters,
            primary=tuple(other for cluster, other in around if cluster == here),
            secondary={other: cluster for cluster, other in sorted(around) if cluster != here},
        )

    def _cluster_of(self, a: str, b: str) -> int | None:
        """Return the cluster that a link is in; None for an iLink."""
        cluster = self.places[a].cluster
        return cluster if self.places[b].cluster == cluster else None


def scot(tree: Graph, clusters: int) -> Scot:
    """Return `SCOT(tree, clusters)`; its brokers are named `x-y`, cluster by cluster.

    Raises `ConfigurationError` naming the property that does not hold.
    """
    if clusters < 1:
        raise ConfigurationError(
            f"Index property: {clusters} clusters cannot be numbered from 0; ask for 1 or more"
        )
    _require(acyclic_fault(tree))
    places = {
        f"{label}-{index}": Place(label, index) for index in range(clusters) for label in tree
    }
    return _made(tree, clusters, places)


def scot_product(acyclic: Graph, connectivity: Graph) -> Scot:
    """Return the product of two factors, the second with the labels "0" to "m-1".

    Raises `ConfigurationError` naming the property that does not hold; it is that of the label
    order when the factors would do the other way round.
    """
    fault = _fault_of(acyclic, connectivity)
    if fault and not _fault_of(connectivity, acyclic):
        fault = (
            "Label Order property: the factors stand in the wrong order; give the tree first and "
            "the complete graph of cluster indexes second"
        )
    _require(fault)
    return scot(acyclic, len(connectivity))


def scot_of(overlay: Graph, places: Mapping[str, Place]) -> Scot:
    """Return the SCOT that an overlay is, its brokers standing at `places`.

    Raises `ConfigurationError` naming the property, and the link that is missing or too many.
    """
    clusters = _check_places(overlay, places)
    tree = _acyclic_factor(overlay, places, clusters)
    made = _made(tree, clusters, {name: places[name] for name in overlay})
    wished, there = set(edges_of(made.graph)), set(edges_of(overlay))
    for a, b in sorted(wished - there):
        _require(_missing(a, b, places))
    for a, b in sorted(there - wished):
        _require(_too_many(a, b, places))
    return made


def evaluation_tree() -> Graph:
    """Return the tree of the paper's evaluation overlay `S_e`, 14 labels; with 4 clusters 56
    brokers.

    The paper gives it as a picture only: the inner F, G, H, I are taken as a path.
    """
    edges = [*itertools.pairwise("FGHI")]
    leaves = {"F": "ABC", "G": "DE", "H": "JK", "I": "LMN"}
    edges += [(inner, leaf) for inner, around in leaves.items() for leaf in around]
    return graph("ABCDEFGHIJKLMN", edges)


def acyclic_fault(tree: Graph) -> str:
    """Return the property that keeps a graph from being an acyclic factor, in words; "" if none
    does."""
    if not tree:
        return "Acyclic property: the tree has no nodes"
    if not is_connected(tree):
        return "Acyclic property: the tree is not connected, some of its nodes cannot be reached"
    if not is_tree(tree):
        links = len(edges_of(tree))
        return f"Acyclic property: {links} links between {len(tree)} nodes make a cycle"
    return ""


def _fault_of(acyclic: Graph, connectivity: Graph) -> str:
    return acyclic_fault(acyclic) or _index_fault(connectivity) or _complete_fault(connectivity)


def _index_fault(connectivity: Graph) -> str:
    wished = {str(index) for index in range(len(connectivity))}
    if connectivity and wished == set(connectivity):
        return ""
    found = ", ".join(repr(label) for label in connectivity) or "none"
    return (
        f"Index property: the labels of the second factor are {found}; they must be the integers "
        f"0 to {max(len(connectivity) - 1, 0)}"
    )


def _complete_fault(connectivity: Graph) -> str:
    for a, b in itertools.combinations(connectivity, 2):
        if b not in connectivity[a]:
            return (
                f"Connectivity property: the second factor is not complete, the link {a} - {b} "
                "is missing"
            )
    return ""


def _require(fault: str) -> None:
    if fault:
        raise ConfigurationError(fault)


def _made(tree: Graph, clusters: int, places: dict[str, Place]) -> Scot:
    """Make a SCOT; `places` hold every pair of a label and an index once."""
    name_at = {place: name for name, place in places.items()}
    a_links = [
        (name_at[Place(a, index)], name_at[Place(b, index)])
        for index in range(clusters)
        for a, b in edges_of(tree)
    ]
    i_links = [
        (name_at[Place(label, i)], name_at[Place(label, j)])
        for label in tree
        for i, j in itertools.combinations(range(clusters), 2)
    ]
    return Scot(tree, clusters, places, graph(places, [*a_links, *i_links]))


# --- is a given overlay one? ----------------------------------------------------------------------


def _check_places(overlay: Graph, places: Mapping[str, Place]) -> int:
    """Check that every broker has a place, and every place one broker; return the number of
    clusters."""
    if not overlay:
        raise ConfigurationError("Acyclic property: the overlay has no brokers")
    name_at: dict[Place, str] = {}
    for name in overlay:
        if name not in places:
            raise ConfigurationError(
                f"Label Order property: broker {name} has no region and cluster; give it both"
            )
        other = name_at.setdefault(places[name], name)
        if other != name:
            place = places[name]
            raise ConfigurationError(
                f"Index property: brokers {other} and {name} both stand in region "
                f"{place.region!r}, cluster {place.cluster}"
            )
    return _check_all_there(name_at)


def _check_all_there(name_at: Mapping[Place, str]) -> int:
    indexes = {place.cluster for place in name_at}
    if indexes != set(range(len(indexes))):
        raise ConfigurationError(
            f"Index property: the clusters are {', '.join(map(str, sorted(indexes)))}; they must "
            f"be numbered 0 to {len(indexes) - 1}"
        )
    for label in sorted({place.region for place in name_at}):
        for index in sorted(indexes):
            if Place(label, index) not in name_at:
                raise ConfigurationError(
                    f"Index property: region {label!r} has no broker in cluster {index}; every "
                    "region has one in each cluster"
                )
    return len(indexes)


def _acyclic_factor(overlay: Graph, places: Mapping[str, Place], clusters: int) -> Graph:
    """Return the tree of the first cluster that is one: so the link to blame is in the others."""
    labels = _once(place.region for place in (places[name] for name in overlay))
    copies = [_labels_of(overlay, places, labels, index) for index in range(clusters)]
    for copy in copies:
        if is_tree(copy):
            return copy
    raise ConfigurationError(f"{acyclic_fault(copies[0])} (cluster 0)")


def _labels_of(
    overlay: Graph, places: Mapping[str, Place], labels: Iterable[str], index: int
) -> Graph:
    """Return one cluster, by labels."""
    inside = [
        (places[a].region, places[b].region)
        for a, b in edges_of(overlay)
        if places[a].cluster == places[b].cluster == index
    ]
    return graph(labels, inside)


def _once(labels: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(labels))


def _missing(a: str, b: str, places: Mapping[str, Place]) -> str:
    if places[a].region == places[b].region:
        return (
            f"Connectivity property: the iLink {a} - {b} is missing; all brokers of region "
            f"{places[a].region!r} must be linked with one another"
        )
    return (
        f"Acyclic property: the aLink {a} - {b} is missing; every cluster must be a copy of the "
        "same tree"
    )


def _too_many(a: str, b: str, places: Mapping[str, Place]) -> str:
    if places[a].cluster == places[b].cluster:
        return (
            f"Acyclic property: the aLink {a} - {b} is too many; every cluster must be a copy of "
            "the same tree"
        )
    return (
        f"Connectivity property: the link {a} - {b} is too many; it leaves both its region and "
        "its cluster"
    )
