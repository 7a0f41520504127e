"""Sources of trees: generators, the paper's tree, and files.

A source is written `path:3`, `star:6`, `balanced:14:3` (nodes, children of each),
`random:14:7` (nodes, seed), `paper` (the tree of OctopiA's evaluation), or is a file:

- GraphML (`.graphml`, `.xml`), for instance of the Internet Topology Zoo: a spanning tree of it,
  breadth-first from its centre. Its nodes are named by their labels, made fit for a broker's name
  (`El Paso/Las Cruces` is `El-Paso-Las-Cruces`); a label that comes again gets a number.
- a network file (`.toml`) whose links make a tree;
- text: one link a line, two names with a blank between, `#` before a remark.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from reefcast.errors import ConfigurationError
from reefcast.network.file import load_network
from reefcast.overlay.scot import acyclic_fault, evaluation_tree
from reefcast.overlay.topology import (
    Graph,
    balanced_tree,
    graph,
    hops_from,
    is_connected,
    names,
    path,
    random_tree,
    spanning_tree,
    star,
)

PAPER = "paper"
GENERATORS: dict[str, tuple[str, Callable[..., Graph]]] = {
    "path": ("path:NODES", lambda nodes: path(names(nodes))),
    "star": ("star:NODES", lambda nodes: star(names(nodes))),
    "balanced": (
        "balanced:NODES:CHILDREN",
        lambda nodes, children: balanced_tree(names(nodes), children),
    ),
    "random": (
        "random:NODES:SEED",
        lambda nodes, seed: random_tree(names(nodes), random.Random(seed)),
    ),
}
"""How each is written, and what makes it."""


def tree_of(source: str) -> Graph:
    """Return the tree of a source, as the module says; its labels are fit for names of brokers.

    Raises `ConfigurationError` for a source that cannot be read, or makes no tree.
    """
    kind, *numbers = source.split(":")
    if kind in GENERATORS:
        return _generated(kind, numbers)
    if source == PAPER:
        return evaluation_tree()
    file = Path(source)
    if not file.is_file():
        forms = ", ".join(form for form, _ in GENERATORS.values())
        raise ConfigurationError(
            f"{source}: there is no such file; give one, or {forms} or {PAPER}"
        )
    if file.suffix.lower() in (".graphml", ".xml"):
        return spanning_tree(graphml(file))
    links = load_network(file).graph() if file.suffix.lower() == ".toml" else edge_list(file)
    fault = acyclic_fault(links)
    if fault:
        raise ConfigurationError(f"{file}: {fault}")
    return links


def _generated(kind: str, numbers: list[str]) -> Graph:
    form, make = GENERATORS[kind]
    if len(numbers) != form.count(":") or not all(number.isdecimal() for number in numbers):
        raise ConfigurationError(f"{':'.join((kind, *numbers))}: write {form}, whole numbers")
    nodes, *others = map(int, numbers)
    if nodes < 1 or (kind == "balanced" and others[0] < 1):
        raise ConfigurationError(f"{':'.join((kind, *numbers))}: a tree has 1 node or more")
    return make(nodes, *others)


def edge_list(file: Path) -> Graph:
    """Read a graph from text, one link a line; its nodes are in the order of their first link.

    Raises `ConfigurationError` naming file and line.
    """
    edges: list[tuple[str, str]] = []
    for number, line in enumerate(_text(file).splitlines(), 1):
        ends = line.partition("#")[0].split()
        if len(ends) == 2:
            edges.append((ends[0], ends[1]))
        elif ends:
            raise ConfigurationError(
                f"{file}, line {number}: {line.strip()!r} is not two names separated by a blank"
            )
    try:
        return graph(dict.fromkeys(end for edge in edges for end in edge), edges)
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from error


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file}: is not text in UTF-8 ({error})") from error


def graphml(file: Path) -> Graph:
    """Read a connected graph from GraphML: without direction, each link once, none to itself.

    Raises `ConfigurationError` for what is no GraphML, and for a graph that is not connected.
    """
    nodes, edges = _read_graphml(file)
    if not nodes:
        raise ConfigurationError(f"{file}: the graph has no nodes")
    name_of = dict(zip((key for key, _ in nodes), unique_names(nodes), strict=True))
    links = {tuple(sorted((name_of[a], name_of[b]))) for a, b in edges if a != b}
    made = graph(name_of.values(), ((a, b) for a, b in sorted(links)))
    if not is_connected(made):
        sizes = ", ".join(map(str, _sizes_of_parts(made)))
        raise ConfigurationError(
            f"{file}: the graph is not connected, its parts have {sizes} nodes; keep one part or "
            "add links"
        )
    return made


def _read_graphml(file: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return (id, label) of the nodes in the order of the file, and the edges by id."""
    from xml.etree.ElementTree import ParseError

    import networkx

    try:
        read = networkx.read_graphml(file)
    except (ParseError, networkx.NetworkXException, ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(f"{file}: cannot be read as GraphML: {error}") from error
    nodes = [(str(key), str(data.get("label") or "")) for key, data in read.nodes(data=True)]
    return nodes, [(str(a), str(b)) for a, b in read.edges()]


def _sizes_of_parts(network: Graph) -> list[int]:
    """Return the numbers of nodes of the parts, largest first."""
    sizes: list[int] = []
    left = dict(network)
    while left:
        part = hops_from(network, next(iter(left)))
        sizes.append(len(part))
        left = {node: around for node, around in left.items() if node not in part}
    return sorted(sizes, reverse=True)


def unique_names(nodes: Iterable[tuple[str, str]]) -> list[str]:
    """Return a name fit for a broker for each (id, label): the letters, digits, `.`, `_` and `-` of
    its label, else of its id; followed by `.2`, `.3` and so on if the name is used already."""
    taken: dict[str, None] = {}
    for key, label in nodes:
        plain = _plain(label) or _plain(key) or "node"
        name, again = plain, 1
        while name in taken:
            again += 1
            name = f"{plain}.{again}"
        taken[name] = None
    return list(taken)


def _plain(label: str) -> str:
    return re.sub(r"[^\w.-]+", "-", re.sub(r"['’]", "", label)).strip("-.")
