"""Trees from generators and files; GraphML from other tools, with labels that repeat or are
missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.network.tree_sources import graphml, tree_of, unique_names
from reefcast.overlay.scot import evaluation_tree, scot
from reefcast.overlay.topology import diameter, edges_of, graph, hops_from, is_tree

GRAPHML = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" attr.type="string" for="node" id="d1" />
  <graph edgedefault="undirected">
    <node id="0"><data key="d1">El Paso/Las Cruces</data></node>
    <node id="1"><data key="d1">Xi'an "old"</data></node>
    <node id="n/2" />
    <node id="3"><data key="d1">El Paso/Las Cruces</data></node>
    <node id="4"><data key="d1">Zürich</data></node>
    <edge source="0" target="1" />
    <edge source="1" target="n/2" />
    <edge source="n/2" target="0" />
    <edge source="1" target="0" />
    <edge source="1" target="1" />
    <edge source="n/2" target="3" />
    <edge source="3" target="4" />
  </graph>
</graphml>
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    file = tmp_path / "made.graphml"
    file.write_text(GRAPHML, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("source", "nodes", "hops"),
    [
        ("path:3", 3, 2),
        ("star:6", 6, 2),
        ("balanced:14:3", 14, 5),
        ("path:1", 1, 0),
        ("paper", 14, 5),
    ],
)
def test_generators(source: str, nodes: int, hops: int) -> None:
    tree = tree_of(source)
    assert is_tree(tree)
    assert (len(tree), diameter(tree)) == (nodes, hops)


def test_random_trees_are_told_by_their_seed() -> None:
    assert tree_of("random:14:7") == tree_of("random:14:7")
    assert tree_of("random:14:7") != tree_of("random:14:8")
    assert tree_of("paper") == evaluation_tree()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("path", "^path: write path:NODES"),
        ("path:3:4", "write path:NODES"),
        ("path:-3", "write path:NODES"),
        ("random:14", "write random:NODES:SEED"),
        ("balanced:14:x", "write balanced:NODES:CHILDREN"),
        ("star:0", "a tree has 1 node or more"),
        ("balanced:4:0", "1 node or more"),
        ("ring:4", "no such file; give one, or path:NODES, .* or paper"),
    ],
)
def test_sources_that_cannot_be_are_refused(source: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        tree_of(source)


def test_graphml_names_are_unique_and_fit_for_brokers(made: Path) -> None:
    found = graphml(made)
    assert list(found) == [
        "El-Paso-Las-Cruces",
        "Xian-old",
        "n-2",
        "El-Paso-Las-Cruces.2",
        "Zürich",
    ]
    assert found["Xian-old"] == ["El-Paso-Las-Cruces", "n-2"]


def test_spanning_tree_of_graphml(made: Path) -> None:
    assert edges_of(tree_of(str(made))) == [
        ("El-Paso-Las-Cruces", "n-2"),
        ("El-Paso-Las-Cruces.2", "Zürich"),
        ("El-Paso-Las-Cruces.2", "n-2"),
        ("Xian-old", "n-2"),
    ]


@given(
    nodes=st.dictionaries(
        st.text(max_size=3), st.text(alphabet="ab.2 /'", max_size=4), max_size=12
    ).map(lambda found: list(found.items()))
)
def test_any_labels_give_names_that_a_network_file_takes(nodes: list[tuple[str, str]]) -> None:
    found = unique_names(nodes)
    assert len(set(found)) == len(found) == len(nodes)
    assert all(name and not set(name) & set("/\\'\" \t\n") for name in found)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('<edge source="3" target="4" />', "", r"not connected, its parts have 4, 1 nodes"),
        ("</graphml>", "", "cannot be read as GraphML"),
        (GRAPHML[GRAPHML.index("<graph ") :], "</graphml>", "cannot be read as GraphML"),
        (GRAPHML[GRAPHML.index("    <node") :], "</graph></graphml>", "has no nodes"),
        (GRAPHML, "", "cannot be read as GraphML"),
    ],
)
def test_graphml_that_gives_no_tree_is_refused(made: Path, old: str, new: str, says: str) -> None:
    assert old in GRAPHML
    made.write_text(GRAPHML.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=rf"made\.graphml: .*{says}"):
        tree_of(str(made))


def test_edge_list(tmp_path: Path) -> None:
    file = tmp_path / "tree.txt"
    file.write_text("# ours\nb a   # a remark\n\nb c\n", encoding="utf-8")
    assert tree_of(str(file)) == graph("bac", [("a", "b"), ("b", "c")])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a b\nb c\nc a", "Acyclic property: 3 links between 3 nodes"),
        ("a b\nc d", "Acyclic property: the tree is not connected"),
        ("", "Acyclic property: the tree has no nodes"),
        ("a b\nb c d", "line 2: 'b c d' is not two names"),
        ("a b\nb a", "given twice"),
        ("a \xff", "not text in UTF-8"),
    ],
)
def test_edge_lists_that_make_no_tree_are_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "tree.txt"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigurationError, match=rf"tree\.txt.*{says}"):
        tree_of(str(file))


def test_network_file_with_a_tree_serves(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    brokers = "".join(f'[[broker]]\nname = "{name}"\n' for name in "abc")
    links = "".join(f'[[link]]\nbetween = ["a", "{name}"]\n' for name in "bc")
    file.write_text(brokers + links)
    assert tree_of(str(file)) == graph("abc", [("a", "b"), ("a", "c")])
    cycle = '[network]\nrouting = "flooding"\n' + brokers + links
    file.write_text(cycle + '[[link]]\nbetween = ["b", "c"]\n')
    with pytest.raises(ConfigurationError, match="Acyclic property: 3 links"):
        tree_of(str(file))


@pytest.mark.data
def test_every_graph_of_the_topology_zoo(data: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(data / "topology" / "internet_topology_zoo.tar.gz", tmp_path)
    files = sorted((tmp_path / "graphml").glob("*.graphml"))
    refused = 0
    for file in files:
        try:
            whole = graphml(file)
        except ConfigurationError as error:
            assert "not connected" in str(error)
            refused += 1
            continue
        tree = tree_of(str(file))
        assert is_tree(tree)
        assert list(tree) == list(whole)
        assert set(edges_of(tree)) <= set(edges_of(whole))
        assert diameter(tree) <= 2 * min(max(hops_from(whole, node).values()) for node in whole)
        assert len(scot(tree, 2).graph) == 2 * len(tree)
    assert (len(files) - refused, refused) == (253, 23)
