"""Hypothesis strategies for the covering indexes: few attributes, many related filters."""

from __future__ import annotations

from hypothesis import strategies as st

CONDITIONS = (
    *[f"a BETWEEN {low} AND {low + width}" for low in (0, 2, 5) for width in (1, 4, 20)],
    "a >= 2 AND a <= 6",  # the same as one of those above
    "a > 2",
    "a IN (2, 5)",
    "a NOT IN (2, 5)",
    "a IS NOT NULL",
    "a IS NULL",
    "b = 'x'",
    "b LIKE 'x%'",
    "b LIKE 'x%y'",
    "b NOT LIKE 'x%y'",
    "b NOT LIKE 'z%'",
    "b LIKE '%y'",
    "topic MATCHES 'a/#'",
    "topic MATCHES 'a/+'",
    "a > b",
    "TRUE",
    "FALSE",
    "a < 1 AND a > 2",
)
conditions = st.sampled_from(CONDITIONS)
texts = st.one_of(
    conditions,
    st.builds("({}) AND ({})".format, conditions, conditions),
    st.builds("({}) OR ({})".format, conditions, conditions),
)
"""Filters, as texts."""
