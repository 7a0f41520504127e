"""How far publications get over unaligned and aligned overlays, and at which costs: D1 and D2.

Of the three campaigns with one topic for each publication, `losses` varies how many copies are
lost (x = 0: nothing fails), `crashes` how many nodes have crashed that still stand in views, and
`failures` both alike. Places inside a run are fanouts; what has no place is with all neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.gossip.aligning import ALIGNED, UNALIGNED, usual_overlays
from reefcast_lab.experiments.gossip.parameters import PAPER, section
from reefcast_lab.experiments.gossip.scenario import generator
from reefcast_lab.experiments.gossip.spreading import Faults, Spread, publications, spread
from reefcast_lab.experiments.gossip.stack import Stack, stack_of
from reefcast_lab.experiments.grid import runs_of

LOSSES, CRASHES, FAILURES, TOPICS = "losses", "crashes", "failures", "several-topics"
ROUTINGS = (UNALIGNED, ALIGNED)
ALL = 0
"""The fanout that means all neighbours."""
FEW = 5
"""The fanout that is looked at more closely: with it nearly all is delivered."""


def _runs(name: str, scale: str) -> list[Run]:
    entries = section(name, scale)
    return runs_of(PAPER, name, scale, ROUTINGS, entries.x, entries.seeds)


def loss_runs(scale: str) -> list[Run]:
    return _runs(LOSSES, scale)


def crash_runs(scale: str) -> list[Run]:
    return _runs(CRASHES, scale)


def failure_runs(scale: str) -> list[Run]:
    return _runs(FAILURES, scale)


def topic_runs(scale: str) -> list[Run]:
    return _runs(TOPICS, scale)


def faults(nodes: int, crashed: float, loss: float, seed: int) -> Faults:
    """Let this share of the nodes crash, drawn evenly."""
    gone = generator(seed, "crashes").permutation(nodes) < round(crashed * nodes)
    return Faults(gone, loss)


def _stack(run: Run) -> Stack:
    return stack_of(usual_overlays(run.routing, run.scale, run.seed))


def measure(run: Run) -> list[Measure]:
    entries, stack, share = section("dissemination", run.scale), _stack(run), run.x / 100
    crashed = share if run.campaign != LOSSES else 0.0
    lost = share if run.campaign != CRASHES else 0.0
    failing = faults(stack.nodes, crashed, lost, run.seed)
    rng = generator(run.seed, "publications")
    published = publications(stack, failing, entries.publications, 1, rng)
    measures: list[Measure] = []
    for fanout in (ALL, *entries.fanouts):
        found = spread(stack, published, failing, fanout, rng)
        measures += _of_spread(found, fanout)
    return measures


def _of_spread(found: Spread, fanout: int) -> Iterator[Measure]:
    figures = {
        "delivered": found.delivered_share,
        "whole": found.whole_share,
        "copies": found.copies_per_delivery,
    }
    for name, value in figures.items():
        if fanout == ALL:
            yield Measure(name, 0.0, value)
        else:
            yield Measure(f"{name}_by_fanout", float(fanout), value)
        if fanout == FEW:
            yield Measure(f"{name}_{FEW}", 0.0, value)


def measure_topics(run: Run) -> list[Measure]:
    """Measure x topics for each publication; the same ones also with a message for each topic."""
    entries, stack = section("dissemination", run.scale), _stack(run)
    failing = faults(stack.nodes, 0.0, 0.0, run.seed)
    rng = generator(run.seed, "publications")
    published = publications(stack, failing, entries.publications, int(run.x), rng)
    measures = []
    for name, fanout in (("all", ALL), (f"{FEW}", FEW)):
        together = spread(stack, published, failing, fanout, rng)
        apart = spread(stack, published.single(), failing, fanout, rng)
        figures = {
            "delivered": together.delivered_share,
            "copies": together.copies_per_delivery,
            "copies_apart": float(apart.copies.sum() / together.delivered.sum()),
        }
        measures += [Measure(f"{key}_to_{name}", 0.0, value) for key, value in figures.items()]
    return measures


LOSS = Campaign(LOSSES, "% of the copies lost", loss_runs, measure)
CRASH = Campaign(CRASHES, "% of the nodes crashed", crash_runs, measure)
FAILURE = Campaign(
    FAILURES, "% of the copies lost, and of the nodes crashed", failure_runs, measure
)
SEVERAL = Campaign(TOPICS, "topics of a publication", topic_runs, measure_topics)
