"""What StAN's evaluation found, beside what ours finds: Table 1 and rows G1 to G6; and what it says
without a figure: dissemination (D1, D2), and what else one could do (A1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from reefcast_lab.experiments.campaign import Claim, Claims, Paper, Plot, What, Where
from reefcast_lab.experiments.gossip import (
    alignment,
    comparison,
    dissemination,
    growth,
    interests,
    lastfm,
)
from reefcast_lab.experiments.gossip.aligning import ALIGNED, GREEDY, UNALIGNED
from reefcast_lab.experiments.gossip.comparison import CLUSTERED, MINIMAL
from reefcast_lab.experiments.gossip.dissemination import FEW
from reefcast_lab.experiments.gossip.evidence import evidence
from reefcast_lab.experiments.gossip.measures import EARLY, LIKE
from reefcast_lab.experiments.gossip.parameters import FILE
from reefcast_lab.experiments.gossip.parameters import PAPER as NAME

CHOSEN = (
    "the constants of the grid were chosen by these figures, three of them by all four; what the "
    "paper correlates is not said: here the subscription sets of two nodes, of all pairs"
)

DIRECTION = "the paper's figures are lost in our copy; here: the share of runs of which it is true"

FIRST_ROUNDS = (
    "the paper: in few iterations; here: the share of runs with more than half of the fall in "
    f"{EARLY} rounds. The witness rule needs a witness, whom a walk meets the less often the "
    "larger the topic: half of the fall takes 7, 11 and 14 rounds with 1 000, 2 000 and 3 000 "
    "nodes, and 2 or 3 by the paper's rule, by which some nodes are lost for good (orphans, in "
    "the evidence)"
)

HIGHEST = (
    "the paper: the highest degrees are eliminated, the distribution of the lower ones is not "
    "affected. That cannot be to the letter where the mean falls by much: here the share of runs "
    "in which the highest fall by a larger share than the lowest quarter"
)

ALIKE = (
    f"here: the share of runs whose two distributions nowhere differ by more than {100 * LIKE:.0f} "
    "% of the nodes"
)

DIAMETER = (
    "a whole number of hops, the same before and after in most runs and in none lower; the mean "
    "path tells the same without steps"
)

REAL = f"not of the paper: real interests, where {lastfm.VARIABLE} names them; not measured without"

ROBUST = (
    "the paper: robustness is not affected, without a figure; 0 would be no difference. In-degrees "
    "within a topic vary a little more than before (in topics of over 300 nodes their variance is "
    "1.10 times their mean in place of 1.00, seeds 1 and 2), so that a few more nodes hang on few "
    "links"
)

ONCE = (
    "the paper: shared links allow a message on several topics to be relayed just once; here: the "
    "share of runs in which a delivery takes fewer copies"
)

WORDS = "said in words by the paper; here: the share of runs of which it is true"


_claim = Claims(NAME)


def _below(
    id: str,
    what: What,
    of: str,
    against: str,
    note: str = DIRECTION,
    where: Where = "all",
) -> Claim:
    """A direction: that one is below the other, in all runs."""
    return _claim(id, what, of, 1.0, note, kind="wins", against=against, where=where)


def _effect(id: str, what: What, of: str, against: str, note: str = "") -> Claim:
    """How much it is, where the paper's figure is lost."""
    return _claim(id, what, of, None, note, kind="effect", against=against)


def _table_1() -> Iterator[Claim]:
    for level, paper in ((90, 0.69), (95, 0.61), (98, 0.51), (99, 0.45)):
        what = What(
            f"pairs of nodes correlated at {level} %, share", interests.NAME, f"pairs_{level}"
        )
        yield _claim("T1", what, interests.GRID, paper, CHOSEN, explained=True)


def _alignment() -> Iterator[Claim]:
    for campaign, times in alignment.TIMES.items():
        yield from _of_topics(campaign, f"{times} x topics")


def _of_topics(campaign: str, at: str) -> Iterator[Claim]:
    sizes = What(f"total view, {at}: aligned less unaligned", campaign, "total_view")
    yield _claim("G1", sizes, ALIGNED, 0.0, kind="difference", against=UNALIGNED)
    unique = What(f"unique view, {at}: aligned below unaligned", campaign, "unique_view")
    yield _below("G2", unique, ALIGNED, UNALIGNED)
    unique = unique._replace(metric=f"unique view, {at}: aligned over unaligned")
    yield _effect("G2", unique, ALIGNED, UNALIGNED)
    early = What(f"most of its fall in the first rounds, {at}", campaign, "mostly_early")
    yield _claim("G2", early, ALIGNED, 1.0, FIRST_ROUNDS)
    if campaign == alignment.NAME:
        early = early._replace(metric=f"{early.metric}, by the paper's rule")
        yield _claim("G2", early, GREEDY, 1.0, FIRST_ROUNDS)
    for degree in ("out", "in"):
        what = What(f"highest {degree}-degree, {at}: aligned lower", campaign, f"most_{degree}")
        yield _below("G4", what, ALIGNED, UNALIGNED)
    falls = What(f"highest degrees fall most, {at}", campaign, "highest_fall_most")
    yield _claim("G4", falls, ALIGNED, 1.0, HIGHEST)
    alike = What(f"in-degrees like out-degrees, {at}", campaign, "in_like_out")
    yield _claim("G4", alike, ALIGNED, 1.0, ALIKE)
    clusters = What(f"clustering, {at}: aligned lower", campaign, "clustering")
    yield _below("G5", clusters, ALIGNED, UNALIGNED)
    clusters = clusters._replace(metric=f"clustering, {at}: aligned over unaligned")
    yield _effect("G5", clusters, ALIGNED, UNALIGNED)
    longer = What(f"diameter, {at}: unaligned less", campaign, "diameter")
    yield _below("G6", longer, UNALIGNED, ALIGNED, DIAMETER)
    paths = What(f"mean path, {at}: unaligned shorter", campaign, "mean_path")
    yield _below("G6", paths, UNALIGNED, ALIGNED)
    for name, measure in (("diameter", "diameter"), ("mean path", "mean_path")):
        what = What(f"{name}, {at}: aligned over unaligned", campaign, measure)
        yield _effect("G6", what, ALIGNED, UNALIGNED)


def _growth() -> Iterator[Claim]:
    more = growth.NODES, growth.TOPICS
    for name, measure in (
        ("total view", "total_view"),
        ("unique view before", "unique_before"),
        ("unique view after", "unique_after"),
    ):
        what = What(f"{name}: with more nodes below that with more topics", growth.NAME, measure)
        yield _below("G3", what, *more, where="most")
        what = What(f"{name}, more topics over more nodes, growth", growth.NAME, measure)
        yield _claim("G3", what, growth.TOPICS, 1.0, kind="gap", against=growth.NODES)


def _real() -> Iterator[Claim]:
    for id, name, measure in (
        ("G2", "unique view", "unique_view"),
        ("G4", "highest out-degree", "most_out"),
        ("G5", "clustering", "clustering"),
        ("G6", "mean path", "mean_path"),
    ):
        what = What(f"{name}, Last.fm: aligned over unaligned", lastfm.NAME, measure)
        yield _effect(id, what, ALIGNED, UNALIGNED, REAL)


def _dissemination() -> Iterator[Claim]:
    places: tuple[tuple[str, str, Where], ...] = (
        (dissemination.LOSSES, "nothing fails", "least"),
        (dissemination.LOSSES, "20 % of the copies lost", "most"),
        (dissemination.CRASHES, "20 % of the nodes crashed", "all"),
        (dissemination.FAILURES, "both", "all"),
    )
    for campaign, fault, where in places:
        what = What(f"delivered, fanout {FEW}, {fault}", campaign, f"delivered_{FEW}")
        yield _claim("D1", what, ALIGNED, None, where=where)
        what = what._replace(metric=f"{what.metric}: aligned less unaligned")
        yield _claim(
            "D1", what, ALIGNED, None, ROBUST, kind="difference", against=UNALIGNED, where=where
        )
    for fanout, measure in (("all neighbours", "all"), (f"fanout {FEW}", f"{FEW}")):
        copies = dissemination.TOPICS, f"copies_to_{measure}"
        what = What(f"copies on several topics, {fanout}: aligned fewer", *copies)
        yield _below("D2", what, ALIGNED, UNALIGNED, ONCE, where="most")
        what = what._replace(metric=f"copies on several topics, {fanout}: aligned over unaligned")
        yield _claim("D2", what, ALIGNED, None, kind="effect", against=UNALIGNED, where="most")


def _alternatives() -> Iterator[Claim]:
    what = What("connections of a node: aligned over unaligned", comparison.NAME, "connections")
    yield _effect("A1", what, ALIGNED, UNALIGNED)
    what = What("clustering: aligned lower than clustered", comparison.NAME, "clustering")
    yield _below("A1", what, ALIGNED, CLUSTERED, WORDS)
    for other in (CLUSTERED, MINIMAL):
        what = What(
            f"reached when 20 % crash: {other} less than aligned", comparison.NAME, "reached"
        )
        yield _below("A1", what, other, ALIGNED, WORDS, "most")
    what = What("interests disclosed in topics of others, aligned", comparison.NAME, "disclosed")
    yield _claim("A1", what, ALIGNED, 0.0)
    for other in (CLUSTERED, MINIMAL):
        what = What(f"the same, {other}", comparison.NAME, "disclosed")
        yield _claim("A1", what, other, None)


def _by_id() -> Iterator[Claim]:
    parts = (_table_1, _alignment, _growth, _real, _dissemination, _alternatives)
    claims = [claim for part in parts for claim in part()]
    order = [f"{NAME}/{id}" for id in IDS]
    yield from sorted(claims, key=lambda claim: order.index(claim.id))


IDS = ("T1", "G1", "G2", "G3", "G4", "G5", "G6", "D1", "D2", "A1")
CLAIMS = tuple(_by_id())


def _plot(
    name: str,
    title: str,
    what: tuple[str, str],
    labels: tuple[str, str],
    by: Literal["x", "at"],
    *ids: str,
) -> Plot:
    return Plot(name, title, *what, *labels, by, tuple(f"{NAME}/{id}" for id in ids))


ROUND, NODES, OF_NODES = "round", "nodes", "share of the nodes"
MOST_TOPICS = list(alignment.TIMES)[-1]

PLOTS = (
    _plot(
        "subscribers",
        "Nodes of a topic (Fig. 1)",
        (interests.NAME, "subscribers_by_rank"),
        ("topics, the most popular first", "nodes"),
        "at",
        "T1",
    ),
    _plot(
        "subscriptions",
        "Topics of a node (Fig. 1)",
        (interests.NAME, "subscriptions_by_rank"),
        ("nodes, those with most topics first", "topics"),
        "at",
        "T1",
    ),
    _plot(
        "total",
        "Total view (Fig. 2), fewest topics",
        (alignment.NAME, "total_by_round"),
        (ROUND, "logical links of a node"),
        "at",
        "G1",
    ),
    _plot(
        "unique",
        "Unique view (Fig. 2), fewest topics",
        (alignment.NAME, "unique_by_round"),
        (ROUND, "physical links of a node"),
        "at",
        "G2",
    ),
    _plot(
        "unique-most",
        "Unique view (Fig. 2), most topics",
        (MOST_TOPICS, "unique_by_round"),
        (ROUND, "physical links of a node"),
        "at",
        "G2",
    ),
    _plot(
        "real",
        "Unique view on Last.fm",
        (lastfm.NAME, "unique_by_round"),
        (ROUND, "physical links of a node"),
        "at",
        "G2",
    ),
    _plot(
        "growth",
        "Unique view after the protocol (Table 2)",
        (growth.NAME, "unique_after"),
        ("times as many of one as the fewest", "physical links of a node"),
        "x",
        "G3",
    ),
    *(
        _plot(
            f"{degree}-degrees",
            f"{degree.capitalize()}-degrees (Fig. 3), fewest topics",
            (alignment.NAME, f"{degree}_by_share"),
            (OF_NODES, f"{degree}-degree, at most"),
            "at",
            "G4",
        )
        for degree in ("out", "in")
    ),
    _plot(
        "clustering",
        "Clustering coefficient (Table 3), fewest topics",
        (alignment.NAME, "clustering"),
        (NODES, "clustering coefficient"),
        "x",
        "G5",
    ),
    _plot(
        "paths",
        "Mean path (beside Table 3), fewest topics",
        (alignment.NAME, "mean_path"),
        (NODES, "hops along views"),
        "x",
        "G6",
    ),
    *(
        _plot(
            campaign,
            f"Deliveries by fanout, {fault}",
            (campaign, "delivered_by_fanout"),
            ("fanout", "share of the deliveries due"),
            "at",
            "D1",
        )
        for campaign, fault in (
            (dissemination.LOSSES, "copies lost"),
            (dissemination.CRASHES, "nodes crashed"),
            (dissemination.FAILURES, "both"),
        )
    ),
    _plot(
        "whole",
        "Publications that all got, copies lost",
        (dissemination.LOSSES, "whole_by_fanout"),
        ("fanout", "share of the publications"),
        "at",
        "D1",
    ),
    _plot(
        "copies",
        "Copies for a delivery, copies lost",
        (dissemination.LOSSES, "copies_by_fanout"),
        ("fanout", "copies for a delivery"),
        "at",
        "D1",
    ),
    _plot(
        "topics",
        "Copies for a delivery by topics of a publication, to all neighbours",
        (dissemination.TOPICS, "copies_to_all"),
        ("topics of a publication", "copies for a delivery"),
        "x",
        "D2",
    ),
    _plot(
        "alternatives",
        "Who can be reached, by overlays",
        (comparison.NAME, "reached"),
        ("% of the nodes crashed", "share of the deliveries due"),
        "x",
        "A1",
    ),
)

PAPER = Paper(
    name=NAME,
    title="StAN: aligned overlays for topic gossip",
    campaigns=(
        interests.CAMPAIGN,
        *alignment.CAMPAIGNS,
        growth.CAMPAIGN,
        lastfm.CAMPAIGN,
        dissemination.LOSS,
        dissemination.CRASH,
        dissemination.FAILURE,
        dissemination.SEVERAL,
        comparison.CAMPAIGN,
    ),
    claims=CLAIMS,
    plots=PLOTS,
    parameters_file=FILE,
    setting=(
        "Nodes and the ids of topics stand on a grid at random; a node subscribes to the topics "
        "that have an id within its radius of interest. Each topic starts as a strongly connected "
        "random graph of mean degree 2 ln n. `unaligned`: as it starts; `aligned`: after the "
        "rounds of the protocol with the witness rule; `greedy`: with the rule of the paper's "
        "listing. The tables of the paper are lost in our copy but for the first one, so that most "
        "rows are directions. Interests are those of the grid everywhere but in "
        f"`{lastfm.NAME}`, which takes real ones if there are any."
    ),
    evidence=evidence,
    data=lastfm.listeners_file,
    data_variable=lastfm.VARIABLE,
)
