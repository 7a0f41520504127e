"""What the paper's evaluation found (Fig. 4), beside what ours finds: rows S1 to S3; and how far
from the best placement all of them are, which no paper has measured."""

from __future__ import annotations

from collections.abc import Iterator

from reefcast.experiments.campaign import Claim, Kind, Paper, Plot, Where
from reefcast.experiments.storage import real, trees
from reefcast.experiments.storage.evidence import evidence
from reefcast.experiments.storage.parameters import FILE
from reefcast.experiments.storage.parameters import PAPER as NAME
from reefcast.experiments.storage.placing import (
    AT_RANDOM,
    OPTIMUM,
    OURS,
    WITHOUT_LIMITS,
)

WORDS = "the paper's figures are lost in our copy; here: the share of runs of which it is true"
HOPS = "mean_hops"

NOT_IN_ALL = (
    f"{WORDS}. The assignment of topics by steps is a heuristic: in single runs chance does better "
    "(means are in the evidence)"
)

GAP = (
    "ours: no paper has measured it. The best placement with the same limits, by mixed-integer "
    "programming, to within 1 %"
)

REAL = f"not of the paper: a real network, where {real.VARIABLE} names one; not measured without"


def _claim(
    row: str,
    metric: str,
    campaign: str,
    measure: str,
    of: str,
    paper: float | None,
    note: str = "",
    *,
    kind: Kind = "level",
    against: str = "",
    where: Where = "all",
) -> Claim:
    return Claim(
        f"{NAME}/{row}",
        metric,
        kind,
        campaign,
        measure,
        of,
        against,
        paper=paper,
        note=note,
        where=where,
    )


def _below_random(row: str, campaign: str, over: str) -> Iterator[Claim]:
    metric = f"mean hops over {over}: pub/sub below rnd, share of runs"
    yield _claim(row, metric, campaign, HOPS, OURS, 1.0, NOT_IN_ALL, kind="wins", against=AT_RANDOM)
    metric = f"mean hops over {over}: pub/sub over rnd"
    yield _claim(row, metric, campaign, HOPS, OURS, None, kind="effect", against=AT_RANDOM)
    metric = f"over {over}: pub/sub nearer to grd_opt than to rnd, share of runs"
    yield _claim(row, metric, campaign, "nearer_to_grd_opt", OURS, 1.0, WORDS)
    metric = f"mean hops over {over}: pub/sub over grd_opt"
    yield _claim(row, metric, campaign, HOPS, OURS, None, kind="effect", against=WITHOUT_LIMITS)


def _to_the_best(row: str, campaign: str, over: str, note: str = GAP) -> Iterator[Claim]:
    for one in (OURS, WITHOUT_LIMITS, AT_RANDOM):
        metric = f"mean hops over {over}: {one} over the optimum"
        yield _claim(row, metric, campaign, HOPS, one, None, note, kind="effect", against=OPTIMUM)


def _meeting() -> Iterator[Claim]:
    """The paper: they perform the same when storages keep nearly all topics."""
    for one in (WITHOUT_LIMITS, AT_RANDOM):
        metric = f"mean hops where a storage keeps all topics: {one} over pub/sub"
        yield _claim(
            "S2",
            metric,
            trees.CAPACITY,
            HOPS,
            one,
            None,
            "the paper: the same",
            kind="effect",
            against=OURS,
            where="most",
        )
    metric = "that of pub/sub over grd_opt, from the least capacity to the largest"
    yield _claim(
        "S2",
        metric,
        trees.CAPACITY,
        HOPS,
        OURS,
        -1.0,
        kind="gap",
        against=WITHOUT_LIMITS,
    )


def _claims() -> Iterator[Claim]:
    yield from _below_random("S1", trees.BROKERS, "N")
    yield from _to_the_best("S1", trees.BROKERS, "N")
    yield from _below_random("S2", trees.CAPACITY, "CL")
    yield from _meeting()
    yield from _to_the_best("S2", trees.CAPACITY, "CL")
    metric = "mean hops of pub/sub: fewer with a copy more, share of runs"
    yield _claim("S3", metric, trees.COPIES, "falls", OURS, 1.0, WORDS)
    yield from _to_the_best("S3", trees.COPIES, "k")
    metric = "mean hops on a real network: pub/sub over rnd"
    yield _claim(
        "real", metric, real.NAME, HOPS, OURS, None, REAL, kind="effect", against=AT_RANDOM
    )
    yield from _to_the_best("real", real.NAME, "k, on a real network", REAL)


def _plot(name: str, title: str, campaign: str, x_label: str, row: str) -> Plot:
    label = "mean hops from a request to its storage"
    return Plot(name, title, campaign, HOPS, x_label, label, "x", (f"{NAME}/{row}",))


PAPER = Paper(
    name=NAME,
    title="Where storages stand",
    campaigns=(trees.OVER_BROKERS, trees.OVER_CAPACITY, trees.OVER_COPIES, real.CAMPAIGN),
    claims=tuple(_claims()),
    plots=(
        _plot("brokers", "Over the brokers (Fig. 4a)", trees.BROKERS, "brokers", "S1"),
        _plot(
            "capacity",
            "Over what a storage keeps (Fig. 4b)",
            trees.CAPACITY,
            "topics of a storage",
            "S2",
        ),
        _plot("copies", "Over the copies (Fig. 4c)", trees.COPIES, "copies of a topic", "S3"),
        _plot("real", "A real network", real.NAME, "copies of a topic", "real"),
    ),
    parameters_file=FILE,
    setting=(
        "Random trees of brokers; 10 topics, for each of which a broker has 0 to 1 requests a "
        "second; as few storages as can keep all copies. `pub/sub`: the paper's four steps; "
        "`grd_opt`: each topic where its own first step puts it, without limits; `rnd`: storages "
        "by the first step for all topics together, and topics assigned to them at random; "
        "`optimum`: the best that there is with these limits. Hops are computed from the rates, "
        "over all requests. The paper's axes are in a figure that is lost in our copy; what it "
        "says of the curves is in its text."
    ),
    evidence=evidence,
    data=real.topology_file,
    data_variable=real.VARIABLE,
)
