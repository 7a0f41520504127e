"""Workflows, a slow engine, clusters and subscribers that move: rows C9 to C12."""

from __future__ import annotations

from reefcast_lab.experiments.campaign import Claim
from reefcast_lab.experiments.covering.moving import NAME as MOBILE
from reefcast_lab.experiments.covering.parameters import section
from reefcast_lab.experiments.covering.rows import MODEL, REST, row
from reefcast_lab.experiments.covering.slow import CLUSTERED, SLOW
from reefcast_lab.experiments.covering.slow import DEGREE as SLOW_DEGREE
from reefcast_lab.experiments.covering.workflows import LOGGED, MADE
from reefcast_lab.experiments.numerals import short

SMALL_TABLES = (
    "the paper gives no rates. The tables hold some hundred rows, whose matching takes a tenth "
    "of a millisecond with the preset; what the slow engine makes of the same processes is in "
    "the evidence"
)

_SLOW = section("slow", "paper")
_WATCHED_S = _SLOW.publications * _SLOW.publish_gap_s - _SLOW.warm_s

WATCHED = (
    f"watched for {short(_WATCHED_S)} s after the first unsubscription, until the stream of "
    f"publications ends: it could not be longer"
)

SLOWLY = (
    "the slow engine's costs are chosen so that its brokers just bear a subscription every 1.5 s; "
    + MODEL
)

PACKED = (
    "the preset charges what comes packed no comparisons above the subscription that goes (the "
    "paper's section IV-C), and with small sets below it there is hardly anything left"
)

WORKFLOWS = (
    Claim(
        row(9), "processes: steady delay, incremental (s)",
        "level", MADE, "steady_delay_s", "incremental", paper=0.24,
        note=SMALL_TABLES,
    ),
    Claim(
        row(9), "processes: largest delay after a sampler went, active over incremental",
        "effect", MADE, "largest_spike_delay_s", "active", "incremental",
        note=SMALL_TABLES,
    ),
    Claim(
        row(9), "processes: longest input queue, active over incremental",
        "effect", MADE, "largest_queue", "active", "incremental",
    ),
    Claim(
        row(9), "processes: rows of a broker change from sample to sample, incremental over active",
        "effect", MADE, "rows_change", "incremental", "active",
        note="much less severe, says the paper",
    ),
    Claim(
        row(9), "event log: steady delay, incremental (s)",
        "level", LOGGED, "steady_delay_s", "incremental",
        note=SMALL_TABLES,
    ),
    Claim(
        row(9), "event log: largest delay after a sampler went, active over incremental",
        "effect", LOGGED, "largest_spike_delay_s", "active", "incremental",
        note=SMALL_TABLES,
    ),
    Claim(
        row(9), "event log: rows of a broker change from sample to sample, incremental over active",
        "effect", LOGGED, "rows_change", "incremental", "active",
        note="much less severe, says the paper",
    ),
)  # fmt: skip # as the rows of the paper: a figure in a few lines

SLOW_ENGINE = (
    Claim(
        row(10), "delay of probes, most unsubscriptions, active (s)",
        "level", SLOW, "probe_delay_s", "active", paper=4400.0, where="most",
        note="the paper also gives 2 000 s (Fig. 14) for the same 300 unsubscriptions; " + SLOWLY,
    ),
    Claim(
        row(10), "delay of probes, most unsubscriptions (Fig. 14), active (s)",
        "level", SLOW, "probe_delay_s", "active", paper=2000.0, where="most",
        note=SLOWLY,
    ),
    Claim(
        row(10), "delay of probes, lazy over active",
        "effect", SLOW, "probe_delay_s", "lazy", "active", -0.5, where="most",
        note="less than half, says the paper",
    ),
    Claim(
        row(10), "delay of probes, packing over active",
        "effect", SLOW, "probe_delay_s", "packing", "active", -0.5, where="most",
        note="less than half, says the paper; " + PACKED,
    ),
    Claim(
        row(10), "delay of probes, most unsubscriptions, incremental (s)",
        "level", SLOW, "probe_delay_s", "incremental", paper=0.4, where="most",
        note=REST,
    ),
    Claim(
        row(10), "delay of probes, fewest unsubscriptions (Fig. 14), active (s)",
        "level", SLOW, "probe_delay_s", "active", paper=0.02, where="least",
        note="the paper's text gives 20 ms and 1 200 s for the same 100 unsubscriptions",
    ),
    Claim(
        row(10), "delay of probes, fewest unsubscriptions (Fig. 14), incremental (s)",
        "level", SLOW, "probe_delay_s", "incremental", paper=0.02, where="least",
        note="the paper also says 0.2 s of the same brokers at rest",
    ),
    Claim(
        row(10), "congestion lasts, active (s)",
        "level", SLOW, "congested_s", "active", paper=10_800.0, where="most",
        note=f"three hours; {WATCHED}",
        explained=True,
    ),
    Claim(
        row(10), "congestion lasts, largest degree (Fig. 15), active (s)",
        "level", SLOW_DEGREE, "congested_s", "active", paper=32_400.0, where="most",
        note=f"nine hours and more; {WATCHED}. It was congested until then",
        explained=True,
    ),
    Claim(
        row(10), "delay of probes, largest degree (Fig. 15), active (s)",
        "level", SLOW_DEGREE, "probe_delay_s", "active", where="most",
    ),
    Claim(
        row(10), "delay of probes, largest degree (Fig. 15), incremental (s)",
        "level", SLOW_DEGREE, "probe_delay_s", "incremental", where="most",
    ),
)  # fmt: skip # as the rows of the paper: a figure in a few lines

CLUSTERS = (
    Claim(
        row(11), "delay of probes, active (s)",
        "level", CLUSTERED, "probe_delay_s", "active", paper=2000.0,
        note=SLOWLY,
    ),
    Claim(
        row(11), "delay of probes, incremental (s)",
        "level", CLUSTERED, "probe_delay_s", "incremental", paper=0.05,
        note="the paper's own 50 ms are far less than the 3 % of 2 000 s that it gives them for",
    ),
    Claim(
        row(11), "delay of probes, incremental over active",
        "effect", CLUSTERED, "probe_delay_s", "incremental", "active", -0.97,
        note="under 3 %, says the paper",
    ),
    Claim(
        row(11), "rows of a core broker, active",
        "level", CLUSTERED, "rows_core", "active", paper=7300.0,
    ),
    Claim(
        row(11), "rows of a core broker, incremental",
        "level", CLUSTERED, "rows_core", "incremental", paper=1200.0,
    ),
    Claim(
        row(11), "rows of a core broker, incremental over active",
        "effect", CLUSTERED, "rows_core", "incremental", "active", -0.82,
    ),
)  # fmt: skip # as the rows of the paper: a figure in a few lines

MOVING = (
    Claim(
        row(12), "runs with smaller tables, incremental than active",
        "wins", MOBILE, "rows", "incremental", "active", 1.0,
    ),
    Claim(
        row(12), "runs with steadier tables, incremental than active",
        "wins", MOBILE, "rows_deviation", "incremental", "active", 1.0,
    ),
    Claim(
        row(12), "runs with shorter input queues, incremental than active",
        "wins", MOBILE, "largest_queue", "incremental", "active", 1.0,
    ),
    Claim(
        row(12), "longest input queue, incremental over active",
        "effect", MOBILE, "largest_queue", "incremental", "active",
        note="virtually no congestion, says the paper",
    ),
    *(
        Claim(
            row(12), f"false positives of the mean broker of tier {tier}, incremental",
            "level", MOBILE, f"false_positives_{tier}", "incremental",
            note="tier 0 is the core broker, tier 3 the lowest: by the paper most fall on the "
            "lower tiers",
        )
        for tier in range(4)
    ),
)  # fmt: skip # as the rows of the paper: a figure in a few lines

CLAIMS = WORKFLOWS + SLOW_ENGINE + CLUSTERS + MOVING
