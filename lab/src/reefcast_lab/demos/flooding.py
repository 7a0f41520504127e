"""What flooding would have cost: the demo's own workload in the simulator, routing `flooding`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reefcast.overlay.topology import Graph
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.demos.costs import Flooding
from reefcast_lab.demos.subscriptions import Wanted

SAMPLE = 2000
"""Events that are simulated; evenly spread over those replayed."""

FIRST_EVENT_S = 60.0
GAP_S = 0.001


def simulate_flooding(
    graph: Graph, wanted: Sequence[Wanted], publishers: dict[str, str], events: Sequence[Any]
) -> Flooding:
    """Simulate flooding. `publishers`: airport -> broker; `events`: attributes, of which `origin`
    says where each is published."""
    simulation = Simulation(Setup(graph=graph, routing="flooding", keep_deliveries=False))
    for each in wanted:
        simulation.subscribe(each.client, each.broker, each.filter, at_s=0.0)
    for number, event in enumerate(events):
        origin = event["origin"]
        at_s = FIRST_EVENT_S + number * GAP_S
        simulation.publish(f"replay-{origin}", publishers[origin], event, at_s)
    result = simulation.run()
    return Flooding(len(events), result.messages["publish"])


def sample_events(path: Path, count: int) -> list[dict[str, Any]]:
    """Return at most SAMPLE of the first `count` events, evenly spread."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, filters=[("event", "<", count)]).sort_by("event")
    chosen = range(0, table.num_rows, max(1, -(-table.num_rows // SAMPLE)))
    rows: list[dict[str, Any]] = (
        table.take(list(chosen)).drop_columns(["event", "time_us"]).to_pylist()
    )
    return rows
