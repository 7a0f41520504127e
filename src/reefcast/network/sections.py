"""The sections of a network file; each parameter states its unit and meaning here."""

from __future__ import annotations

from typing import Any

import msgspec

from reefcast.errors import ConfigurationError


class Section(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of the file: a key that is not known is an error, not a silent nothing."""


class NetworkSection(Section):
    """`name`: brokers of different networks refuse one another. `routing`: one of
    `routing.registry`, or `my_module:MyRouting`; its parameters, if it has any, are the keys of
    `[routing]`. `insecure`: listen on other than loopback addresses although there is no TLS."""

    name: str = "reefcast"
    routing: str = "acyclic"
    insecure: bool = False


class TraceSection(Section):
    """`level`: one of `traces.vocabulary.LEVELS`. `directory`: where the Parquet goes. `sample`:
    share of the publications that level "sampled" writes down (0 to 1). `flush_s`: seconds between
    files."""

    level: str = "off"
    directory: str = "out/trace"
    sample: float = 0.01
    flush_s: float = 1.0


class LimitsSection(Section):
    """Limits of live brokers.

    `credit`: publications that a publisher may have under way at its broker. `queue_limit`:
    publications that wait for one subscriber before `queue_policy` acts, unless the subscriber asks
    for less, or for another policy: "drop_oldest" (the subscriber is told how many were dropped),
    "disconnect" (with a word), or "block" (those who publish for it wait until half of its queue is
    left). `block_s`: seconds for which they wait at most; then the subscriber is disconnected.
    `link_high`: publications not yet acknowledged on a broker link above which the credits of those
    who feed it are withheld (until half of that is left). `link_buffer`: publications kept for a
    neighbour that is away. `link_patience_s`: seconds until a neighbour that is away is given up.
    `max_clients`: clients, with those whose connections are lost. `session_s`: seconds for which a
    broker keeps the session of a client that lost its connection: what it subscribed to, and what
    comes for it (at most `queue_limit`).
    `drain_s`: seconds that a broker takes at most to empty its queues when it is told to stop.
    `silence_s`: seconds without a word after which the connection to a neighbour is given up, as
    that hangs or cannot be reached; what is for it waits as for one that is away."""

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


class OverloadSection(Section):
    """When a link between brokers counts as overloaded, for the routings that go round it: when
    `Q_len * (1 + Q_in) / (1 + Q_out) > tau` (OctopiA's equation 3). `Q_len`: publications that
    wait for the link now; `Q_in`, `Q_out`: those that came and went in the last full window.

    `tau`: the threshold, in publications waiting while as many go as come. `window_s`: the
    paper's t_w, seconds from one count of `Q_in` and `Q_out` to the next."""

    tau: float = 10.0
    window_s: float = 0.05


class StatisticsSection(Section):
    """What a broker remembers of the publications that its clients got, for the routings that
    decide by it (`covering = "incremental"`).

    `directory`: where each broker has a file of its own. A row is a publication that a subscription
    got. `window_s`: seconds for which it counts; `rows`: the latest that count for a subscription
    and an advertisement; `total`: rows that a broker keeps."""

    directory: str = "out/statistics"
    window_s: float = 3600.0
    rows: int = 1000
    total: int = 1_000_000


class RequestsSection(Section):
    """The log of requests about the past, from which `reefcast plan placement --log` computes where
    storages should stand: each live broker writes down what its clients ask for.

    `directory`: where, for all brokers; empty: nowhere. `flush_s`: seconds between files; what was
    not written is lost where a broker dies. `keep_s`: seconds after which files are removed."""

    directory: str = ""
    flush_s: float = 60.0
    keep_s: float = 604_800.0


class BrokerEntry(Section):
    """`listen`: host:port. `region`, `cluster`: the broker's place in a SCOT (see
    `overlay.scot`), a label of the tree and a cluster index from 0; all brokers have both or
    none, and the links must then be exactly those of the SCOT. `routing`: keys of `[routing]` that
    this broker has otherwise, for instance `{covering = "lazy"}`."""

    name: str
    listen: str = ""
    region: str | None = None
    cluster: int | None = None
    routing: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def address(self) -> tuple[str, int]:
        """Where the broker listens: host and port."""
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigurationError(
                f"broker {self.name}: listen = {self.listen!r} is not host:port, "
                'for instance "127.0.0.1:7301"'
            )
        return host.strip("[]"), int(port)

    @property
    def is_peer(self) -> bool:
        """Whether others need no file to find it: its name is its address."""
        return self.name == self.listen


class LinkEntry(Section):
    """`between`: two brokers. The other three serve the simulator only. `latency_s`: seconds on the
    way; `bandwidth_mbit_per_s`: millions of bits that leave in a second; `jitter_s`: mean seconds
    of an exponential extra delay (order on the link is kept)."""

    between: tuple[str, str]
    latency_s: float = 0.001
    bandwidth_mbit_per_s: float = 1000.0
    jitter_s: float = 0.0


class StorageEntry(Section):
    """A storage, as `reefcast storage` runs one. `name`: what brokers call it; its client's id has
    a random part behind that. `broker`: where it attaches. `topics`: names, and patterns as MQTT
    has them. `directory`: where its history is kept, its own, as seen from where it is started.
    `index`: attributes to look events up by, each with its kind, for instance
    `{price = "number"}`.
    `lifetime_s`: seconds after which events are forgotten, by default never; `most`: events that it
    keeps, the newest, by default all.
    `seal_after_s`: seconds from the end of a day (UTC) until it is moved into a Parquet file.
    `forget`: what it has of topics that it does not keep any more is removed. `joining`: those of
    its topics that it takes over from other storages, and does not answer for before it has all
    that those have; `reefcast network move-storages` writes it, and removes it in the end."""

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

    @property
    def complete(self) -> list[str]:
        """The topics of which it has all that there is."""
        return [topic for topic in self.topics if topic not in self.joining]


SECTIONS: dict[str, type[Section]] = {
    "[network]": NetworkSection,
    "[trace]": TraceSection,
    "[limits]": LimitsSection,
    "[overload]": OverloadSection,
    "[statistics]": StatisticsSection,
    "[requests]": RequestsSection,
    "[[broker]]": BrokerEntry,
    "[[link]]": LinkEntry,
    "[[storage]]": StorageEntry,
}
"""By the title that each has in the file. `[routing]` is what the routing makes of it."""


def check_keys(given: object, section: type[msgspec.Struct], where: str) -> None:
    """Raise `ConfigurationError` for a key that the section does not have, and say which it has.
    What is no table at all is left for others to refuse."""
    known = [field.name for field in msgspec.structs.fields(section)]
    for key in given if isinstance(given, dict) else ():
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigurationError(f"{where} has no key {key!r}; {has}")


def check_choices(given: dict[str, Any], section: type[msgspec.Struct], where: str) -> None:
    """Raise `ConfigurationError` for a value that its key cannot have, and say which it can
    have."""
    info = msgspec.inspect.type_info(section)
    for field in info.fields if isinstance(info, msgspec.inspect.StructType) else ():
        if field.name in given and isinstance(field.type, msgspec.inspect.LiteralType):
            value, choices = given[field.name], field.type.values
            if value not in choices:
                named = ", ".join(f'"{choice}"' for choice in choices)
                raise ConfigurationError(f"{where} {field.name} = {value!r} is none of {named}")
