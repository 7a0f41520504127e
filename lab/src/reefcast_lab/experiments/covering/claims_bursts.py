"""Table II, and what happens when broad subscriptions go: rows C1 to C8, and our own engine."""

from __future__ import annotations

from reefcast_lab.experiments.campaign import Claim, Where
from reefcast_lab.experiments.covering.own import FAST, SLOWLY
from reefcast_lab.experiments.covering.parameters import section
from reefcast_lab.experiments.covering.processing import NAME as WORK
from reefcast_lab.experiments.covering.rows import MODEL, REST, row
from reefcast_lab.experiments.covering.unsubscribing import DEGREE, THETA
from reefcast_lab.experiments.covering.unsubscribing import NAME as BURSTS
from reefcast_lab.experiments.numerals import short

TABLES = (
    "the preset is fitted to the paper's figures for *active*; what the other strategies cost "
    "follows from their tables. Mean of the five core brokers, see the evidence"
)

MATCHING = (
    "a subscription is matched at 0.12 us a row of the table that it meets. The preset was "
    "fitted with half of the final table as the mean; roots come late, so that the table is "
    "larger than that on the way"
)

GRAPH = (
    "chosen: the preset's time for a comparison is the paper's for *active*. Most comparisons "
    "are with subscriptions whose root has not come yet, and these are as many with *lazy*: so "
    "that it costs the same here, where the paper's lazy graph costs twice as much"
)

TWICE = (
    "the paper gives over 1 000 s (Fig. 9) and 260 s (Fig. 10) for the same 20 unsubscriptions; "
    + MODEL
)

OVERLOADED = (
    "a publication takes 10 ms, as long as there is until the next, where a table has 49 000 "
    "rows. With *lazy* D and E have more before the first unsubscription (49 600 and 52 700), so "
    "that queues grow from the start; the paper's Table II has 6.2 ms with half as many "
    "subscriptions"
)

SENT = (
    "what comes to a broker, counted exactly: the narrow subscriptions behind it on the same side "
    "as the root that went. The others had come there before"
)

FULL = (
    "after the burst D, which gets as many NRS as with *active*, has 49 600 rows. A publication "
    "takes 10.1 ms there, a little more than there is until the next: what has piled up is never "
    "worked off. With smaller tables it is (a degree of 700, in the evidence); the paper's are "
    "half as large (C7)"
)

PRUNED = (
    "a ghost lasts where others of the class match nine in ten of its publications (theta = 0.9). "
    "With our selectivity that takes 1 150 of them behind a broker: none has as many with a "
    "degree of 700 or 1 400; with 2 100 those from E on have, so that up to D all are sent as "
    "with *active*. Beyond the paper, a ghost with more false positives moves on towards the "
    "publishers, and what it stood for follows it"
)

PLACED = (
    "before the first unsubscription ours have 25 000 to 29 000 rows already (evidence): what lies "
    "on another side of a broker than its root is not covered there, and we place subscriptions "
    "evenly, whatever covers them"
)

ALL_GONE = (
    "80 000 subscriptions of degree 2 100 have 38 roots: with 40 and 60 unsubscriptions all go, "
    "and the tables that are left overload *incremental*, too (evidence)"
)

TABLE_II = (
    Claim(
        row(1), "broker time for looking for covering, active (s)",
        "level", WORK, "covering_s", "active", paper=216.0,
        note=GRAPH,
    ),
    Claim(
        row(1), "broker time for looking for covering, lazy (s)",
        "level", WORK, "covering_s", "lazy", paper=486.0,
        note=GRAPH,
    ),
    Claim(
        row(1), "broker time for matching subscriptions, active (s)",
        "level", WORK, "matching_s", "active", paper=14.5,
        note=MATCHING,
    ),
    Claim(
        row(1), "broker time for matching subscriptions, lazy (s)",
        "level", WORK, "matching_s", "lazy", paper=28.8,
        note=MATCHING,
    ),
    Claim(
        row(1), "broker time for matching subscriptions, none (s)",
        "level", WORK, "matching_s", "none", paper=33.7,
        note=MATCHING,
    ),
    Claim(
        row(1), "broker time for unsubscriptions, active (s)",
        "level", WORK, "unsubscriptions_s", "active", paper=11.7,
        note=TABLES,
    ),
    Claim(
        row(1), "broker time for publications, active (s)",
        "level", WORK, "publications_s", "active", paper=600.0,
        note=TABLES,
    ),
    Claim(
        row(1), "broker time for publications, lazy (s)",
        "level", WORK, "publications_s", "lazy", paper=1240.0,
        note=TABLES,
    ),
    Claim(
        row(1), "broker time for publications, none (s)",
        "level", WORK, "publications_s", "none", paper=1580.0,
        note=TABLES,
    ),
    Claim(
        row(1), "broker time in all, active (s)",
        "level", WORK, "total_s", "active", paper=842.0,
        note=TABLES,
    ),
    Claim(
        row(1), "broker time in all, lazy (s)",
        "level", WORK, "total_s", "lazy", paper=1754.0,
        note=TABLES,
    ),
    Claim(
        row(1), "broker time in all, none (s)",
        "level", WORK, "total_s", "none", paper=1614.0,
        note=TABLES,
    ),
)  # fmt: skip # as the rows of the paper: a figure in a few lines

UNSUBSCRIBING = (
    Claim(
        row(2), "mean delay after 20 unsubscriptions, active (s)",
        "level", BURSTS, "mean_delay_s", "active", paper=1000.0, where="least",
        note=TWICE,
    ),
    Claim(
        row(2), "largest delay, active (s)",
        "level", BURSTS, "largest_delay_s", "active", paper=2400.0, where="least",
        note=MODEL,
    ),
    Claim(
        row(2), "mean delay, lazy over active",
        "effect", BURSTS, "mean_delay_s", "lazy", "active", -0.4, where="least",
        note=OVERLOADED,
    ),
    Claim(
        row(2), "mean delay, packing over active",
        "effect", BURSTS, "mean_delay_s", "packing", "active", -0.4, where="least",
        note=MODEL,
    ),
    Claim(
        row(2), "mean delay, incremental (s)",
        "level", BURSTS, "mean_delay_s", "incremental", paper=0.4, where="least",
        note=FULL,
    ),
    Claim(
        row(2), "mean delay, incremental over active",
        "effect", BURSTS, "mean_delay_s", "incremental", "active", -0.99, where="least",
        note="over 99 % less, says the paper",
    ),
    Claim(
        row(2), "delay from five minutes after on, incremental (s)",
        "level", BURSTS, "steady_delay_s", "incremental", paper=0.2, where="least",
        note=FULL,
    ),
    Claim(
        row(3), "longest input queue of a core broker, active",
        "level", BURSTS, "largest_queue", "active", paper=24_000.0, where="least",
        note=MODEL,
    ),
    Claim(
        row(3), "longest input queue of a core broker, lazy",
        "level", BURSTS, "largest_queue", "lazy", paper=1_500.0, where="least",
        note=OVERLOADED,
    ),
    Claim(
        row(3), "longest input queue of a core broker, packing",
        "level", BURSTS, "largest_queue", "packing", paper=1_500.0, where="least",
        note=MODEL,
    ),
    Claim(
        row(3), "longest input queue of a core broker, incremental",
        "level", BURSTS, "largest_queue", "incremental", paper=150.0, where="least",
        note=FULL,
    ),
    Claim(
        row(4), "NRS that came to A, active",
        "level", BURSTS, "nrs_A", "active", paper=700.0, where="least",
        note=SENT,
    ),
    Claim(
        row(4), "NRS that came to E, active",
        "level", BURSTS, "nrs_E", "active", paper=20_000.0, where="least",
        note=SENT,
    ),
    Claim(
        row(4), "NRS that came to E, incremental",
        "level", BURSTS, "nrs_E", "incremental", paper=1_100.0, where="least",
        note=PRUNED,
    ),
    Claim(
        row(5), "rows of a core broker after, incremental over active",
        "effect", BURSTS, "rows_after", "incremental", "active", -0.5, where="least",
        note="about half, by the paper's introduction; the text of its section VI says only that "
        "they are smaller",
    ),
    Claim(
        row(5), "rows of a core broker after, lazy over active",
        "effect", BURSTS, "rows_after", "lazy", "active", where="least",
        note="larger, says the paper",
    ),
    Claim(
        row(6), "mean delay after 20 unsubscriptions (Fig. 10), active (s)",
        "level", BURSTS, "mean_delay_s", "active", paper=260.0, where="least",
        note=TWICE,
    ),
    Claim(
        row(6), "mean delay, active over incremental: at most unsubscriptions less at fewest",
        "gap", BURSTS, "mean_delay_s", "active", "incremental", 1.0,
        note="by the paper *incremental* stays as it is; " + ALL_GONE,
    ),
    Claim(
        row(6), "mean delay, incremental (s)",
        "level", BURSTS, "mean_delay_s", "incremental", paper=0.5,
        note="under half a second, says the paper; " + ALL_GONE,
    ),
)  # fmt: skip # as the rows of the paper: a figure in a few lines

DEGREES = (
    Claim(
        row(7), "rows of a core broker after, least degree, active",
        "level", DEGREE, "rows_after", "active", paper=8_000.0, where="least",
        note=PLACED,
    ),
    Claim(
        row(7), "rows of a core broker after, largest degree, active",
        "level", DEGREE, "rows_after", "active", paper=21_000.0, where="most",
        note=PLACED,
    ),
    Claim(
        row(7), "rows of a core broker after, least degree, incremental",
        "level", DEGREE, "rows_after", "incremental", where="least",
        note=PRUNED,
    ),
    Claim(
        row(7), "rows of a core broker after, largest degree, incremental",
        "level", DEGREE, "rows_after", "incremental", where="most",
        note=PRUNED,
    ),
    Claim(
        row(7), "rows after, incremental over active: at the largest degree less at the least",
        "gap", DEGREE, "rows_after", "incremental", "active", -1.0,
        note="by the paper those of *active* rise with the degree, those of *incremental* fall",
    ),
    Claim(
        row(7), "longest input queue, largest degree, incremental",
        "level", DEGREE, "largest_queue", "incremental", paper=150.0, where="most",
        note=FULL,
    ),
    Claim(
        row(7), "longest input queue, incremental over active",
        "effect", DEGREE, "largest_queue", "incremental", "active",
        note="of all degrees; the paper has under 150 against 10 000 with a degree of 1 400",
    ),
)  # fmt: skip # as the rows of the paper: a figure in a few lines

THRESHOLDS = (
    *(
        Claim(
            row(8), f"NRS that came to {broker}, theta 0.9",
            "level", THETA, f"nrs_{broker}", "incremental", paper=paper, where="most",
            note=PRUNED,
        )
        for broker, paper in zip("ABCDE", (664.0, 1783.0, 1196.0, 1276.0, 1543.0), strict=True)
    ),
    Claim(
        row(8), "NRS that came to the mean inner broker, theta 0.9",
        "level", THETA, "nrs_inner", "incremental", paper=112.0, where="most",
        note=PRUNED,
    ),
    Claim(
        row(8), "mean delay, theta 0.9 (s)",
        "level", THETA, "mean_delay_s", "incremental", paper=0.544, where="most",
        note=FULL,
    ),
    *(
        Claim(
            row(8), f"NRS that came to {broker}, theta 0.1",
            "level", THETA, f"nrs_{broker}", "incremental", paper=0.0, where="least",
        )
        for broker in "ABCDE"
    ),
    Claim(
        row(8), "NRS that came to the mean inner broker, theta 0.1",
        "level", THETA, "nrs_inner", "incremental", paper=59.2, where="least",
        note="nearly as many as with 0.9, where the paper has half of those",
    ),
    Claim(
        row(8), "mean delay, theta 0.1 (s)",
        "level", THETA, "mean_delay_s", "incremental", paper=0.333, where="least",
        note=REST,
    ),
)  # fmt: skip # as the rows of the paper: a figure in a few lines

_RATES = section("own", "paper")
_SIZES: tuple[tuple[Where, str], ...] = (("least", "least"), ("most", "largest"))

OURS = tuple(
    Claim(
        row(2), f"our engine, {short(rate)}/s, {size} degree: largest delay, {strategy} (s)",
        "level", campaign, "largest_delay_s", strategy, where=where,
    )
    for campaign, rate in ((SLOWLY, _RATES.slow_rate), (FAST, _RATES.fast_rate))
    for where, size in _SIZES
    for strategy in ("active", "incremental")
)  # fmt: skip # as the rows of the paper: a figure in a few lines

CLAIMS = TABLE_II + UNSUBSCRIBING + OURS + DEGREES + THRESHOLDS
