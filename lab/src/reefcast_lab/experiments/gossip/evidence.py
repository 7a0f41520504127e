"""What stands below the table of StAN: all figures of all runs."""

from __future__ import annotations

from reefcast_lab.experiments.campaign import Measured
from reefcast_lab.experiments.evidence_tables import Section, tables
from reefcast_lab.experiments.gossip import (
    alignment,
    comparison,
    dissemination,
    growth,
    interests,
    lastfm,
)
from reefcast_lab.experiments.gossip.correlation import CRITICAL
from reefcast_lab.experiments.gossip.dissemination import FEW

OVERLAYS = "overlays"

VIEWS = (
    ("nodes", "nodes"),
    ("topics", "topics"),
    ("subscriptions of a node", "subscriptions"),
    ("total view", "total_view"),
    ("unique view", "unique_view"),
    ("where it leads", "unique_limit"),
    ("rounds to half of the fall", "half_rounds"),
    ("to 90 %", "most_rounds"),
    ("orphans", "orphans"),
    ("topics in one piece", "connected"),
)

STRUCTURE = (
    ("out-degree, most", "most_out"),
    ("in-degree, most", "most_in"),
    ("out-degree, lowest quarter", "low_out"),
    ("in-degree, lowest quarter", "low_in"),
    ("in beside out", "in_beside_out"),
    ("clustering", "clustering"),
    ("diameter", "diameter"),
    ("mean path", "mean_path"),
    ("undirected: diameter", "undirected_diameter"),
    ("mean path", "undirected_path"),
    ("connections", "connections"),
    ("at most", "most_connections"),
)

VIEWS_TEXT = (
    "Means over nodes. Where it leads: with the neighbours of least weight among all nodes of each "
    "topic, which the protocol comes near to. Orphans: subscriptions whose node is in nobody's "
    "view of the topic; topics in one piece: the share of those whose graph is strongly connected."
)

STRUCTURE_TEXT = (
    "Of the graph that all topics induce. Degrees are of the directed graph of views, in beside "
    "out the largest difference between their distributions (Kolmogorov and Smirnov). Clustering "
    "is the mean of the local coefficients where links have no direction; diameter and mean path "
    "are along views, and once more where links have no direction. Connections: links of a node in "
    "either direction."
)


def _of_overlays(
    campaign: str, what: str, x_title: str, views: str = "", structure: str = ""
) -> tuple[Section, Section]:
    """`views`, `structure`: what is said once, in the first of several."""
    return (
        Section(campaign, f"Views, {what} (G1, G2)", x_title, views, VIEWS, OVERLAYS),
        Section(campaign, f"Structure, {what} (G4 to G6)", x_title, structure, STRUCTURE, OVERLAYS),
    )


SPREAD = (
    ("delivered", "delivered"),
    ("to all who are due", "whole"),
    ("copies for a delivery", "copies"),
    (f"fanout {FEW}: delivered", f"delivered_{FEW}"),
    ("to all who are due", f"whole_{FEW}"),
    ("copies for a delivery", f"copies_{FEW}"),
)

SPREAD_TEXT = (
    "With all neighbours, and with a fanout of 5: the share of all deliveries that are due; of the "
    "publications that all got who were to; and copies sent for each delivery."
)

SECTIONS = (
    Section(
        interests.NAME,
        "Who is interested in what (T1)",
        "nodes",
        "Shares of the pairs of nodes that are correlated at each level (what T1 is taken to be), "
        "of the nodes that are correlated with any other, and of the pairs of topics.",
        (
            ("nodes without topics", "without"),
            ("topics of a node: mean", "mean_subscriptions"),
            ("median", "median_subscriptions"),
            ("most", "most_subscriptions"),
            ("nodes of a topic: mean", "mean_subscribers"),
            ("median", "median_subscribers"),
            ("most", "most_subscribers"),
            *((f"pairs, {level} %", f"pairs_{level}") for level in CRITICAL),
            *((f"nodes, {level} %", f"nodes_{level}") for level in CRITICAL),
            *((f"topics, {level} %", f"topic_pairs_{level}") for level in CRITICAL),
        ),
        "scenario",
    ),
    *_of_overlays(alignment.NAME, "fewest topics", "nodes", VIEWS_TEXT, STRUCTURE_TEXT),
    *_of_overlays("alignment-2", "twice the topics", "nodes"),
    *_of_overlays("alignment-3", "three times the topics", "nodes"),
    Section(
        growth.NAME,
        "Growth (G3)",
        "times",
        "",
        (
            ("total view", "total_view"),
            ("unique view before", "unique_before"),
            ("after", "unique_after"),
        ),
        "of what",
    ),
    *_of_overlays(lastfm.NAME, "Last.fm", "artists"),
    *(
        Section(campaign, f"Dissemination, {what} (D1)", "%", text, SPREAD, OVERLAYS)
        for campaign, what, text in (
            (dissemination.LOSSES, "so many of the copies lost", SPREAD_TEXT),
            (dissemination.CRASHES, "so many of the nodes crashed", ""),
            (dissemination.FAILURES, "so many of both", ""),
        )
    ),
    Section(
        dissemination.TOPICS,
        "Publications with several topics (D2)",
        "topics",
        "Copies for a delivery, to all neighbours and to 5 of each topic: with one copy for each "
        "physical link, and with one message for each topic.",
        (
            ("to all", "copies_to_all"),
            ("topics apart", "copies_apart_to_all"),
            ("to 5", "copies_to_5"),
            ("topics apart", "copies_apart_to_5"),
            ("to 5: delivered", "delivered_to_5"),
        ),
        OVERLAYS,
    ),
    Section(
        comparison.NAME,
        "What else one could do (A1)",
        "% crashed",
        "`unaligned`: stacked overlays as they were. `clustered`: one overlay in which each node "
        "takes the neighbours with whom it shares most of the topics that still need some. "
        "`minimal`: the fewest connections, by the greedy of Chockler et al. In both every topic's "
        "subscribers have to be known. Reached: deliveries to live subscribers, of publications to "
        "all neighbours, before anything is repaired. Interests disclosed: in topics of others, "
        "that a node has to know if it knows those of its neighbours alone; more if it is to find "
        "them.",
        (
            ("connections", "connections"),
            ("at most", "most_connections"),
            ("clustering", "clustering"),
            ("mean path", "mean_path"),
            ("reached", "reached"),
            ("to all who are due", "whole"),
            ("copies for a delivery", "copies"),
            ("interests disclosed", "disclosed"),
        ),
        OVERLAYS,
    ),
)


def evidence(measured: Measured) -> list[str]:
    """Markdown, from everything measured."""
    return tables(measured.points, SECTIONS)
