"""The sections of a network file; each parameter states its unit and meaning here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from reefcast.logs import Settings
from reefcast.model.frame_layout import MAX_FRAME_BYTES
from reefcast.network.checks import Section, address_in
from reefcast.network.listeners import ListenerEntry
from reefcast.tls.files import TlsFiles

OWN_NAME = "{broker}"


class NetworkSection(Section):
    """The network as a whole.

    - `name`: the name of the network; brokers of different networks refuse each other.
    - `routing`: the name of a routing, or `my_module:MyRouting` for one of your own. Its options
      are the keys of `[routing]`.
    - `insecure`: allow addresses other than loopback without `[tls]`, and so without encryption.
    """

    name: str = "reefcast"
    routing: str = "acyclic"
    insecure: bool = False


class TlsSection(Section):
    """TLS, for everybody who connects to a broker; empty: there is none. Paths are relative to the
    network file, and `{broker}` stands for the name of the broker, or of the storage, that reads
    its own file. New files count for new connections, without a restart.

    - `certificate`: the certificate that a broker shows, in PEM. Among its alternative names is the
      URI `reefcast://NETWORK/broker/NAME`, which proves the broker to others.
    - `key`: its private key; by default in the file of the certificate.
    - `authority`: the certificates of the authorities from which brokers and clients must have
      theirs.
    - `clients`: "none": clients prove nothing by a certificate; "optional": those that show one are
      known by its subject; "required": clients without one are turned away. Brokers, peers and
      storages show theirs to each other in any case.
    """

    certificate: str = ""
    key: str = ""
    authority: str = ""
    clients: Literal["none", "optional", "required"] = "none"

    @property
    def on(self) -> bool:
        """Whether connections use TLS."""
        return bool(self.certificate)

    def files(self, name: str) -> TlsFiles:
        """Return the files of the broker or the storage with this name."""
        certificate, key = (each.replace(OWN_NAME, name) for each in (self.certificate, self.key))
        return TlsFiles(self.authority, certificate, key)

    def below(self, folder: Path) -> TlsSection:
        """Return the section with paths that begin at the root, or the folder of the process."""
        paths = {
            name: str(folder / getattr(self, name))
            for name in ("certificate", "key", "authority")
            if getattr(self, name)
        }
        return msgspec.structs.replace(self, **paths)


class TraceSection(Section):
    """The trace of live brokers.

    - `level`: "off"; "counters" (snapshots of tables, queues and counters); "sampled" (also rows
      about single publications, for a share of them); "full" (for all of them).
    - `directory`: the directory of the Parquet files.
    - `sample`: the share of the publications at level "sampled" (0 to 1).
    - `flush_s`: seconds between files.
    """

    level: str = "off"
    directory: str = "out/trace"
    sample: float = 0.01
    flush_s: float = 1.0


class LimitsSection(Section):
    """Limits of live brokers. A refusal names the key of its limit.

    - `credit`: how many unacknowledged publications a publisher may have at its broker.
    - `queue_limit`: how many publications may wait for a client before `queue_policy` acts, unless
      the client asks for fewer.
    - `queue_policy`: what happens then, unless the client asks for another policy: "drop_oldest"
      (the client learns how many were dropped), "disconnect" (with the reason), or "block" (its
      publishers wait until half of its queue is left).
    - `block_s`: how many seconds publishers wait with "block"; then the client is disconnected.
    - `link_high`: how many unacknowledged publications a link may have before the broker withholds
      credit from the publishers that feed it (until half of that is left).
    - `link_buffer`: how many publications are kept for a neighbour that is away.
    - `link_patience_s`: seconds until a neighbour that is away is given up.
    - `max_clients`: how many clients a broker serves, including those that lost their connection.
    - `session_s`: how many seconds a broker keeps the session of a client that lost its
      connection: its subscriptions, and the events for it (at most `queue_limit`).
    - `drain_s`: how many seconds a broker takes at most to empty its queues when it is told to
      stop.
    - `silence_s`: after how many seconds of silence the connection to a neighbour is given up,
      because it hangs or cannot be reached; its events wait as for a neighbour that is away.
    - `max_connections`: how many connections a broker has, of all kinds; 0: 256 more than
      `max_clients` and `max_greetings` together. Beyond that, new ones are turned away.
    - `max_greetings`: how many connections may wait for the end of their greeting; of more, the one
      that has waited longest is closed.
    - `max_user_connections`: how many connections of clients and operators one user has that has
      proved who it is; 0: no limit. Who shows the key of the network is no user.
    - `max_subscriptions`: how many subscriptions and advertisements a client has, and how many
      subscriptions a durable session.
    - `max_filter_bytes`: how many bytes the texts of their filters have together.
    - `filter_steps`: how much work a filter may be to read, to normalise and to put into indexes.
      A word, sign or value is a step, a comma half of one; a term of an OR is 8 more, BETWEEN is 3
      and + - * / are 2 more, a pattern is 30 and one for each 4 characters. A filter of 2 400 steps
      takes less than 20 ms. One that is written in an unusual way, or wrong, may have an eighth of
      the steps.
    - `filter_depth`: how many parentheses may stand around each other in a filter; 100 at most.
    - `name_chars`: how many characters the name of an attribute has in a filter. Names in a
      publication have no limit of their own: no filter can ask for a longer one.
    - `topic_chars`: how many characters a topic or a pattern of topics has that is asked for.
    - `publication_bytes`: how many bytes a client's publication has, with all that belongs to it:
      names and values of attributes, topics and payload.
    - `user_publications_per_s`: how many publications a user may send in a second at one broker,
      over all of its connections; 0: no limit. The broker withholds credit from a user that sends
      more, until the average is below. A client that has proved no user, or has shown the key of
      the network, counts by itself.
    - `user_bytes_per_s`: how many bytes of publications, likewise.
    - `user_searches_per_s`: how many MQTT clients of a user may have a broker search the network
      for their sessions in a second; 0: no limit. More wait for their CONNACK, up to 3 s, or are
      told to come again. Clients that have proved no user count together.
    - `queue_bytes`: how many bytes wait for clients, in all queues together, and were sent to
      clients that have not acknowledged them. Beyond that, the longest queue gives way: its oldest
      publications are dropped, which its client learns, or its client is disconnected if its
      policy is another.
    """

    credit: int = 4096
    queue_limit: int = 10_000
    queue_policy: str = "drop_oldest"
    block_s: float = 30.0
    link_high: int = 5_000
    link_buffer: int = 100_000
    link_patience_s: float = 60.0
    max_clients: int = 10_000
    session_s: float = 60.0
    drain_s: float = 8.0
    silence_s: float = 5.0
    max_connections: int = 0
    max_greetings: int = 2048
    max_user_connections: int = 1000
    max_subscriptions: int = 50_000
    max_filter_bytes: int = 8 << 20
    filter_steps: int = 2400
    filter_depth: int = 100
    name_chars: int = 200
    topic_chars: int = 1000
    publication_bytes: int = MAX_FRAME_BYTES
    user_publications_per_s: float = 0.0
    user_bytes_per_s: float = 0.0
    user_searches_per_s: float = 1000.0
    queue_bytes: int = 512 << 20


class OverloadSection(Section):
    """When a link between brokers counts as overloaded, for routings that avoid overloaded links:
    when `Q_len * (1 + Q_in) / (1 + Q_out) > tau` (OctopiA's equation 3). `Q_len` is the number
    of publications that wait for the link now; `Q_in` and `Q_out` are those that came and went
    in the last full window.

    - `tau`: the threshold, in waiting publications while as many go as come.
    - `window_s`: the paper's t_w, the length of a window in seconds.
    """

    tau: float = 10.0
    window_s: float = 0.05


class StatisticsSection(Section):
    """Statistics of the publications that a broker's clients got, for routings that decide by them
    (`covering = "incremental"`). A row is a publication that a subscription got.

    - `directory`: the directory, in which each broker has a file.
    - `window_s`: how many seconds a row counts.
    - `rows`: how many rows count, the latest, for each pair of a subscription and an
      advertisement.
    - `total`: how many rows a broker keeps in all.
    """

    directory: str = "out/statistics"
    window_s: float = 3600.0
    rows: int = 1000
    total: int = 1_000_000


class RequestsSection(Section):
    """The log of requests about the past, by which `reefcast plan placement --log` places storages.

    - `directory`: the directory of the log, for all brokers; empty: no log.
    - `flush_s`: seconds between files; rows not yet written are lost if a broker dies.
    - `keep_s`: seconds after which files are removed.
    """

    directory: str = ""
    flush_s: float = 60.0
    keep_s: float = 604_800.0


class SessionsSection(Section):
    """Durable sessions: what brokers keep for consumers that are away, and over restarts.

    - `directory`: the directory, in which each broker has a file; empty: brokers keep nothing on
      disk, and refuse durable sessions.
    - `fsync`: "always": what is confirmed survives a loss of power; "interval": it survives the
      death of the broker's process, and a loss of power may take what came in the last
      `fsync_interval_s`, although it was confirmed.
    - `fsync_interval_s`: seconds between syncs with "interval".
    - `dedup_s`: how many seconds a session remembers the ids of its events: a copy that comes later
      is delivered, marked as late.
    - `memory_bytes`: how many bytes of events that wait a broker keeps in memory; the rest is read
      from the disk when it is delivered.
    - `max_sessions`: how many durable sessions a broker has at most.
    - `custody_after_s`: seconds that a neighbour has to be away until a broker takes confirmed
      publications for it into custody, on its own disk, and advertisements go on without it.
    - `custody_bytes`: how many bytes of publications a broker has in custody at most, on disk and
      in memory; when it is full, confirmations wait until neighbours are back.
    - `advisories`: publish what happens to durable sessions, under topics that begin with
      `$reefcast/session/`, for administrators.
    """

    directory: str = ""
    fsync: Literal["always", "interval"] = "always"
    fsync_interval_s: float = 1.0
    dedup_s: float = 3600.0
    memory_bytes: int = 64 << 20
    max_sessions: int = 100_000
    custody_after_s: float = 2.0
    custody_bytes: int = 256 << 20
    advisories: bool = False


class RetainedSection(Section):
    """Retained values: the last publication of each key, which every broker has. The first three
    limits hold where a publisher retains something: what exceeds them is refused.

    - `max_values`: how many values the network has at most.
    - `max_bytes`: how many bytes they have together, as encoded publications.
    - `max_value_bytes`: how many bytes one of them has.
    - `tombstone_s`: how many seconds brokers remember that a key was cleared, or its value expired.
      A broker that is cut off for longer brings it back.
    - `max_ahead_s`: how many seconds a publisher's clock may be ahead of its broker's; what it
      retains would hide what others publish until then.
    """

    max_values: int = 1_000_000
    max_bytes: int = 256 << 20
    max_value_bytes: int = 1 << 20
    tombstone_s: float = 604_800.0
    max_ahead_s: float = 60.0


class LogSection(Section):
    """What brokers and storages log, on standard error. [Logs](logs.md) says what a line has.

    - `format`: "text", for people, or "json", for programs: either way one event a line.
    - `level`: log what is at least as important: "debug", "info", "warning" or "error".
    - `levels`: other levels for single parts, such as `{routing = "debug"}`.
    """

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "warning"
    levels: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """How to log. Raises `ConfigurationError` for a part or a level that there is not."""
        made = Settings(self.format, self.level, self.levels)
        made.check()
        return made


class SecuritySection(Section):
    """Who may connect. Without this section everybody on this machine may do everything. Paths are
    relative to the network file.

    - `users`: the file of the users who have a password, and of users' roles, written by `reefcast
      user`; brokers read it again when it changes. Empty: there are none.
    - `tokens`: the file with the keys that sign tokens (JWT): a JWK set, a public key in PEM, or a
      secret; read again when it changes. Empty: no tokens.
    - `issuer`: what the claim `iss` of a token must be; empty: anything.
    - `audience`: what must be in the claim `aud` of a token; empty: anything.
    - `roles_claim`: the claim of a token that names the user's roles: a list, or a text with spaces
      between them. The names of nested claims have dots between them.
    - `key`: the file with the key of the network (32 characters or more), by which brokers, peers
      and storages prove that they belong to it. Whoever has it may do everything.
    - `anonymous`: the roles of a client that proves nothing. Empty: it is refused.
    - `audit`: the directory of the audit log, in which each broker has a file; empty: no log.
    - `audit_bytes`: how long such a file becomes before the next one is begun.
    - `audit_files`: how many full files are kept.
    """

    users: str = ""
    tokens: str = ""
    issuer: str = ""
    audience: str = ""
    roles_claim: str = "roles"
    key: str = ""
    anonymous: list[str] = msgspec.field(default_factory=list)
    audit: str = ""
    audit_bytes: int = 10_000_000
    audit_files: int = 10

    def below(self, folder: Path) -> SecuritySection:
        """Return the section with the paths of files that are named from this folder."""
        names = {name: getattr(self, name) for name in ("users", "tokens", "key", "audit")}
        found = {name: str(folder / path) for name, path in names.items() if path}
        return msgspec.structs.replace(self, **found)


class AdminSection(Section):
    """The HTTP listeners for operators: the dashboard at `/`, `/metrics`, `/status`, `/healthz`,
    `/readyz`. With `[tls]` they speak TLS, and with `[security]` they ask who it is.

    - `listen`: the address (host:port) of each broker that says no other under `[[broker]]`, for
      brokers on machines of their own; empty: there is none. Off loopback it needs `[tls]` and
      `[security]`, or `insecure = true` in `[network]`.
    """

    listen: str = ""


class CertificateEntry(Section):
    """A client certificate that stands for a user.

    - `subject`: the whole subject of the certificate, such as "CN=billing, O=Reef", in any order.
    - `user`: the user.
    - `roles`: the user's roles; by default those in the users file.
    """

    subject: str
    user: str
    roles: list[str] = msgspec.field(default_factory=list)


class BrokerEntry(Section):
    """A broker of the network.

    - `name`: its name.
    - `listen`: its address, host:port.
    - `region`: its place in a SCOT: the label in the tree. Either all brokers have a region and a
      cluster, or none; the links must then be exactly those of the SCOT.
    - `cluster`: the index of its cluster in a SCOT, from 0.
    - `routing`: keys of `[routing]` with other values for this broker, such as `{covering =
      "lazy"}`.
    - `admin`: the address of its HTTP listener for operators, host:port, if not that of `[admin]`.
    """

    name: str
    listen: str = ""
    region: str | None = None
    cluster: int | None = None
    routing: dict[str, Any] = msgspec.field(default_factory=dict)
    admin: str = ""

    @property
    def address(self) -> tuple[str, int]:
        """Where the broker listens: host and port."""
        return address_in(self.listen, f"broker {self.name}: listen", "127.0.0.1:7301")

    @property
    def is_peer(self) -> bool:
        """Whether others need no file to find it: its name is its address."""
        return self.name == self.listen


class LinkEntry(Section):
    """A link between two brokers. All keys but `between` serve the simulator only.

    - `between`: the names of the two brokers.
    - `latency_s`: seconds that a message travels.
    - `bandwidth_mbit_per_s`: millions of bits a second.
    - `jitter_s`: the mean of an exponential extra delay, in seconds (the order is kept).
    """

    between: tuple[str, str]
    latency_s: float = 0.001
    bandwidth_mbit_per_s: float = 1000.0
    jitter_s: float = 0.0


class StorageEntry(Section):
    """A storage, as `reefcast storage` runs one.

    - `name`: its name; the id of its client is the name with a random part.
    - `broker`: the broker to which it connects.
    - `topics`: the topics that it keeps, as names and MQTT patterns.
    - `directory`: the directory of its history, relative to where it is started; no other storage
      may use it.
    - `index`: attributes by which events can be looked up, each with its kind, for instance
      `{price = "number"}`.
    - `lifetime_s`: seconds after which it forgets events; by default never.
    - `most`: how many events it keeps, the newest; by default all.
    - `seal_after_s`: seconds from the end of a day (UTC) until it moves the day to a Parquet file.
    - `forget`: delete topics that it no longer keeps.
    - `joining`: topics that it takes over from other storages: it does not answer for them before
      it has everything that these have. `reefcast network move-storages` adds and removes them.
    - `admin`: the address of its HTTP listener for operators, host:port; empty: it has none. Off
      loopback it needs what `[admin]` needs.
    - `session`: the name of a durable session from which it gets new events, at its broker, which
      needs a directory in `[sessions]`: then a publication is confirmed when it is there, and is
      stored whatever is killed. Empty: it subscribes, and stores what comes while it is connected.
    """

    name: str
    broker: str
    topics: list[str]
    directory: str
    index: dict[str, str] = msgspec.field(default_factory=dict)
    lifetime_s: float | None = None
    most: int | None = None
    seal_after_s: float = 3600.0
    forget: bool = False
    joining: list[str] = msgspec.field(default_factory=list)
    admin: str = ""
    session: str = ""

    @property
    def admin_address(self) -> tuple[str, int] | None:
        """Where its HTTP listener for operators is: host and port; None if it has none."""
        if not self.admin:
            return None
        return address_in(self.admin, f"storage {self.name}: admin", "127.0.0.1:9466")

    @property
    def complete(self) -> list[str]:
        """The topics of which it has all that there is."""
        return [topic for topic in self.topics if topic not in self.joining]


class RoleEntry(Section):
    """What users with a role may publish, see and do. Filters may use values of the user:
    `${user}`, and `${claims.NAME}` of his token. Only users that prove who they are have roles; a
    client of a network without security may do everything.

    - `name`: its name.
    - `publish`: a filter of what they may publish; by default nothing; "TRUE": everything.
    - `subscribe`: a filter of what they may see, in whatever way; by default nothing; "TRUE":
      everything.
    - `rights`: rights of administration: "status" (ask brokers for their status, list the durable
      sessions of others, subscribe to advisory events), "move" (move links), "place" (be a
      storage), "drain" (have a broker hand its clients to others; give up what a broker keeps for a
      neighbour; consume, change and end durable sessions of others), "apply" (have brokers read
      their network file again).
    """

    name: str
    publish: str | None = None
    subscribe: str | None = None
    rights: list[str] = msgspec.field(default_factory=list)


SECTIONS: dict[str, type[Section]] = {
    "[network]": NetworkSection,
    "[tls]": TlsSection,
    "[trace]": TraceSection,
    "[limits]": LimitsSection,
    "[overload]": OverloadSection,
    "[statistics]": StatisticsSection,
    "[requests]": RequestsSection,
    "[sessions]": SessionsSection,
    "[retained]": RetainedSection,
    "[log]": LogSection,
    "[security]": SecuritySection,
    "[admin]": AdminSection,
    "[[certificate]]": CertificateEntry,
    "[[broker]]": BrokerEntry,
    "[[listener]]": ListenerEntry,
    "[[link]]": LinkEntry,
    "[[storage]]": StorageEntry,
    "[[role]]": RoleEntry,
}
"""The section classes by their titles in the file. `[routing]` is defined by the routing."""
