"""Four events and five filters, written by hand, that several tests match."""

from __future__ import annotations

EVENTS = [  # event, dest, delay, wind
    (0, "SFO", 45, 10.0),
    (1, "LAX", None, 30.0),
    (2, "SFO", 5, None),
    (3, "JFK", 90, 26.5),
]
FILTERS = [
    (10, "dest = 'SFO' AND delay > 30"),
    (11, "dest IN ('SFO','LAX')"),
    (12, "wind > 25 AND NOT (delay < 60)"),
    (13, '"delay" IS NULL OR wind IS NULL'),
    (14, "dest = 'ORD'"),
]
