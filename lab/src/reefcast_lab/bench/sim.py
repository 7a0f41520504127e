"""How fast the simulator is: messages between brokers per second of wall-clock time.

A broker of the simulation answers every publication from its own table, routing included. How it
finds the rows is measured both ways: `shared`, as the simulator does by default (each publication
is matched once for the whole network, and each broker looks up where its own rows with the matching
filters lead), and `per hop` (each broker has a compiled index of its own, as live brokers do). The
baseline is an event loop of SimPy that does nothing but wait, in the same run on the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reefcast.matching import new_index, warm_up
from reefcast.overlay.topology import balanced_tree, names
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.workload import SETTLE_S, stock_workload
from reefcast.simulation.world import Setup
from reefcast_lab.bench.profiling import Cost, Samples, largest

SUBSCRIPTIONS = 2_500
RATE_PER_S = 200.0
WAITING_PROCESSES = 100

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class SimulatorSpeed:
    """`messages`: publications between brokers, routed against `subscriptions` of 2 % selectivity;
    for SimPy, empty events. `matching`: "shared" or "per hop". `ratio`: to SimPy's events per
    second; None without it."""

    case: str
    matching: str
    brokers: int
    subscriptions: int
    trace: str
    messages: int
    seconds: float
    messages_per_s: float
    ratio: float | None = None


def measure(
    brokers: int, matching: str, publications: int, trace: TraceOptions | None, clock: Clock
) -> SimulatorSpeed:
    """Simulate a balanced tree; only what happens after all subscriptions have settled counts. With
    a trace, writing its files counts, too."""
    simulation, before = _settled(brokers, matching, publications, trace)
    start = clock()
    after = simulation.run()
    seconds = clock() - start
    messages = after.messages["publish"] - before
    level = trace.level if trace else "off"
    return SimulatorSpeed(
        "reefcast", matching, brokers, SUBSCRIPTIONS, level, messages, seconds, messages / seconds
    )


def profile(messages: int) -> list[Cost]:
    """Return the largest costs of the largest network, without a trace, for each way of
    matching."""
    warm_up()
    costs = []
    for matching in ("shared", "per hop"):
        simulation, before = _settled(49, matching, round(messages / (0.6 * 49)), None)
        samples = Samples()
        with samples.taken():
            after = simulation.run()
        carried = after.messages["publish"] - before
        costs += largest(f"49 brokers, matching {matching}", samples.functions(), carried)
    return costs


def _settled(
    brokers: int, matching: str, publications: int, trace: TraceOptions | None
) -> tuple[Simulation, int]:
    """Return a network in which all subscriptions have settled, and the messages carried so far."""
    graph = balanced_tree(names(brokers), 3)
    index = new_index if matching == "per hop" else None
    setup = Setup(graph=graph, seed=1, trace=trace, keep_deliveries=False, index=index)
    simulation = Simulation(setup)
    workload = stock_workload(
        graph,
        subscriptions=SUBSCRIPTIONS,
        publications=publications,
        rate_per_s=RATE_PER_S,
        seed=1,
    )
    workload.load(simulation)
    before = simulation.run(until_s=0.99 * SETTLE_S)
    return simulation, before.messages["publish"]


def measure_simpy(events: int, clock: Clock) -> SimulatorSpeed | None:
    """Run an empty event loop, whose processes wait and wait; None where SimPy is not installed."""
    try:
        import simpy
    except ModuleNotFoundError:
        return None
    environment = simpy.Environment()

    def wait_for_ever(pause: float) -> Generator[Any, Any, Any]:
        while True:
            yield environment.timeout(pause)

    for i in range(WAITING_PROCESSES):
        environment.process(wait_for_ever(1.0 + i / WAITING_PROCESSES))
    start = clock()
    for _ in range(events):
        environment.step()
    seconds = clock() - start
    return SimulatorSpeed("simpy, empty", "", 0, 0, "off", events, seconds, events / seconds)


def bench(messages: int, trace_directory: Path, clock: Clock) -> list[SimulatorSpeed]:
    """Measure SimPy, then networks of 12 and 49 brokers, without and with a full trace, and once
    with an index at each broker; each run carries about `messages`."""
    import pyarrow.parquet  # noqa: F401  (loading it is not what is measured)

    warm_up()
    baseline = measure_simpy(5 * messages, clock)
    rows = [baseline] if baseline else []
    for brokers in (12, 49):
        publications = max(1, round(messages / (0.6 * brokers)))
        for matching, level in (("shared", "off"), ("shared", "full"), ("per hop", "off")):
            directory = trace_directory / f"{brokers}-{level}"
            trace = TraceOptions(directory, level) if level != "off" else None
            row = measure(brokers, matching, publications, trace, clock)
            ratio = row.messages_per_s / baseline.messages_per_s if baseline else None
            rows.append(replace(row, ratio=ratio))
    return rows
