"""The demonstration of covering: a broad monitor comes and goes over thousands of narrow
subscriptions, live, with strategy *active* and with *incremental*; and a report on the delays.

Everything that it makes lies in one folder (`BurstOptions.out`).
"""

from __future__ import annotations

from pathlib import Path

from reefcast_lab.demos import harness
from reefcast_lab.demos.burst_figures import Figures, figures
from reefcast_lab.demos.burst_live import Run, read_control, run_live
from reefcast_lab.demos.burst_report import render
from reefcast_lab.demos.burst_script import STRATEGIES, BurstOptions, Script, make_network


def run_burst(options: BurstOptions, tell: harness.Tell) -> list[Figures]:
    """Run both, one after the other, and write the report; return also if events were lost. `tell`
    is called with progress messages. Raises `LocalError` or `PeerError` if brokers do not start, or
    die."""
    script = Script(options.validate())
    runs = [_run(options, script, covering, tell) for covering in STRATEGIES]
    found = [figures(run, script) for run in runs]
    harness.write_page(options.report, render(options, script, runs, found))
    return found


def _run(options: BurstOptions, script: Script, covering: str, tell: harness.Tell) -> Run:
    network = make_network(options, covering)
    for former in Path(network.statistics.directory).glob("*.sqlite*"):
        former.unlink()
    run = harness.run(
        run_live(options, network, script, lambda words: tell(f"{covering}: {words}"))
    )
    trace, first_us = Path(network.trace.directory), run.published_us[0]
    run.control = read_control(trace, network.names, first_us, run.ended_us)
    return run
