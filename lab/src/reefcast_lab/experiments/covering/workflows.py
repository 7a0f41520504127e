"""Business processes, made up and real: C9 (Fig. 12)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.columns import Delivered
from reefcast_lab.experiments.covering.event_logs import log_script, read_log, usual
from reefcast_lab.experiments.covering.measuring import (
    CoverKernel,
    counted,
    delay_curve,
    queue_curve,
    simulation,
)
from reefcast_lab.experiments.covering.parameters import PAPER, SLOW, section
from reefcast_lab.experiments.covering.topology import Topology, workflow_topology
from reefcast_lab.experiments.covering.unsubscribing import COMPARED
from reefcast_lab.experiments.covering.workflow import KINDS, triggers, workflow_script
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.parameters import Section
from reefcast_lab.experiments.script import Script

MADE, LOGGED = "workflow", "event_log"
LOG_VARIABLE, LOG_PROCESS = "REEFCAST_EVENT_LOG", "case:AMOUNT_REQ"
"""The variable names a file of the BPI Challenge 2012; processes are bands of the amount asked."""


def event_log() -> str:
    """Return the event log that the environment names; "" for none."""
    return os.environ.get(LOG_VARIABLE, "")


def runs(scale: str) -> list[Run]:
    entries = section(MADE, scale)
    return [
        run
        for variant in ("", SLOW)
        for run in runs_of(PAPER, MADE, scale, COMPARED, entries.x, entries.seeds, variant)
    ]


def log_runs(scale: str) -> list[Run]:
    """Return the runs on an event log; none without one."""
    entries = section(MADE, scale)
    xs = [entries.log_cases] if event_log() else []
    return runs_of(PAPER, LOGGED, scale, COMPARED, xs, entries.seeds)


def measure(run: Run) -> list[Measure]:
    entries, topology = section(MADE, run.scale), workflow_topology()
    kinds = [replace(kind, processes=round(kind.processes * run.x)) for kind in KINDS]
    script = workflow_script(
        topology,
        kinds=kinds,
        duration_s=entries.duration_s,
        deploy_s=entries.deploy_s,
        period_s=entries.period_s,
        activity_s=entries.activity_s,
        seed=run.seed,
    )
    return _measure(run, topology, entries, script)


def measure_log(run: Run) -> list[Measure]:
    entries, topology = section(MADE, run.scale), workflow_topology()
    cases = read_log(Path(event_log()), LOG_PROCESS)[: int(run.x)]
    script = log_script(
        usual(cases, entries.log_usual),
        topology,
        duration_s=entries.duration_s,
        deploy_s=entries.deploy_s,
        settle_s=entries.activity_s,
        longest_s=entries.log_case_s,
        seed=run.seed,
    )
    return _measure(run, topology, entries, script)


def _measure(run: Run, topology: Topology, entries: Section, script: Script) -> list[Measure]:
    simulated, kernel = simulation(run, topology)
    script.load(simulated, 0.0)
    heads = [region[0] for region in topology.regions]
    kernel.sample(topology.graph, entries.deploy_s, entries.duration_s, entries.sample_s)
    result = simulated.run()
    went = [
        claim.until_s
        for claim in script.claims
        if claim.filter == triggers() and claim.until_s < entries.duration_s
    ]
    figures = _of_spikes(kernel.record.in_order(), went, entries.spike_s) | {
        "largest_queue": float(max(max(sample.queued) for sample in kernel.samples)),
        "rows": float(np.mean([sample.rows for sample in kernel.samples])),
        "rows_change": _mean_change(kernel),
        "control_messages": float(sum(result.messages.values()) - result.messages["publish"]),
        "nrs": counted(kernel, "nrs", topology.graph),
        "false_positives": counted(kernel, "false_positive", topology.graph),
        "publish_messages": float(result.messages["publish"]),
        "head_nrs": counted(kernel, "nrs", heads),
    }
    measures = [Measure(name, 0.0, value) for name, value in figures.items()]
    measures += delay_curve(kernel.record.in_order(), 0.0, entries.sample_s)
    return measures + list(queue_curve(kernel.samples, 0.0))


def _of_spikes(delivered: Delivered, went: list[float], spike_s: float) -> dict[str, float]:
    """Measure the mean delay of what was published within `spike_s` after broad subscriptions
    `went`, and of everything else; and the largest delay within that time, as a mean over these
    events."""
    published = delivered.at_s - delivered.delay_s
    near = np.zeros(len(published), np.bool_)
    largest = []
    for at_s in went:
        here = (published >= at_s) & (published < at_s + spike_s)
        near |= here
        if here.any():
            largest.append(float(delivered.delay_s[here].max()))
    return {
        "spike_delay_s": float(delivered.delay_s[near].mean()),
        "largest_spike_delay_s": float(np.mean(largest)),
        "steady_delay_s": float(delivered.delay_s[~near].mean()),
    }


def _mean_change(kernel: CoverKernel) -> float:
    """Return the mean change of a broker's PRT rows from sample to sample."""
    return float(np.abs(np.diff([sample.rows for sample in kernel.samples], axis=0)).mean())


CAMPAIGN = Campaign(MADE, "times the paper's processes", runs, measure)
LOGS = Campaign(LOGGED, "cases", log_runs, measure_log)
