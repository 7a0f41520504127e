"""Numbers as pairs: their order is the exact order of ints, floats and NaN."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from reefcast.matching.predicates import number_pair
from reefcast.model.values import compare

ASCENDING = (
    (-math.inf,),
    (-(10**400),),
    (-(2**63),),
    (-(2**53) - 1,),
    (-(2.0**53), -(2**53)),
    (0, 0.0, -0.0),
    (2**53, 2.0**53),
    (2**53 + 1,),
    (2**53 + 2, 2.0**53 + 2),
    (2**63 - 1025,),
    (2**63 - 1024, float(2**63 - 1024)),
    (2**63 - 1,),
    (2.0**63,),
    (10**400,),
    (math.inf,),
    (math.nan,),
)


def test_order_at_the_edges():
    pairs = [{number_pair(number) for number in equal} for equal in ASCENDING]
    assert [len(equal) for equal in pairs] == [1] * len(ASCENDING)
    flat = [pair for equal in pairs for pair in equal]
    assert flat == sorted(flat)
    assert len(set(flat)) == len(flat)


numbers = st.integers(-(2**63), 2**63 - 1) | st.floats() | st.integers(2**53 - 3, 2**53 + 3)


@given(numbers, numbers)
def test_order_is_that_of_the_values(left, right):
    a, b = number_pair(left), number_pair(right)
    assert (a > b) - (a < b) == compare(left, right)
