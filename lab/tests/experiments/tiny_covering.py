"""Sizes of covering's campaigns for tests: congestion within seconds."""

from __future__ import annotations

from typing import Any

UNSUBSCRIBING: dict[str, Any] = {
    "roots": 8,
    "degree": 20,
    "selectivity": 0.2,
    "warm_s": 20.0,
    "filled_s": 2.0,
    "publish_gap_s": 0.02,
    "within_s": 2.0,
    "observe_s": 15.0,
    "sample_s": 0.9731,
    "steady_s": 8.0,
}
SLOW: dict[str, Any] = {
    "row_cost": 0.5,
    "comparison_cost": 0.2,
    "subscriptions": 105,
    "degree": 20,
    "selectivity": 0.3,
    "subscribe_gap_s": 0.1,
    "warm_s": 20.0,
    "filled_s": 2.0,
    "publish_gap_s": 0.05,
    "publications": 900,
    "unsubscribe_gap_s": 0.1,
    "probes": 10,
    "probes_after_s": 10.0,
    "sample_s": 0.9731,
}
