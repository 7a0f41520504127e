"""Names follow Prometheus's conventions: base units (seconds, bytes), `_total` for what only grows.
No label is taken from what anybody else says: neither clients, users, sessions nor topics are
labels. Links are named while the broker has at most 100 of them in the overlay; all others are
summed up under the name `others`."""

from __future__ import annotations

from typing import Literal, NamedTuple

MOST_LINKS = 100
OTHERS = "others"
Kind = Literal["counter", "gauge", "histogram"]


class Metric(NamedTuple):
    """A metric. `name`: as it is scraped; a histogram has `NAME_bucket`, `NAME_sum` and
    `NAME_count`. `labels`: their names."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names under which it can be asked for."""
        if self.kind != "histogram":
            return (self.name,)
        return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))


def counter(name: str, help: str, *labels: str) -> Metric:
    """Return a counter of this name, without prefix and `_total`."""
    return Metric(f"reefcast_{name}_total", "counter", help, labels)


def gauge(name: str, help: str, *labels: str) -> Metric:
    """Return a gauge of this name, without prefix."""
    return Metric(f"reefcast_{name}", "gauge", help, labels)


def _histogram(name: str, help: str) -> Metric:
    return Metric(f"reefcast_{name}_seconds", "histogram", help)


# --- the broker ----------------------------------------------------------------------------------

INFO = gauge(
    "broker_info",
    "Always 1; its labels say which broker this is",
    *("broker", "network", "routing", "version"),
)
READY = gauge(
    "ready",
    "1 if /readyz says so: a broker has relearned, its links are up, it does not stop; a storage "
    "answers for all of its topics",
)
RELEARNING = gauge("relearning", "1 while neighbours still have to tell what they know")
STOPPING = gauge("stopping", "1 once it was told to stop, while it drains")
CERTIFICATE = gauge(
    "certificate_expiry_timestamp_seconds", "When its certificate expires, seconds since 1970"
)
FAILURES = counter("failures", "Inputs and effects on which it failed; its log says how")
LAG = _histogram("loop_lag", "How late its event loop was, looked at each second")
EVENTS = counter(
    "events",
    "Whatever else it counts, under the names of `network status`: what its routing decided, and "
    "lines of the log",
    "event",
)

# --- publications --------------------------------------------------------------------------------

RECEIVED = counter(
    "publications_received", 'From "clients", and copies from "neighbours"', "source"
)
FORWARDED = counter("publications_forwarded", "Copies to neighbours")
DELIVERED = counter("deliveries", "Publications put into queues of clients, once for each client")
UNWANTED = counter("publications_unwanted", "From clients, that nobody had subscribed to")
FALSE_POSITIVE = counter(
    "publications_false_positive", "Copies from neighbours that nobody here or behind here wanted"
)
DUPLICATE = counter("publications_duplicate", "Copies that had come by another way before")
DROPPED = counter(
    "publications_dropped",
    'What somebody wanted and does not get: "queue_full" (a client that does not keep up, with '
    '`drop_oldest`), "session_lost" (a client that did not come back), "link_lost" (a neighbour '
    'that stayed away or restarted), "lost_in_moves", "unsent" (gossip had no connection), '
    '"custody_dropped" (an operator gave a neighbour up)',
    "reason",
)
REFUSED = counter(
    "requests_refused",
    'Of clients: "refused" (outside of an advertisement or of what a user may do, or a wrong '
    'filter), "over_limit" (a limit on what may be asked), "retained" (a limit of [retained])',
    "reason",
)
HELD = gauge("publications_held", "From clients, waiting until their advertisements have settled")
UNCONFIRMED = gauge("publications_unconfirmed", "To be confirmed, and under way here")

# --- delays --------------------------------------------------------------------------------------

MATCHING = _histogram(
    "matching",
    "Matching a publication and deciding where it goes: the mean of those that came in one read; "
    "sampled",
)
DELIVERY_DELAY = _histogram(
    "delivery_delay",
    "From publishing, by the publisher's clock, until this broker puts an event into a client's "
    "queue; sampled; below zero counts as zero",
)
CONFIRMATION = _histogram(
    "confirmation",
    "From when a client's publication came until it was confirmed to the client (or said to be "
    "in custody); sampled",
)

# --- clients -------------------------------------------------------------------------------------

CONNECTIONS = gauge(
    "connections",
    'Open connections by what is at the other end: "client", "broker", "soft" (a soft link), '
    '"admin", "http" (these listeners), "greeting" (nobody yet)',
    "role",
)
CONNECTIONS_LIMIT = gauge("connections_limit", "How many it may have (max_connections)")
CONNECTIONS_REFUSED = counter(
    "connections_refused",
    '"turned_away" (a limit, or a proof that failed), "no_hello" (it said nothing in time), '
    '"no_tls" (TLS was not agreed on), "http" (too many at the admin listener)',
    "reason",
)
CONNECTIONS_CLOSED = counter(
    "connections_closed",
    'Closed for a reason: by the "broker", by the "peer", or when a proof had "expired"',
    "by",
)
PROOFS_FAILED = counter("proofs_failed", "Failed attempts to prove who somebody is")
PROOFS_SLOWED = counter("proofs_slowed", "Attempts that had to wait after former failures")
BAD_HTTP = counter("bad_http_requests", "What came to an HTTP listener and was no HTTP")
CLIENTS = gauge(
    "client_sessions", 'Sessions of clients: "connected", or "away" for a moment', "state"
)
CLIENTS_LIMIT = gauge("client_sessions_limit", "How many it may have (max_clients)")
SUBSCRIPTIONS = gauge("subscriptions", "Subscriptions of its clients")
ADVERTISEMENTS = gauge("advertisements", "Advertisements of its clients")
QUEUED = gauge("client_queue_publications", "Publications that wait for clients, all together")
QUEUED_MOST = gauge("client_queue_publications_max", "Those in the longest queue of a client")
QUEUE_BYTES = gauge(
    "client_queue_bytes", "Bytes kept for clients: what waits, and what they have not acknowledged"
)
QUEUE_BYTES_LIMIT = gauge("client_queue_bytes_limit", "How many there may be (queue_bytes)")
QUEUE_EVICTIONS = counter(
    "client_queue_evictions", "How often the longest queue had to give way to that limit"
)
SLOW = gauge("slow_clients", "Clients that do not keep up now: their queue was full")
SLOW_TOTAL = counter("slow_clients_noticed", "How often a client was found not to keep up")
CREDIT = gauge("credit_publications", "Publications that clients may send at once, all together")
WITHHELD = gauge(
    "credit_withheld_clients",
    'Clients that get no credit now: for "congestion", or by the "rate" of their user',
    "reason",
)
CONGESTED = gauge("congested", "1 while it tells other brokers that it is congested")
CONGESTED_TARGETS = gauge("congested_targets", "Clients and links that publishers wait for now")

# --- links ---------------------------------------------------------------------------------------

LINK_UP = gauge("link_up", "1 if the neighbour is connected", "link")
LINK_QUEUE = gauge(
    "link_queue_publications",
    "Q_len: publications that it has not acknowledged, or that wait here for it",
    "link",
)
LINK_LOAD = gauge("link_load", "The left side of OctopiA's equation 3", "link")
LINK_LOAD_LIMIT = gauge("link_load_limit", "tau: a link with a higher load is overloaded")
LINK_OVERLOADED = counter(
    "link_found_overloaded", "How often a decision met the link overloaded", "link"
)
LINK_RECEIVED = counter("link_publications_received", "Copies that came over the link", "link")
LINK_SENT = counter("link_publications_sent", "Copies that went over the link", "link")
LINK_RECONNECTS = counter("link_reconnects", "How often its connection was made again", "link")
LINK_UNCONFIRMED = gauge(
    "link_unconfirmed_publications", "Copies that the neighbour has not confirmed", "link"
)
LINK_HELD = gauge(
    "link_held_publications", "Publications that wait here until the neighbour is ready", "link"
)
LINK_CUSTODY = gauge(
    "link_custody_publications", "Of these, on this broker's disk for a neighbour away", "link"
)
LINK_AWAY = gauge(
    "link_away_seconds", "For how long the neighbour has been away (brokers with a disk)", "link"
)
CUSTODY_BYTES = gauge("custody_bytes", "Bytes in custody, for all neighbours")
CUSTODY_LIMIT = gauge("custody_bytes_limit", "How many there may be (custody_bytes)")
SOFT_LINKS = gauge("soft_links", "Links besides those of the overlay")

# --- tables --------------------------------------------------------------------------------------

TABLE_ROWS = gauge(
    "table_rows", "Rows of each table, under the papers' names, such as PRT, SRT, CLT", "table"
)
RETAINED = gauge("retained_values", "Retained values")
RETAINED_BYTES = gauge("retained_bytes", "Their bytes")
TOMBSTONES = gauge("retained_tombstones", "Keys that it remembers as cleared")

# --- durable sessions and the disk ---------------------------------------------------------------

DURABLE = gauge("durable_sessions", "Durable sessions whose home it is")
DURABLE_LIMIT = gauge("durable_sessions_limit", "How many it may have (max_sessions)")
CONSUMERS = gauge("durable_consumers", "Consumers attached to them")
BACKLOG = gauge("durable_backlog_events", "Events that they are owed, all together")
BACKLOG_MOST = gauge("durable_backlog_events_max", "Those that one session is owed at most")
BACKLOG_BYTES = gauge("durable_backlog_bytes", "Bytes of the events that they are owed")
BACKLOG_AGE = gauge(
    "durable_oldest_event_age_seconds", "How long the oldest event of any session has waited"
)
STORED = gauge("durable_stored_events", "Different events that it keeps for them")
HANDED_OUT = gauge("durable_unacknowledged_events", "Handed to consumers, and not acknowledged")
DEAD = gauge("durable_dead_letters", "Dead letters, of all sessions")
BLOCKED = gauge("durable_blocked_publications", "Publications that wait for room in a session")
DURABLE_EVENTS = counter(
    "durable_session_events", "What happened to sessions; kinds as in advisory events", "kind"
)
CIRCUITS = gauge("durable_circuits", "Consumers and sessions at different brokers that it joins")
SEARCHES = gauge("durable_searches", "Searches for the home of a session under way")
COMMIT = _histogram("disk_commit", "Writing what came together to disk, with its sync")
PENDING = gauge("disk_pending_inputs", "Inputs that wait for the disk")
FAILING = gauge("disk_failing", "1 while the disk fails: nothing is confirmed")
DISK_BYTES = gauge("disk_bytes", "Size of the broker's file of sessions, with its journal")
DISK_FREE = gauge("disk_free_bytes", "Free space where that file is")

SECTIONS: dict[str, tuple[Metric, ...]] = {
    "The broker": (*(INFO, READY, RELEARNING, STOPPING, CERTIFICATE, FAILURES, LAG, EVENTS),),
    "Publications": (
        *(RECEIVED, FORWARDED, DELIVERED, UNWANTED, FALSE_POSITIVE, DUPLICATE, DROPPED, REFUSED),
        *(HELD, UNCONFIRMED),
    ),
    "Delays": (MATCHING, DELIVERY_DELAY, CONFIRMATION),
    "Clients": (
        *(CONNECTIONS, CONNECTIONS_LIMIT, CONNECTIONS_REFUSED, CONNECTIONS_CLOSED),
        *(PROOFS_FAILED, PROOFS_SLOWED, BAD_HTTP, CLIENTS, CLIENTS_LIMIT),
        *(SUBSCRIPTIONS, ADVERTISEMENTS, QUEUED, QUEUED_MOST, QUEUE_BYTES, QUEUE_BYTES_LIMIT),
        *(QUEUE_EVICTIONS, SLOW, SLOW_TOTAL, CREDIT, WITHHELD, CONGESTED, CONGESTED_TARGETS),
    ),
    "Links": (
        *(LINK_UP, LINK_QUEUE, LINK_LOAD, LINK_LOAD_LIMIT, LINK_OVERLOADED, LINK_RECEIVED),
        *(LINK_SENT, LINK_RECONNECTS, LINK_UNCONFIRMED, LINK_HELD, LINK_CUSTODY, LINK_AWAY),
        *(CUSTODY_BYTES, CUSTODY_LIMIT, SOFT_LINKS),
    ),
    "Tables": (TABLE_ROWS, RETAINED, RETAINED_BYTES, TOMBSTONES),
    "Durable sessions and the disk": (
        *(DURABLE, DURABLE_LIMIT, CONSUMERS, BACKLOG, BACKLOG_MOST, BACKLOG_BYTES, BACKLOG_AGE),
        *(STORED, HANDED_OUT, DEAD, BLOCKED, DURABLE_EVENTS, CIRCUITS, SEARCHES),
        *(COMMIT, PENDING, FAILING, DISK_BYTES, DISK_FREE),
    ),
}
"""All metrics of brokers but those of the process."""
METRICS = tuple(metric for section in SECTIONS.values() for metric in section)
OF_PROCESS = (
    *("process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes"),
    *("process_start_time_seconds", "process_open_fds", "process_max_fds"),
)
"""What prometheus_client tells of the process, on Linux."""

# --- counters of the broker, and the metrics that have them --------------------------------------

COUNTED: dict[str, tuple[Metric, tuple[str, ...]]] = {
    "published": (RECEIVED, ("clients",)),
    "forwarded": (FORWARDED, ()),
    "delivered": (DELIVERED, ()),
    "unwanted": (UNWANTED, ()),
    "false_positive": (FALSE_POSITIVE, ()),
    "duplicate": (DUPLICATE, ()),
    **{
        name: (DROPPED, (name,))
        for name in (
            *("queue_full", "session_lost", "link_lost", "lost_in_moves", "unsent"),
            "custody_dropped",
        )
    },
    "refused": (REFUSED, ("refused",)),
    "over_limit": (REFUSED, ("over_limit",)),
    "retained_refused": (REFUSED, ("retained",)),
    **{name: (CONNECTIONS_REFUSED, (name,)) for name in ("turned_away", "no_hello", "no_tls")},
    "http_evicted": (CONNECTIONS_REFUSED, ("http",)),
    "closed": (CONNECTIONS_CLOSED, ("broker",)),
    "peers_closed": (CONNECTIONS_CLOSED, ("peer",)),
    "expired": (CONNECTIONS_CLOSED, ("expired",)),
    "proofs_failed": (PROOFS_FAILED, ()),
    "proofs_slowed": (PROOFS_SLOWED, ()),
    "bad_http": (BAD_HTTP, ()),
    "failures": (FAILURES, ()),
    "slow_clients": (SLOW_TOTAL, ()),
}
"""The broker's counters that have a metric of their own (and label values); a metric of these shows
0 before anything was counted. All others are in `EVENTS`."""
FIGURES: dict[str, Metric] = {
    "retained_values": RETAINED,
    "retained_bytes": RETAINED_BYTES,
    "retained_tombstones": TOMBSTONES,
    "session_circuits": CIRCUITS,
    "session_searches": SEARCHES,
}
"""The figures of services that are gauges."""
