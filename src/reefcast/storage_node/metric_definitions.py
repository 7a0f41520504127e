"""The metrics of a storage, besides those that every admin listener has."""

from __future__ import annotations

from reefcast.server.metrics.definitions import (
    BAD_HTTP,
    CERTIFICATE,
    CONNECTIONS,
    CONNECTIONS_REFUSED,
    COUNTED,
    EVENTS,
    FAILURES,
    PROOFS_FAILED,
    PROOFS_SLOWED,
    READY,
    counter,
    gauge,
)

INFO = gauge(
    "storage_info",
    "Always 1; its labels say which storage this is, and where it is attached",
    *("storage", "network", "broker", "version"),
)
CONNECTED = gauge("storage_connected", "1 while it is connected to its broker")
TOPICS = gauge(
    "storage_topics",
    'Its topics (names and patterns): "answering", or not yet: "taking_over" from other storages, '
    '"catching_up" otherwise',
    "state",
)
STORED = counter(
    "storage_events",
    'Events written to its history, from its "subscription" or from "storages" when it caught up; '
    "those that it had already count again",
    "source",
)
STORED_BYTES = counter("storage_event_bytes", "Bytes of these events, as they are sent")
WAITING = gauge("storage_waiting_events", "Events that have come, and wait to be written")
WAITING_LIMIT = gauge(
    "storage_waiting_events_limit", "How many may wait before its broker has to hold others back"
)
NEWEST_AGE = gauge(
    "storage_newest_event_age_seconds",
    "How long ago the newest event that it ever stored was published, by the publisher's clock; "
    "below zero counts as zero",
)
ROWS = gauge(
    "storage_rows", "Rows of its database: an event has one for each of its topics, until sealed"
)
ROW_BYTES = gauge("storage_row_bytes", "Bytes of the events in these rows")
SEGMENTS = gauge("storage_segments", "Sealed Parquet files")
SEGMENT_ROWS = gauge("storage_segment_rows", "Their rows")
DISK_BYTES = gauge("storage_disk_bytes", "Size of its database, with its journal, and its segments")
DISK_FREE = gauge("storage_disk_free_bytes", "Free space where its history is, if that is known")
REQUESTS = counter(
    "storage_requests",
    'Requests for events: "answered" to the end, "refused" (about topics that it does not answer '
    'for, or with a filter that is none), "cancelled" (by who asked, or with a connection), '
    '"failed" (its log says how)',
    "outcome",
)
RUNNING = gauge("storage_requests_running", "Requests that it answers now")
RESTARTS = counter(
    "storage_restarts",
    'How often it had to start again in its process: "damaged" (it repaired its history), "slow" '
    "(it did not keep up, and its broker gave it up)",
    "reason",
)

SECTIONS = {
    "Storages": (
        *(INFO, CONNECTED, TOPICS, STORED, STORED_BYTES, WAITING, WAITING_LIMIT, NEWEST_AGE),
        *(ROWS, ROW_BYTES, SEGMENTS, SEGMENT_ROWS, DISK_BYTES, DISK_FREE),
        *(REQUESTS, RUNNING, RESTARTS),
    )
}
METRICS = SECTIONS["Storages"]
SHARED = (
    *(READY, CERTIFICATE, FAILURES, EVENTS, CONNECTIONS, CONNECTIONS_REFUSED),
    *(PROOFS_FAILED, PROOFS_SLOWED, BAD_HTTP),
)
"""What a storage tells as brokers do."""
OF_LISTENER = {
    name: COUNTED[name]
    for name in ("no_tls", "http_evicted", "proofs_failed", "proofs_slowed", "bad_http", "failures")
}
"""The counters of an admin listener, and the metrics that have them."""
EVENT_SOURCES = ("subscription", "storages")
OUTCOMES = ("answered", "refused", "cancelled", "failed")
RESTART_REASONS = ("damaged", "slow")
TOPIC_STATES = ("answering", "taking_over", "catching_up")
