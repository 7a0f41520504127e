from __future__ import annotations

import itertools
import math

import pytest

from reefcast.errors import InvalidValueError
from reefcast.model.filters import parse_filter
from reefcast.model.values import NAN, Kind, canonical, compare, kind_of, sort_key

ASCENDING = {
    Kind.NUMBER: [
        *(-math.inf, -(2**63), -1.5, -1, 5e-324, 0.1, 1, 1.5, float(2**53), 2**53 + 1),
        *(2**63 - 1, float(2**63), 1e300, math.inf, math.nan),
    ],
    Kind.STRING: ["", "\0", " ", "A", "a", "a\0", "aa", "é", "\ud7ff", "\uffff", "\U0001f600"],
    Kind.BOOLEAN: [False, True],
}


@pytest.mark.parametrize("kind", ASCENDING)
def test_order_is_total_within_a_kind(kind):
    values = list(enumerate(ASCENDING[kind]))
    for (i, left), (j, right) in itertools.product(values, values):
        assert compare(left, right) == (i > j) - (i < j), (left, right)
    descending = ASCENDING[kind][::-1]
    assert sorted(descending, key=sort_key) == ASCENDING[kind]


def test_unlike_kinds_do_not_compare():
    for a, b in itertools.permutations(ASCENDING, 2):
        for left, right in itertools.product(ASCENDING[a], ASCENDING[b]):
            assert compare(left, right) is None


def test_equal_values_of_different_types():
    assert compare(1, 1.0) == 0
    assert compare(0.0, -0.0) == 0
    assert compare(0, -0.0) == 0
    assert compare(float("nan"), float("nan")) == 0


def test_integers_compare_exactly_with_floats():
    assert compare(2**53 + 1, float(2**53)) == 1
    assert compare(2**63 - 1, float(2**63)) == -1


def test_kinds():
    assert [kind_of(v) for v in (True, 1, 1.0, "1")] == [
        *(Kind.BOOLEAN, Kind.NUMBER, Kind.NUMBER, Kind.STRING)
    ]


def test_subclasses_have_the_kind_of_their_base():
    import numpy as np

    assert kind_of(np.float64(1.5)) is Kind.NUMBER
    assert kind_of(Kind.NUMBER) is Kind.NUMBER


def test_what_is_no_value_has_no_kind():
    with pytest.raises(InvalidValueError, match="not a value"):
        kind_of(b"bytes")
    with pytest.raises(InvalidValueError, match=r"\[1\] is not a value"):
        parse_filter("x = 1").holds({"x": [1]})


def test_there_is_one_nan():
    assert canonical(float("nan")) is NAN
    assert canonical(1.5) == 1.5
