"""What remains of the problem with this project's own engine: ever larger sets of subscriptions
behind a root, and the costs that its brokers really have."""

from __future__ import annotations

from reefcast.simulation.costs import preset
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.covering.crowd import workload
from reefcast_lab.experiments.covering.measuring import delay_curve, delays, queue_curve, simulation
from reefcast_lab.experiments.covering.parameters import OURS, PAPER, section
from reefcast_lab.experiments.covering.topology import core_topology
from reefcast_lab.experiments.covering.unsubscribing import COMPARED, settled
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.script import Script

SLOWLY, FAST = "own_engine", "own_engine_fast"


def runs(scale: str) -> list[Run]:
    return _runs(SLOWLY, scale)


def fast_runs(scale: str) -> list[Run]:
    return _runs(FAST, scale)


def _runs(campaign: str, scale: str) -> list[Run]:
    entries = section("own", scale)
    return runs_of(PAPER, campaign, scale, COMPARED, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    return _measure(run, section("own", run.scale).slow_rate)


def measure_fast(run: Run) -> list[Measure]:
    return _measure(run, section("own", run.scale).fast_rate)


def _measure(run: Run, per_s: float) -> list[Measure]:
    entries, topology, degree = section("own", run.scale), core_topology(), int(run.x)
    crowd = workload(
        topology,
        subscriptions=entries.roots * (degree + 1),
        degree=degree,
        selectivity=entries.matched / degree,
        seed=run.seed,
    )
    simulated, kernel = simulation(run, topology, preset(OURS))
    at_s, handles = settled(simulated, crowd, run.scale, entries.subscribe_gap_s, roots_first=True)
    from_s = at_s + entries.warm_s
    number = round((entries.warm_s + entries.observe_s) * per_s)
    events = list(crowd.events(number, 0.0, 1 / per_s, run.seed))
    Script(events=events).load(simulated, at_s)
    for leaver in crowd.leavers(entries.leavers, run.seed):
        simulated.withdraw(handles[leaver.client], from_s)
    core = topology.tiers[0]
    kernel.sample(core, from_s, from_s + entries.observe_s, entries.sample_s)
    simulated.run()
    delivered = kernel.record.in_order()
    figures = delays(delivered, from_s, from_s + entries.observe_s / 2)
    figures["largest_queue"] = float(max(max(sample.queued) for sample in kernel.samples))
    measures = [Measure(name, 0.0, value) for name, value in figures.items()]
    measures += delay_curve(delivered, from_s, entries.sample_s)
    return measures + list(queue_curve(kernel.samples, from_s))


CAMPAIGN = Campaign(SLOWLY, "subscriptions covered by a root", runs, measure)
FASTER = Campaign(FAST, "subscriptions covered by a root", fast_runs, measure_fast)
