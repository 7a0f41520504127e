"""The drawing of a SCOT."""

from __future__ import annotations

import itertools
import random
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")

from hypothesis import given, settings
from hypothesis import strategies as st

from draws import RANDOMS
from reefcast.overlay.scot import evaluation_tree, scot
from reefcast.overlay.topology import graph, names, random_tree
from reefcast.pipeline.scot_figure import A_LINK, I_LINK, layer_of, scot_figure


@pytest.mark.long
def test_every_broker_and_every_link_is_drawn() -> None:
    made = scot(evaluation_tree(), 4)
    svg = scot_figure(made)
    root = ElementTree.fromstring(svg)
    texts = {
        "".join(element.itertext()).strip() for element in root.iter() if "text" in element.tag
    }
    assert set(made.graph) | {"aLink", "iLink", "cluster 3"} <= texts
    # One of each is in the legend.
    assert svg.count(f"stroke: {A_LINK}") == len(made.a_links) + 1
    assert svg.count(f"stroke: {I_LINK}") == len(made.i_links) + 1


@pytest.mark.long
def test_it_is_drawn_the_same_every_time_in_colours_of_its_own() -> None:
    made = scot(evaluation_tree(), 2)
    svg = scot_figure(made)
    assert svg == scot_figure(made)
    assert "currentColor" not in svg
    assert "var(" not in svg


def test_names_are_written_as_they_are() -> None:
    made = scot(graph(["$x_1$", "<b>"], [("$x_1$", "<b>")]), 1)
    texts = [text.strip() for text in ElementTree.fromstring(scot_figure(made)).itertext()]
    assert {"$x_1$-0", "<b>-0"} <= set(texts)


@settings(max_examples=20)
@given(n=st.integers(1, 20), rng=RANDOMS)
def test_no_two_regions_share_a_column(n: int, rng: random.Random) -> None:
    layer = layer_of(scot(random_tree(names(n), rng), 2))
    xs = sorted(x for x, _ in layer.values())
    assert all(right - left > 0.37 for left, right in itertools.pairwise(xs))
