"""What the mesh paper's evaluation found, beside what ours finds: rows M1 to M11; and what a mesh
buys inside OctopiA's clusters, which no paper has measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from reefcast_lab.experiments.campaign import Claim, Claims, Kind, Paper, Plot, What, Where
from reefcast_lab.experiments.mesh import cluster_burst, light, meshes, throughput, unchosen
from reefcast_lab.experiments.mesh.evidence import evidence
from reefcast_lab.experiments.mesh.measuring import STRATEGIES
from reefcast_lab.experiments.mesh.parameters import FILE
from reefcast_lab.experiments.mesh.parameters import PAPER as NAME
from reefcast_lab.experiments.mesh.social import SOCIAL_VARIABLE, social_file

OURS_ARE_SHORTER = (
    "our brokers choose their links by what they carry: with as many that nobody chose, S1 and S2 "
    "come near to the paper's figures (evidence: links that nobody chose). It leaves open how "
    "candidates are chosen, and how many there are"
)

NOT_OF_THIS_MESH = (
    "the paper's Table 2 and its Fig. 1 are not of one mesh, or of other datasets than ours: its "
    "paths (M11) take 70 % of the links within Delta, and with so many, even drawn at random, "
    "there are fewer pure forwarders than it has, by a count without a simulation (evidence: links "
    "that nobody chose). Ours, which has those paths too, is below the count, as brokers choose "
    "their links by what they carry"
)

DATASET = "feeds and their popularity were chosen by this figure of S0"

COST = "what a publication costs a broker was chosen by this figure; the others follow from it"

UNDER = "the paper says under 2 %; here: the share of runs of which that is true"

COVERING = (
    "computed from the soft links that the run ended with, for tables of all subscriptions; all "
    "predicates of a covering set are counted as evaluated. What covers what in DT-C is lost: ours "
    "are chains of three, as in the paper's example"
)

LONG_PATHS = (
    "1 000 paths take 12 hops or more and nearly all soft links along them: with 70 % of all "
    "links within Delta, drawn at random, half as many pairs have them as in the paper, with 80 % "
    "as many (evidence: links that nobody chose). Ours has some 60 %, as brokers keep what carries "
    "something; DT3 is lost"
)

FULL = (
    "how much is gained depends on how full S0's centre is, that is on the costs, chosen so that "
    "it congests: with the 0.7 ms that the paper's own delays leave a publication (M3) it would "
    "not"
)

LARGEST = (
    "the paper's largest figure, whose graph is lost; here that of the dataset that gains most; "
    + FULL
)

MARGINAL = (
    "the share of runs in which SH delivers less. The paper: marginally less; ours far less (see "
    "the evidence): SH turns to S1 where a broker's own output is large, and so sends more "
    "through the centre, which is what is full"
)

CAPPED = "the paper's figures are in a lost graph; here: the share of runs"

UNCAPPED = (
    "with S2 ours has no hotspot left at 150 a second: it delivers all but some tenths of a "
    "percent of what is due, so that nothing can deliver more. With a cap of 120 its busiest "
    "brokers are full; there SH spares them copies, but sends more of them over others, and both "
    "deliver nearly as much (evidence: capped uplinks)"
)

FRIENDS = (
    "at 3 600 a minute the brokers of M7 are far from full, and all strategies deliver alike; so "
    "brokers are 20 times slower than in M7; how much is gained depends on how full they are "
    "(evidence: how fast brokers are), and on how many links those in the centre may have: a "
    "fanout of 20 is half of whom they have within Delta, and what they refuse goes another way"
)

_claim = Claims(NAME)


def _light() -> Iterator[Claim]:
    hops = light.NAME, "mean_hops"
    for one in ("S1", "S2", "SH"):
        what = What(f"deliveries' mean path: {one} shorter than S0, share of runs", *hops)
        yield _claim("M1", what, one, 1.0, kind="wins", against="S0")
    what = What("mean path, S1 over S0, DT2 (dense) over DT1 (sparse)", *hops)
    yield _claim("M1", what, "S1", 1.0, kind="gap", against="S0")
    for where, dataset, pure, yields in TABLE_2:
        for one, paper in zip(STRATEGIES, pure, strict=True):
            what = What(f"pure forwarders, {dataset}, {one}", light.NAME, "pure_forwarders")
            counted = (dataset, one) in COUNTED
            yield _of_strategy("M2", what, one, 1000.0 * paper, where, DATASET, counted=counted)
        for one, share in zip(STRATEGIES, yields, strict=True):
            what = What(f"yield, {dataset}, {one}", light.NAME, "yield")
            yield _of_strategy("M2", what, one, share, where, DATASET)
    for one, paper in zip(STRATEGIES, (0.0140, 0.0125, 0.0093, 0.0093), strict=True):
        what = What(f"delay of deliveries, DT2, {one}, s", light.NAME, "mean_delay_s")
        yield _of_strategy("M3", what, one, paper, "most", COST)
    for one, paper in zip(STRATEGIES, (3400.0, 2850.0, 2200.0, 2200.0), strict=True):
        what = What(
            f"publications between brokers, DT2, {one}, a second", light.NAME, "sends_per_s"
        )
        yield _of_strategy("M4", what, one, paper, "most", DATASET)
    for one in ("S1", "S2", "SH"):
        what = What(f"load exchange under 2 % of the bytes, {one}", light.NAME, "loads_are_few")
        yield _claim("M5", what, one, 1.0, UNDER)
    what = What("load exchange, share of the bytes, S2", light.NAME, "loads_share")
    yield _claim("M5", what, "S2", None)


TABLE_2: tuple[tuple[Where, str, tuple[float, ...], tuple[float, ...]], ...] = (
    ("least", "DT1", (559, 348, 216, 195), (0.38, 0.50, 0.61, 0.64)),
    ("most", "DT2", (1010, 687, 325, 300), (0.50, 0.60, 0.76, 0.77)),
)


COUNTED = {("DT1", "S1"), ("DT1", "S2"), ("DT1", "SH"), ("DT2", "S1")}
"""Where a mesh with the paper's paths has fewer pure forwarders, whoever chose its links."""


def _of_strategy(
    row: str,
    what: What,
    one: str,
    paper: float,
    where: Where,
    chosen: str,
    *,
    counted: bool = False,
) -> Claim:
    """The baseline's figure is what constants were chosen by, for the reason `chosen`; `counted`:
    a count shows that others must differ."""
    baseline = one == "S0"
    note = chosen if baseline else NOT_OF_THIS_MESH if counted else OURS_ARE_SHORTER
    return _claim(row, what, one, paper, note, where=where, explained=baseline or counted)


def _meshes() -> Iterator[Claim]:
    for dataset in unchosen.DATASETS:
        for one in ("S1", "S2"):
            name = f"with all soft links within Delta: yield, {dataset}, {one}"
            yield _claim(
                "M2", What(name, unchosen.NAME, f"yield_{dataset}"), one, None, where="most"
            )
    for name, measure, paper in (
        ("covering sets, fanout 10 over 5, growth", "rows_growth", 0.12),
        ("predicate evaluations, fanout 10 over 5, growth", "evaluations_growth", 0.34),
    ):
        yield _claim("M6", What(name, meshes.COVERING, measure), "S2", paper, COVERING)
    pairs: tuple[tuple[Where, str, str, float, str], ...] = (
        ("least", "100 or more paths, 120 brokers", "pairs_with_100", 0.40, ""),
        ("most", "1 000 or more paths, 250 brokers", "pairs_with_1000", 0.13, LONG_PATHS),
    )
    for where, name, measure, paper, note in pairs:
        what = What(f"share of broker pairs with {name}", meshes.PATHS, measure)
        yield _claim("M11", what, "S2", paper, note, where=where)


def _throughput() -> Iterator[Claim]:
    for campaign in throughput.DATASETS:
        dataset = campaign.removeprefix("throughput-")
        deliveries = campaign, "deliveries_per_min"
        for one in ("S1", "S2"):
            largest = (dataset, one) == GAINS_MOST
            what = What(f"deliveries a minute, {dataset}, fanout 35, {one} over S0", *deliveries)
            yield _claim(
                "M7",
                what,
                one,
                1.15 if largest else None,
                LARGEST if largest else FULL,
                kind="effect",
                against="S0",
                where="most",
                explained=largest,
            )
            what = What(f"that, fanout 35 over 5, {dataset}, {one}", *deliveries)
            yield _claim("M7", what, one, 1.0, kind="gap", against="S0")
        what = What(f"SH below S2, {dataset}, fanout 35", *deliveries)
        yield _claim("M7", what, "SH", 1.0, MARGINAL, kind="wins", against="S2", where="most")


GAINS_MOST = ("DT1", "S2")


def _scarce() -> Iterator[Claim]:
    deliveries = throughput.UPLINKS, "deliveries_per_min"
    what = What("deliveries, cap 150: SH more than S2", *deliveries)
    yield _claim(
        "M8", what, "S2", 1.0, UNCAPPED, kind="wins", against="SH", where="most", explained=True
    )
    what = What("share delivered, cap 150, S2", throughput.UPLINKS, "delivered_share")
    yield _claim("M8", what, "S2", None, where="most")
    ends: tuple[tuple[Where, str], ...] = (("most", "150"), ("least", "120"))
    for where, cap in ends:
        for one, other in (("S1", "S0"), ("S2", "S0"), ("SH", "S0"), ("SH", "S2")):
            what = What(f"deliveries, cap {cap}, {one} over {other}", *deliveries)
            yield _claim("M8", what, one, None, kind="effect", against=other, where=where)
    delivered = throughput.PLANETLAB, "delivered_share"
    for one in ("S1", "S2"):
        what = What(f"share delivered, DT4, {one}", *delivered)
        yield _claim("M9", what, one, 1.0, where="least")
    what = What("share delivered, DT4, S0", *delivered)
    yield _claim("M9", what, "S0", None, "the paper: fewer than expected", where="least")
    for where, dataset in (("least", "DT4"), ("most", "DT5")):
        for one in ("S1", "S2"):
            what = What(f"S0 delivers less than {one}, {dataset}", *delivered)
            yield _wins(what, one, "most" if where == "most" else "least")
    deliveries = throughput.FRIENDS, "deliveries_per_min"
    for one, paper in (("S1", 0.37), ("S2", 1.15)):
        what = What(f"deliveries, fanout 20, {one} over S0", *deliveries)
        yield _claim("M10", what, one, paper, FRIENDS, kind="effect", against="S0", where="least")
        what = What(f"deliveries, fanout 35, {one} over S0", *deliveries)
        yield _claim("M10", what, one, None, FRIENDS, kind="effect", against="S0", where="most")


def _wins(what: What, one: str, where: Where) -> Claim:
    return _claim("M9", what, "S0", 1.0, CAPPED, kind="wins", against=one, where=where)


CLUSTERS = f"{NAME}/clusters"
"""The id of our own rows."""

OURS = (
    "ours: OctopiA's authors leave dynamic routing inside a cluster to future work; O12 and O13 of "
    "octopia.md, with soft links inside the clusters and without, at the highest rate of the burst"
)


def _clusters() -> Iterator[Claim]:
    """What the mesh of each routing buys, and what it costs."""
    metrics: tuple[tuple[str, Kind, str], ...] = (
        ("stable again after a burst, {} (s)", "difference", "stable_s"),
        ("mean delay from the burst on, {}", "effect", "mean_delay_s"),
        ("longest queue of an inner link of the burst's broker, {}", "effect", OWN_QUEUE),
        ("publications between brokers, {}", "effect", "messages"),
    )
    for title, kind, measure in metrics:
        for one in ("spr", "idr"):
            pair = f"{one}-mesh {'less' if kind == 'difference' else 'over'} {one}"
            yield Claim(
                CLUSTERS,
                title.format(pair),
                kind,
                cluster_burst.NAME,
                measure,
                f"{one}-mesh",
                one,
                note=OURS,
                settled="stable" if measure == "stable_s" else "",
            )


OWN_QUEUE = "longest_a_link_queue_own"


def _by_number(claims: Iterator[Claim]) -> Iterator[Claim]:
    yield from sorted(claims, key=lambda claim: int(claim.id.split("/M")[1]))


def _all() -> Iterator[Claim]:
    for part in (_light, _meshes, _throughput, _scarce):
        yield from part()


CLAIMS = (*_by_number(_all()), *_clusters())


def _plot(
    name: str,
    title: str,
    what: tuple[str, str],
    labels: tuple[str, str],
    by: Literal["x", "at"],
    number: int,
    times: float = 1.0,
) -> Plot:
    return Plot(name, title, *what, *labels, by, (f"{NAME}/M{number}",), times)


FANOUT, DATASETS = "fanout", "number of the dataset DT"

PLOTS = (
    _plot(
        "hops",
        "Path lengths of deliveries (Fig. 9)",
        (light.NAME, "share_by_hops"),
        ("hops, at most", "share of the deliveries"),
        "at",
        1,
    ),
    _plot(
        "pure-forwarders",
        "Pure forwarders (Table 2)",
        (light.NAME, "pure_forwarders"),
        (DATASETS, "pure forwarders"),
        "x",
        2,
    ),
    _plot("yield", "Yield (Table 2)", (light.NAME, "yield"), (DATASETS, "yield"), "x", 2),
    _plot(
        "delay",
        "Delay of deliveries (Fig. 10)",
        (light.NAME, "delay_s_by_share"),
        ("share of the deliveries", "delay, ms, at most"),
        "at",
        3,
        1000.0,
    ),
    _plot(
        "traffic",
        "Publications between brokers (Fig. 11)",
        (light.NAME, "traffic"),
        ("s since the first one", "publications a second"),
        "at",
        4,
    ),
    _plot(
        "loads",
        "Load exchange",
        (light.NAME, "loads_share"),
        (DATASETS, "% of the bytes"),
        "x",
        5,
        100.0,
    ),
    _plot(
        "covering",
        "Covering sets (Fig. 12)",
        (meshes.COVERING, "rows_by_fanout"),
        (FANOUT, "times as large as with 5"),
        "at",
        6,
    ),
    _plot(
        "evaluations",
        "Predicate evaluations (Fig. 12)",
        (meshes.COVERING, "evaluations_by_fanout"),
        (FANOUT, "times as many as with 5"),
        "at",
        6,
    ),
    *(
        _plot(
            campaign,
            f"Deliveries at 72 000 publications a minute, {campaign.removeprefix('throughput-')} "
            "(Fig. 13)",
            (campaign, "deliveries_per_min"),
            (FANOUT, "deliveries a minute"),
            "x",
            7,
        )
        for campaign in throughput.DATASETS
    ),
    _plot(
        "uplinks",
        "Deliveries with capped uplinks (Fig. 14)",
        (throughput.UPLINKS, "deliveries_per_min"),
        ("publications a second on an uplink", "deliveries a minute"),
        "x",
        8,
    ),
    _plot(
        "planetlab",
        "21 brokers with 10 KB/s (Fig. 13c)",
        (throughput.PLANETLAB, "delivered_share"),
        (DATASETS, "share delivered"),
        "x",
        9,
    ),
    _plot(
        "friends",
        "Deliveries of posts",
        (throughput.FRIENDS, "deliveries_per_min"),
        (FANOUT, "deliveries a minute"),
        "x",
        10,
    ),
    _plot(
        "paths",
        "End-to-end paths (Fig. 1)",
        (meshes.PATHS, "pairs_by_paths"),
        ("paths, log10, at least", "share of broker pairs"),
        "at",
        11,
    ),
    Plot(
        "cluster-burst",
        "Largest delay around OctopiA's burst, with a mesh inside its clusters and without",
        cluster_burst.NAME,
        "largest_delay_s",
        "s since the start of the burst",
        "s",
        "at",
        (CLUSTERS,),
    ),
)

PAPER = Paper(
    name=NAME,
    title="Opportunistic multipath forwarding over a mesh",
    campaigns=(
        light.CAMPAIGN,
        meshes.COVERING_SETS,
        throughput.DT1,
        throughput.DT2,
        throughput.DT3,
        throughput.UPLINK,
        throughput.LAB,
        throughput.SOCIAL_TRACE,
        meshes.PATH_COUNTS,
        unchosen.CAMPAIGN,
        cluster_burst.CAMPAIGN,
    ),
    claims=CLAIMS,
    plots=PLOTS,
    parameters_file=FILE,
    setting=(
        "Breadth-first trees of inner degree 3 with 120 (C1), 250 (C2), 500 (C3) and 21 (CPL) "
        "brokers, 1 ms from broker to broker, Delta 4. Brokers look at their links every 20 s or "
        "so. M1 to M5 measure ten minutes from the first publication on, as the paper does; all "
        "others a shorter time, after some rounds in which links are found. A delivery is the "
        "arrival of a publication at a broker with a matching subscriber, other than the "
        "publisher's; last miles are left out, as in the paper. Datasets are made by a generator "
        "whose constants were chosen by what S0 of the paper does."
    ),
    evidence=evidence,
    data=social_file,
    data_variable=SOCIAL_VARIABLE,
)
