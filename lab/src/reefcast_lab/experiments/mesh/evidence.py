"""What stands below the table of the mesh paper: all figures of all runs, and what they show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reefcast_lab.bench.matching.page import markdown
from reefcast_lab.experiments.campaign import Measured, Point
from reefcast_lab.experiments.evidence_tables import Section, cell, tables
from reefcast_lab.experiments.mesh import cluster_burst, light, meshes, throughput, unchosen
from reefcast_lab.experiments.numerals import short

ROUTING = "routing"

SCARCE = (
    ("deliveries a minute", "deliveries_per_min"),
    ("share of what is due", "delivered_share"),
    ("yield", "yield"),
    ("mean hops", "mean_hops"),
    ("publications between brokers, a second", "sends_per_s"),
    ("copies of the busiest broker, for one published", "busiest_copies"),
    ("soft links", "soft_links"),
)

SECTIONS = (
    Section(
        light.NAME,
        "Nothing is full (M1 to M5)",
        "dataset DT",
        "All that is published in ten minutes, from the very first publication on: links are found "
        "meanwhile. Of the busiest broker: copies that it sends, and publications that come to it, "
        "for each one published. The more direct copies are, the more of them the brokers near "
        "publishers send themselves.",
        (
            ("deliveries", "deliveries"),
            ("pure forwarders", "pure_forwarders"),
            ("yield", "yield"),
            ("mean hops", "mean_hops"),
            ("mean delay, s", "mean_delay_s"),
            ("publications a second", "sends_per_s"),
            ("loads, share of the bytes", "loads_share"),
            ("soft links", "soft_links"),
            ("busiest: copies", "busiest_copies"),
            ("busiest: comes", "busiest_inputs"),
        ),
        ROUTING,
    ),
    Section(
        meshes.COVERING,
        "Covering sets (M6)",
        "brokers",
        "Of the mean broker with the least fanout: subscriptions in its covering sets, and "
        "predicates evaluated for a publication; and how much more it is with the next larger "
        "fanout. Soft links with the one and the other: brokers fill the less of their room, the "
        "smaller it is, as those in the centre, whom all ask first, have none left.",
        (
            ("subscriptions", "rows"),
            ("predicates", "evaluations"),
            ("growth of the first", "rows_growth"),
            ("of the second", "evaluations_growth"),
            ("soft links", "soft_links"),
            ("with the next fanout", "soft_links_next"),
        ),
        ROUTING,
    ),
    *(
        Section(
            campaign,
            f"Throughput with {campaign.removeprefix('throughput-')} on {configuration} (M7)",
            "fanout",
            "",
            SCARCE,
            ROUTING,
        )
        for campaign, configuration in throughput.DATASETS.items()
    ),
    Section(
        throughput.UPLINKS,
        "Capped uplinks (M8)",
        "cap",
        "All links of a broker share one transmitter of so many publications a second.",
        SCARCE,
        ROUTING,
    ),
    Section(
        throughput.PLANETLAB, "Slow uplinks of 21 brokers (M9)", "dataset DT", "", SCARCE, ROUTING
    ),
    Section(throughput.FRIENDS, "A social network (M10)", "fanout", "", SCARCE, ROUTING),
    Section(
        meshes.PATHS,
        "End-to-end paths (M11)",
        "brokers",
        "Ways along the primary path, by links that there were when the run ended.",
        (
            ("pairs with 100", "pairs_with_100"),
            ("with 1 000", "pairs_with_1000"),
            ("most paths", "most_paths"),
            ("soft links", "soft_links"),
        ),
        ROUTING,
    ),
    Section(
        unchosen.NAME,
        "Links that nobody chose (M2, M11)",
        "links, %",
        "Counted without a simulation: of all soft links that there can be within Delta on C1 (and "
        "on C2, for its paths) so many percent, drawn at random. The paper's 40 % of the pairs "
        "with 100 paths and 13 % with 1 000 (Fig. 1) take 70 to 80 % of the links; its yields and "
        "pure forwarders (Table 2) are those of fewer, and with DT2 and S2 of as many. Brokers "
        "that choose theirs by gain, as the paper has it, do better with as many: see above.",
        (
            ("soft links", "soft_links"),
            ("C1: pairs with 100 paths", "pairs_with_100"),
            ("C2: with 1 000", "pairs_with_1000"),
            ("yield, DT1", "yield_DT1"),
            ("pure forwarders, DT1", "pure_forwarders_DT1"),
            ("yield, DT2", "yield_DT2"),
            ("pure forwarders, DT2", "pure_forwarders_DT2"),
        ),
        ROUTING,
    ),
    Section(
        cluster_burst.NAME,
        "A mesh inside OctopiA's clusters (our own)",
        "burst (1/minute)",
        "What stands below the table of octopia.md for O12 and O13, of the same runs with soft "
        "links inside the clusters (`-mesh`) and without: `stable`, and over which time delays are "
        "counted, is explained there. Inner links are the aLinks and soft links of a cluster. The "
        "iLinks are the same with a mesh and without: what it spares a cluster are its pure "
        "forwarders, of the burst and of all else.",
        (
            ("stable after (s)", "stable_s"),
            ("of the runs", "stable"),
            ("mean delay (s)", "mean_delay_s"),
            ("under 1 s", "under_1_s"),
            ("worst (s)", "worst_delay_s"),
            ("publications between brokers", "messages"),
            ("queue of target links", "queue_len"),
            ("busiest link before (1/s)", "busiest_link_per_s"),
            ("longest queue: inner links of the burst's broker", "longest_a_link_queue_own"),
            ("its iLinks", "longest_i_link_queue_own"),
            ("other inner links", "longest_a_link_queue_other"),
        ),
        ROUTING,
    ),
)


def evidence(measured: Measured) -> list[str]:
    """Markdown, from everything measured."""
    preset = [point for point in measured.points if not point.variant]
    return [*tables(preset, SECTIONS), *_variants(measured.points)]


def _variants(points: Sequence[Point]) -> Iterator[str]:
    """Of M7 and M10: what depends on how long a publication takes at a broker."""
    shares = {
        (p.campaign, p.x, p.routing, p.variant): p
        for p in points
        if p.at == 0.0 and p.metric == "delivered_share" and p.campaign in (M7, throughput.FRIENDS)
    }
    rows = sorted({key[:3] for key in shares if key[3]})
    if not rows:
        return
    yield "### How much depends on how fast brokers are (M7, M10)"
    yield (
        "The share of what is due, with half of the time that a publication takes at a broker, "
        "with the one that claims rest on, and with twice that; in brackets, over S0. What a mesh "
        "gains lies between nothing, where S0 has time for all, and what is left where the mesh is "
        "overloaded too."
    )
    columns = {"half": "half", "": "as claimed", "double": "double"}
    lines = []
    for campaign, x, routing in rows:
        cells = []
        for variant in columns:
            point = shares.get((campaign, x, routing, variant))
            base = shares.get((campaign, x, "S0", variant))
            over = f" ({100 * (point.mean / base.mean - 1):+.0f} %)" if point and base else ""
            cells.append(cell(point) + ("" if routing == "S0" else over))
        lines.append([campaign, short(x), routing, *cells])
    yield markdown(["scenario", "fanout", "routing", *columns.values()], lines, "lrlrrr")


M7 = "throughput-DT1"
