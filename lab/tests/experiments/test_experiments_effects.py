"""Points and figures of claims, from rows written by hand."""

from __future__ import annotations

import dataclasses
import math

import pytest

from reefcast_lab.experiments import effects
from reefcast_lab.experiments.campaign import Claim, Point, Value
from reefcast_lab.experiments.table import points, rows, values

pytestmark = pytest.mark.spark


def result(routing, x, seed, value, *, variant="", metric="delay", at=0.0):
    return ("toy", "small", "sizes", routing, float(x), variant, seed, metric, at, float(value))


def results(spark, *rows):
    return spark.createDataFrame(list(rows), effects.RESULTS)


def claim(kind, of="slow", against="fast", paper=1.0):
    return Claim("toy/T1", "delay", kind, "sizes", "delay", of, against, paper)


def ours(frame, *claims):
    return [row.ours for row in rows(frame, claims)]


TWO_SIZES = (
    result("fast", 10, 0, 2),
    result("slow", 10, 0, 3),
    result("fast", 20, 0, 4),
    result("slow", 20, 0, 8),
)


def test_the_kinds_of_figures(spark):
    frame = results(spark, *TWO_SIZES)
    assert ours(frame, claim("effect")) == [pytest.approx((0.5 + 1.0) / 2)]
    assert ours(frame, claim("level", against="")) == [5.5]
    assert ours(frame, claim("difference")) == [2.5]
    assert ours(frame, claim("gap")) == [pytest.approx(0.5)]
    assert ours(frame, claim("flat", against="")) == [pytest.approx(8 / 3 - 1)]
    assert ours(frame, claim("wins"), claim("wins", "fast", "slow")) == [0.0, 1.0]


def test_pairs_are_of_one_seed_one_size_and_the_preset(spark):
    frame = results(
        spark,
        *TWO_SIZES,
        result("slow", 10, 1, 1000),  # its twin failed
        result("slow", 30, 0, 1000),
        result("slow", 10, 0, 1000, variant="half"),
        result("fast", 10, 0, 1, variant="half"),
        result("slow", 10, 0, 1000, metric="hops"),
    )
    assert ours(frame, claim("effect"), claim("difference")) == [pytest.approx(0.75), 2.5]


def test_a_claim_may_be_about_one_end_of_the_sizes_or_about_those_between(spark):
    """These are the sizes that both of its routings have."""
    frame = results(spark, *TWO_SIZES, result("slow", 5, 0, 1000), result("slow", 30, 0, 1000))
    least, most = (dataclasses.replace(claim("effect"), where=where) for where in ("least", "most"))
    assert ours(frame, least, most) == [pytest.approx(0.5), pytest.approx(1.0)]
    alone = dataclasses.replace(claim("level", against=""), where="most")
    assert ours(frame, alone, dataclasses.replace(alone, where="least")) == [1000.0, 1000.0]
    assert ours(frame, dataclasses.replace(alone, where="between")) == [pytest.approx(5.5)]


def test_runs_are_final_or_not_at_the_sizes_of_the_claim(spark):
    """One run of `slow` at the smaller size did not end; the other size is not concerned."""
    stable = (
        result(routing, x, 0, (routing, x) != ("slow", 10), metric="stable")
        for routing in ("slow", "fast")
        for x in (10, 20)
    )
    frame = results(spark, *TWO_SIZES, *stable)
    asked = dataclasses.replace(claim("difference"), settled="stable")
    cases = [dataclasses.replace(asked, where=where) for where in ("all", "least", "most")]
    assert [row.unsettled for row in rows(frame, cases)] == [("slow",), ("slow",), ()]


def test_places_on_a_curve_count_as_one_value(spark):
    curve = [result("slow", 10, 0, value, at=at) for at, value in ((1.0, 2), (2.0, 4))]
    assert ours(results(spark, *curve), claim("level", against="")) == [3.0]


def test_the_interval_is_over_seeds(spark):
    """The means of the seeds are 1 and 3; the quantile of t with one degree of freedom is
    12.706."""
    frame = results(
        spark,
        result("slow", 10, 0, 0),
        result("slow", 20, 0, 2),
        result("slow", 10, 1, 2),
        result("slow", 20, 1, 4),
    )
    (row,) = rows(frame, [claim("level", against="")])
    assert (row.ours, row.seeds) == (2.0, 2)
    assert row.interval == pytest.approx(12.706 * math.sqrt(2) / math.sqrt(2))


@pytest.mark.parametrize(
    ("seeds", "quantile"), [(3, 4.303), (31, 2.042), (41, 2.021), (121, 1.980)]
)
def test_the_quantiles_of_t(spark, seeds, quantile):
    values = [float(seed % 2) for seed in range(seeds)]
    mean = sum(values) / seeds
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (seeds - 1))
    frame = results(spark, *(result("slow", 1, seed, v) for seed, v in enumerate(values)))
    (point,) = points(frame)
    assert point.interval == pytest.approx(quantile * deviation / math.sqrt(seeds), rel=1e-3)


def test_what_cannot_be_computed_is_none(spark):
    """There is nothing measured, one seed, one size where two are compared, or nothing to divide
    by."""
    frame = results(spark, result("slow", 10, 0, 3), result("fast", 10, 0, 0))
    none = rows(frame, [claim("level", "nobody", ""), claim("level", against="")])
    assert [(row.ours, row.interval, row.seeds) for row in none] == [
        (None, None, 0),
        (3.0, None, 1),
    ]
    frame = results(spark, *TWO_SIZES[:2])
    assert ours(frame, claim("gap"), claim("flat", against="")) == [None, None]
    frame = results(spark, result("slow", 10, 0, 3), result("fast", 10, 0, 0))
    assert ours(frame, claim("effect")) == [None]


def test_points_are_means_over_seeds_in_order(spark):
    frame = results(
        spark,
        result("slow", 10, 0, 7, at=2.0),
        result("slow", 10, 0, 3),
        result("slow", 10, 1, 5),
        result("slow", 10, 1, 9, variant="half"),
    )
    assert points(frame) == [
        Point("sizes", "delay", "slow", "", 10.0, 0.0, 4.0, pytest.approx(12.706), 2),
        Point("sizes", "delay", "slow", "", 10.0, 2.0, 7.0, None, 1),
        Point("sizes", "delay", "slow", "half", 10.0, 0.0, 9.0, None, 1),
    ]


def test_places_that_seeds_computed_are_one_place_within_a_microsecond(spark):
    frame = results(
        spark,
        result("slow", 10, 0, 3, at=0.1 + 0.2),
        result("slow", 10, 1, 5, at=0.3),
        result("slow", 10, 0, 7, at=0.3001),
    )
    assert [(p.at, p.mean, p.seeds) for p in points(frame)] == [(0.3, 4.0, 2), (0.3001, 7.0, 1)]


def test_values_are_those_of_single_runs_beside_curves(spark):
    frame = results(
        spark,
        result("slow", 10, 1, 5),
        result("slow", 10, 0, 3),
        result("slow", 10, 0, 7, at=2.0),
        result("slow", 10, 0, 9, variant="half"),
    )
    assert values(frame) == [
        Value("sizes", "delay", "slow", "", 10.0, 0, 3.0),
        Value("sizes", "delay", "slow", "", 10.0, 1, 5.0),
        Value("sizes", "delay", "slow", "half", 10.0, 0, 9.0),
    ]


def test_a_row_says_which_routing_has_runs_that_did_not_end(spark):
    """Only runs of the preset count; one of the two slow ones did not end."""
    ends = (
        ("slow", 0, 1.0, ""),
        ("slow", 1, 0.0, ""),
        ("fast", 0, 1.0, ""),
        ("fast", 0, 0, "half"),
    )
    frame = results(
        spark,
        *TWO_SIZES,
        *(
            result(routing, 10, seed, stable, metric="stable", variant=variant)
            for routing, seed, stable, variant in ends
        ),
    )
    plain = claim("difference")
    told = dataclasses.replace(plain, settled="stable")
    alone = dataclasses.replace(told, kind="level", of="fast", against="")
    found = rows(frame, [plain, told, alone])
    assert [row.unsettled for row in found] == [(), ("slow",), ()]
    assert [row.ours for row in found] == [2.5, 2.5, 3.0]


def test_no_results_at_all(spark):
    frame = spark.createDataFrame([], effects.RESULTS)
    assert points(frame) == values(frame) == []
    assert ours(frame, claim("effect")) == [None]
