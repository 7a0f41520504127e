"""What stands below the table of the mesh paper: all figures of all runs, and what they show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reefcast.bench.matching.page import markdown
from reefcast.experiments.campaign import Measured, Point
from reefcast.experiments.mesh import light, meshes, throughput
from reefcast.experiments.numerals import short

NONE = "-"
"""Where nothing was measured."""

Columns = Sequence[tuple[str, str]]
"""(title, metric)."""

SCARCE: Columns = (
    ("deliveries a minute", "deliveries_per_min"),
    ("share of what is due", "delivered_share"),
    ("yield", "yield"),
    ("mean hops", "mean_hops"),
    ("publications between brokers, a second", "sends_per_s"),
    ("copies of the busiest broker, for one published", "busiest_copies"),
    ("soft links", "soft_links"),
)

SECTIONS: tuple[tuple[str, str, str, str, Columns], ...] = (
    (
        light.NAME,
        "Nothing is full (M1 to M5)",
        "dataset DT",
        "Counts are told for 36 000 publications, whatever was simulated. Of the busiest broker: "
        "copies that it sends, and publications that come to it, for each one published. The more "
        "direct copies are, the more of them the brokers near publishers send themselves.",
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
    ),
    (
        meshes.COVERING,
        "Covering sets (M6)",
        "brokers",
        "Of the mean broker with the least fanout: subscriptions in its covering sets, and "
        "predicates evaluated for a publication; and how much more it is with the next larger "
        "fanout.",
        (
            ("subscriptions", "rows"),
            ("predicates", "evaluations"),
            ("growth of the first", "rows_growth"),
            ("of the second", "evaluations_growth"),
        ),
    ),
    *(
        (
            campaign,
            f"Throughput with {campaign.removeprefix('throughput-')} on {configuration} (M7)",
            "fanout",
            "",
            SCARCE,
        )
        for campaign, configuration in throughput.DATASETS.items()
    ),
    (
        throughput.UPLINKS,
        "Capped uplinks (M8)",
        "cap",
        "All links of a broker share one transmitter of so many publications a second.",
        SCARCE,
    ),
    (throughput.PLANETLAB, "Slow uplinks of 21 brokers (M9)", "dataset DT", "", SCARCE),
    (throughput.FRIENDS, "A social network (M10)", "fanout", "", SCARCE),
    (
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
    ),
)


def evidence(measured: Measured) -> list[str]:
    """Markdown, from everything measured."""
    single = [point for point in measured.points if point.at == 0.0]
    return [part for section in SECTIONS for part in _section(single, *section)]


def _section(
    points: Sequence[Point], campaign: str, title: str, x_name: str, text: str, columns: Columns
) -> Iterator[str]:
    """Nothing where nothing was measured."""
    found = {(p.x, p.routing, p.metric): p for p in points if p.campaign == campaign}
    rows = sorted({(x, routing) for x, routing, _ in found})
    if not rows:
        return
    yield f"### {title}"
    if text:
        yield text
    lines = [
        [short(x), routing, *(_cell(found.get((x, routing, metric))) for _, metric in columns)]
        for x, routing in rows
    ]
    titles = [x_name, "strategy", *(name for name, _ in columns)]
    yield markdown(titles, lines, "rl" + "r" * len(columns))


def _cell(point: Point | None) -> str:
    if point is None:
        return NONE
    mean = short(point.mean)
    return f"{mean} ± {short(point.interval)}" if point.interval else mean
