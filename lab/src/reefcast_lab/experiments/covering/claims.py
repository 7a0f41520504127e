"""What the covering paper's evaluation found, beside what ours finds: rows C1 to C12."""

from __future__ import annotations

from reefcast_lab.experiments.campaign import Paper, Plot
from reefcast_lab.experiments.covering import (
    claims_bursts,
    claims_scenarios,
    moving,
    own,
    processing,
    slow,
    unsubscribing,
    workflows,
)
from reefcast_lab.experiments.covering.evidence import evidence
from reefcast_lab.experiments.covering.parameters import FILE
from reefcast_lab.experiments.covering.parameters import PAPER as NAME
from reefcast_lab.experiments.covering.rows import row

SINCE, DELAY, QUEUE = "s since the first unsubscription", "mean delay, s", "inputs that wait"

PLOTS = (
    Plot(
        "own", "Our engine: largest delay after two roots have gone, 100 publications a second",
        own.SLOWLY, "largest_delay_s", "covering degree", "s", "x", (row(2),),
    ),
    Plot(
        "own-fast", "Our engine: largest delay, 5 000 publications a second",
        own.FAST, "largest_delay_s", "covering degree", "s", "x", (row(2),),
    ),
    Plot(
        "delay", "Delay of publications (Figs 9a, 10a)",
        unsubscribing.NAME, "delay_s", SINCE, DELAY, "at", (row(2), row(6)),
    ),
    Plot(
        "queue", "Longest input queue of a core broker (Figs 9b, 10d to f)",
        unsubscribing.NAME, "queue", SINCE, QUEUE, "at", (row(3), row(6)),
    ),
    Plot(
        "rows", "Rows of the mean core broker afterwards (Fig. 9d)",
        unsubscribing.NAME, "rows_after", "unsubscriptions", "rows", "x", (row(5),),
    ),
    Plot(
        "degree-rows", "Rows of the mean core broker afterwards, by covering degree",
        unsubscribing.DEGREE, "rows_after", "covering degree", "rows", "x", (row(7),),
    ),
    Plot(
        "degree-queue", "Longest input queue by covering degree (Figs 11d to f)",
        unsubscribing.DEGREE, "queue", SINCE, QUEUE, "at", (row(7),),
    ),
    Plot(
        "threshold", "NRS that came to E, by theta (Table III)",
        unsubscribing.THETA, "nrs_E", "theta", "subscriptions", "x", (row(8),),
    ),
    Plot(
        "workflow-delay", "Delay of publications, processes of the paper's kinds (Fig. 12a)",
        workflows.MADE, "delay_s", "s", DELAY, "at", (row(9),),
    ),
    Plot(
        "workflow-queue", "Longest input queue, processes of the paper's kinds (Fig. 12b)",
        workflows.MADE, "queue", "s", QUEUE, "at", (row(9),),
    ),
    Plot(
        "event-log-delay", "Delay of publications, a real event log",
        workflows.LOGGED, "delay_s", "s", DELAY, "at", (row(9),),
    ),
    Plot(
        "slow-delay", "Delay of probes with the slow engine (Figs 13a, 14a)",
        slow.SLOW, "probe_delay_s", "unsubscriptions", DELAY, "x", (row(10),),
    ),
    Plot(
        "slow-queue", "Longest input queue with the slow engine (Figs 13, 14)",
        slow.SLOW, "queue", SINCE, QUEUE, "at", (row(10),),
    ),
    Plot(
        "slow-degree", "Delay of probes by covering degree, slow engine (Fig. 15)",
        slow.DEGREE, "probe_delay_s", "covering degree", DELAY, "x", (row(10),),
    ),
    Plot(
        "clustered-queue", "Longest input queue, subscriptions in clusters (Fig. 16c)",
        slow.CLUSTERED, "queue", SINCE, QUEUE, "at", (row(11),),
    ),
    Plot(
        "mobile-rows", "Rows of the mean broker while subscribers move (Figs 18c, d)",
        moving.NAME, "rows_now", "s", "rows", "at", (row(12),),
    ),
    Plot(
        "mobile-queue", "Longest input queue while subscribers move (Figs 18a, b)",
        moving.NAME, "queue", "s", QUEUE, "at", (row(12),),
    ),
)  # fmt: skip # as the rows of the paper: a figure in a few lines

PAPER = Paper(
    name=NAME,
    title="Covering without subscription bursts",
    campaigns=(
        processing.CAMPAIGN,
        unsubscribing.CAMPAIGN,
        unsubscribing.DEGREES,
        unsubscribing.THETAS,
        workflows.CAMPAIGN,
        workflows.LOGS,
        slow.CAMPAIGN,
        slow.DEGREES,
        slow.CLUSTERS,
        moving.CAMPAIGN,
        own.CAMPAIGN,
        own.FASTER,
    ),
    claims=claims_bursts.CLAIMS + claims_scenarios.CLAIMS,
    plots=PLOTS,
    parameters_file=FILE,
    setting="A tree of 49 brokers (five of them, A to E, the core; publishers next to E), 4 "
    "domains of ten for processes, four regions of ten under a core broker for subscribers that "
    "move. What a message costs a broker's CPU is the preset `padres2011`, fitted to the paper's "
    "Table II; `measured` where our own engine is meant, and a slow one in C10 to C12. Single "
    "figures of the paper's Figs 9 to 18 are those of its text.",
    evidence=evidence,
    data=workflows.event_log,
    data_variable=workflows.LOG_VARIABLE,
)
