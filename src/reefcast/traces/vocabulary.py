"""The trace vocabulary: the data sets that live and simulated brokers write, one for each kind.

Times are int64 microseconds: UTC for live runs, since the start of the run for simulated ones.
Every row names the broker that wrote it. The directory of a run has one folder for each kind, with
Parquet files named `<broker>-<number>.parquet`, and `run.json`, which describes the run. Live and
simulated traces are read in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

INT, STR, FLOAT = "int64", "string", "float64"


class Column(NamedTuple):
    name: str
    type: str
    meaning: str


_WHO = (
    Column("time_us", INT, "the time of the row"),
    Column("broker", STR, "the broker that wrote the row"),
)
_WHICH = (
    Column("publisher", STR, "the publication's publisher; null if the row is about none"),
    Column("seq", INT, "the publication's number; null if the row is about none"),
)

KINDS: dict[str, tuple[Column, ...]] = {
    "publish": (
        *_WHO,
        *_WHICH,
        Column("size_bytes", INT, "size of the body"),
    ),
    "message": (
        *_WHO,
        Column("link", STR, "the neighbour or client that it was sent to"),
        Column("message", STR, "publish, advertise, subscribe, ... (the message's type)"),
        *_WHICH,
        Column("size_bytes", INT, "size of the frame"),
        Column("queue_len", INT, "publications waiting on that link, this one included"),
    ),
    "matching": (
        *_WHO,
        *_WHICH,
        Column("matched", INT, "rows of the subscription table that matched"),
        Column("duration_ns", INT, "time in the matching index; of a batch, its share"),
    ),
    "delivery": (
        *_WHO,
        *_WHICH,
        Column("published_us", INT, "the time of publication"),
        Column("subscribers", INT, "the number of local clients that got it"),
        Column("subscriptions", INT, "the number of their subscriptions that matched"),
        Column("hops", INT, "links between brokers that it crossed"),
    ),
    "discard": (
        *_WHO,
        *_WHICH,
        Column(
            "link",
            STR,
            "the neighbour or client that it was on its way to; null if it was at the broker",
        ),
        Column("reason", STR, "one of the reasons below"),
    ),
    "table": (
        *_WHO,
        Column("table", STR, "name of the table as in the papers: SRT, PRT, ..."),
        Column("rows", INT, "the number of its rows"),
    ),
    "queue": (
        *_WHO,
        Column("link", STR, "the neighbour; null for the broker's own input queue"),
        Column("queue_len", INT, "the number of waiting publications"),
    ),
    "counter": (
        *_WHO,
        Column("link", STR, "the neighbour or client that it counts for; null for the broker"),
        Column("counter", STR, "the name of the counter"),
        Column("count", INT, "its value since the broker started"),
    ),
}

DISCARD_REASONS = (
    "unwanted",  # no subscription anywhere near: nobody wanted it here
    "outside_advertisement",  # refused: its publisher had not advertised it
    "duplicate",  # a copy that came by another way
    "queue_full",  # a subscriber's queue was full (policy drop_oldest)
    "fault",  # the simulator's fault injection took it
    "link_lost",  # it was on its way to a broker that restarted or stayed away
)

FOUND_OVERLOADED = "found_overloaded"
"""The counter, one for each link, of decisions that met the link overloaded (OctopiA's LST)."""

LEVELS = ("off", "counters", "sampled", "full")
"""off: nothing; counters: `table`, `queue` and `counter` snapshots; sampled: also the other kinds,
for a share of the publications; full: for all of them."""
