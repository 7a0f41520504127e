"""Live brokers in simulated time that are told to stop at a bad time."""

from __future__ import annotations

import pytest
from simulation_wire_scenarios import nobody_reads_logs

from reefcast.overlay.topology import graph
from reefcast.simulation.checkers import check
from reefcast.simulation.faults import Crash
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.wire.faults import Stop, Wire
from reefcast.simulation.world import Setup


@pytest.mark.long
def test_a_broker_that_stops_waits_until_a_neighbour_that_came_back_has_relearned() -> None:
    """What waits for the neighbour is nowhere else: its publisher has been told that the broker
    took it over. The neighbour relearns for long, because a neighbour of its own is dead."""
    star = graph(("b1", "b2", "b3", "b4"), [("b1", "b2"), ("b2", "b3"), ("b2", "b4")])
    setup = Setup(graph=star, routing="acyclic", seed=1, faults=[Crash("b4", 2.0, 30.0)])
    stops = [
        Stop(broker="b2", at_s=2.1, restart_s=3.5),
        Stop(broker="b1", at_s=4.5, restart_s=20.0),
    ]
    simulation = Simulation(setup, wire=Wire(faults=stops))
    simulation.subscribe("s", "b3", "a >= 0", 0.1)
    simulation.advertise("p", "b1", "TRUE", 0.1)
    for number in range(20):
        simulation.publish("p", "b1", {"a": number}, 1.5 + 0.05 * number)
    with nobody_reads_logs():
        simulation.run()
    report = check(simulation)
    assert not [kind for kind, found in report.problems.items() if found]
    assert report.delivered == report.expected == 20
    assert simulation.result().damaged == frozenset()
