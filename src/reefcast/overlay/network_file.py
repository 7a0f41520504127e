"""The network file: one TOML file that describes a whole overlay, live or simulated.

Every parameter states its unit and meaning here; `load_network` refuses what contradicts itself
with a sentence that says where.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from reefcast.errors import ConfigurationError
from reefcast.model.trace import LEVELS
from reefcast.overlay.scot import Place, Scot, scot_of
from reefcast.overlay.topology import Graph, graph, is_connected, is_tree

QUEUE_POLICIES = ("block", "drop_oldest", "disconnect")
TREE_ROUTINGS = frozenset({"acyclic"})
SCOT_ROUTINGS = frozenset({"spr", "idr"})


class _Section(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of the file: a key that is not known is an error, not a silent nothing."""


class NetworkSection(_Section):
    """`name`: brokers of different networks refuse one another. `routing`: see `routing.registry`.
    `insecure`: listen on other than loopback addresses although there is no TLS."""

    name: str = "reefcast"
    routing: str = "acyclic"
    insecure: bool = False


class TraceSection(_Section):
    """`level`: one of `model.trace.LEVELS`. `directory`: where the Parquet goes. `sample`: share of
    the publications that level "sampled" writes down (0 to 1). `flush_s`: seconds between files."""

    level: str = "off"
    directory: str = "out/trace"
    sample: float = 0.01
    flush_s: float = 1.0


class LimitsSection(_Section):
    """Limits of live brokers.

    `credit`: publications that a publisher may have under way at its broker. `queue_limit`:
    publications that wait for one subscriber before `queue_policy` acts. `link_high`: publications
    not yet acknowledged on a broker link above which the credits of those who feed it are withheld
    (until half of that is left). `link_buffer`: publications kept for a neighbour that is away.
    `link_patience_s`: seconds until a neighbour that is away is given up. `max_clients`:
    connections of clients. `session_s`: seconds for which a broker remembers how much it has taken
    from a client that lost its connection. `drain_s`: seconds that a broker takes at most to
    empty its queues when it is told to stop."""

    credit: int = 4096
    queue_limit: int = 10_000
    queue_policy: str = "block"
    link_high: int = 5_000
    link_buffer: int = 100_000
    link_patience_s: float = 60.0
    max_clients: int = 10_000
    session_s: float = 60.0
    drain_s: float = 5.0


class OverloadSection(_Section):
    """When a link between brokers counts as overloaded, for the routings that go round it: when
    `Q_len * (1 + Q_in) / (1 + Q_out) > tau` (OctopiA's equation 3). `Q_len`: publications that
    wait for the link now; `Q_in`, `Q_out`: those that came and went in the last full window.

    `tau`: the threshold, in publications waiting while as many go as come. `window_ms`: the
    paper's t_w, milliseconds from one count of `Q_in` and `Q_out` to the next."""

    tau: float = 10.0
    window_ms: float = 50.0


class BrokerEntry(_Section):
    """`listen`: host:port. `region`, `cluster`: the broker's place in a SCOT (see
    `overlay.scot`), a label of the tree and a cluster index from 0; all brokers have both or
    none, and the links must then be exactly those of the SCOT."""

    name: str
    listen: str = ""
    region: str | None = None
    cluster: int | None = None


class LinkEntry(_Section):
    """`between`: two brokers. The other three serve the simulator only: the link's latency, its
    bandwidth, and the mean of an exponential extra delay (order on the link is kept)."""

    between: tuple[str, str]
    latency_ms: float = 1.0
    bandwidth_mbit_per_s: float = 1000.0
    jitter_ms: float = 0.0


class NetworkFile(_Section, kw_only=True):
    """A whole overlay; see `load_network`."""

    network: NetworkSection = msgspec.field(default_factory=NetworkSection)
    trace: TraceSection = msgspec.field(default_factory=TraceSection)
    limits: LimitsSection = msgspec.field(default_factory=LimitsSection)
    overload: OverloadSection = msgspec.field(default_factory=OverloadSection)
    broker: list[BrokerEntry]
    link: list[LinkEntry] = msgspec.field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self.broker]

    def graph(self) -> Graph:
        return graph(self.names, (entry.between for entry in self.link))

    def neighbours(self, name: str) -> list[str]:
        """Sorted; raises `ConfigurationError` for an unknown broker."""
        self.entry(name)
        return self.graph()[name]

    def entry(self, name: str) -> BrokerEntry:
        for entry in self.broker:
            if entry.name == name:
                return entry
        raise ConfigurationError(
            f"there is no broker named {name!r}; the file has {', '.join(self.names)}"
        )

    def address(self, name: str) -> tuple[str, int]:
        """Where the broker listens: host and port."""
        return _split_address(self.entry(name))

    def scot(self) -> Scot | None:
        """The SCOT that the brokers' regions and clusters say; None where they say nothing.

        Raises `ConfigurationError`, naming the property of a SCOT that does not hold."""
        places: dict[str, Place] = {}
        for entry in self.broker:
            if entry.region is not None and entry.cluster is not None:
                places[entry.name] = Place(entry.region, entry.cluster)
            elif entry.region is not None or entry.cluster is not None:
                raise ConfigurationError(
                    f"broker {entry.name} has a region or a cluster alone; give both or none"
                )
        return scot_of(self.graph(), places) if places else None

    def validate(self) -> NetworkFile:
        """Raises `ConfigurationError` for what contradicts itself; returns itself."""
        _check_brokers(self)
        _check_overlay(self)
        _check_numbers(self)
        return self


def _split_address(entry: BrokerEntry) -> tuple[str, int]:
    host, _, port = entry.listen.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigurationError(
            f"broker {entry.name}: listen = {entry.listen!r} is not host:port, "
            'for instance "127.0.0.1:7301"'
        )
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_brokers(network: NetworkFile) -> None:
    if not network.broker:
        raise ConfigurationError("the network file has no [[broker]]")
    seen: dict[str, str] = {}
    for entry in network.broker:
        if not entry.name or entry.name in seen:
            raise ConfigurationError(
                f"broker name {entry.name!r} is empty or given twice; names must be unique"
            )
        if "/" in entry.name:
            raise ConfigurationError(f"broker name {entry.name!r} holds a '/': files bear it")
        seen[entry.name] = entry.listen
        if entry.listen:
            host, _ = _split_address(entry)
            if not network.network.insecure and not is_loopback(host):
                raise ConfigurationError(
                    f"broker {entry.name} would listen on {host}, which others can reach: "
                    "listen on 127.0.0.1, or set insecure = true in [network]"
                )
    addresses = [listen for listen in seen.values() if listen]
    if len(set(addresses)) < len(addresses):
        raise ConfigurationError("two brokers have the same listen address")


def _check_overlay(network: NetworkFile) -> None:
    overlay = network.graph()
    if not is_connected(overlay):
        raise ConfigurationError("the overlay is not connected: some brokers cannot be reached")
    if network.network.routing in TREE_ROUTINGS and not is_tree(overlay):
        raise ConfigurationError(
            f"routing {network.network.routing!r} needs a tree, but {len(network.link)} links "
            f'between {len(network.broker)} brokers make cycles; use routing = "flooding", '
            "or remove links"
        )
    if network.scot() is None and network.network.routing in SCOT_ROUTINGS:
        raise ConfigurationError(
            f"routing {network.network.routing!r} needs a SCOT (Label Order property): give every "
            "[[broker]] its region and cluster; `reefcast topology scot` writes such a file"
        )


def _check_numbers(network: NetworkFile) -> None:
    trace, limits = network.trace, network.limits
    if trace.level not in LEVELS:
        raise ConfigurationError(f"trace level {trace.level!r} is none of {', '.join(LEVELS)}")
    if not 0 <= trace.sample <= 1:
        raise ConfigurationError(f"trace sample = {trace.sample} is not a share between 0 and 1")
    if limits.queue_policy not in QUEUE_POLICIES:
        raise ConfigurationError(
            f"queue_policy {limits.queue_policy!r} is none of {', '.join(QUEUE_POLICIES)}"
        )
    for section in (trace, limits, network.overload, *network.link):
        for field in msgspec.structs.fields(section):
            value = getattr(section, field.name)
            if isinstance(value, float) and not isfinite(value):
                raise ConfigurationError(f"{field.name} = {value} must be a finite number")
            may_be_zero = field.name in ("jitter_ms", "latency_ms", "sample", "drain_s")
            if isinstance(value, (int, float)) and (value < 0 or (value == 0 and not may_be_zero)):
                raise ConfigurationError(f"{field.name} = {value} must be above 0")


def read_network(data: bytes | str) -> NetworkFile:
    """A network from TOML text; raises `ConfigurationError` saying where it is wrong."""
    try:
        network = msgspec.toml.decode(data, type=NetworkFile)
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigurationError(f"the network file cannot be read: {error}") from error
    return network.validate()


def load_network(file: Path | str) -> NetworkFile:
    """A network from a file; raises `ConfigurationError` naming the file."""
    try:
        return read_network(Path(file).read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from error


def scot_network(
    made: Scot, listen: Iterable[str], *, name: str = "reefcast", routing: str = "idr"
) -> NetworkFile:
    """The network of a SCOT. `listen`: the brokers' addresses, in the order of `made.graph`.

    Raises `ConfigurationError` for a name or an address that cannot be."""
    brokers = [
        BrokerEntry(broker, address, made.places[broker].region, made.places[broker].cluster)
        for broker, address in zip(made.graph, listen, strict=True)
    ]
    links = [LinkEntry(between=edge) for edge in (*made.a_links, *made.i_links)]
    section = NetworkSection(name=name, routing=routing)
    return NetworkFile(network=section, broker=brokers, link=links).validate()


def dump_network(network: NetworkFile) -> str:
    """The network as TOML text that `read_network` takes."""
    plain: dict[str, Any] = msgspec.to_builtins(network)
    lines: list[str] = []
    for name in ("network", "trace", "limits", "overload"):
        lines += [f"[{name}]", *_toml_lines(plain[name]), ""]
    for name in ("broker", "link"):
        for entry in plain[name]:
            lines += [f"[[{name}]]", *_toml_lines(entry), ""]
    return "\n".join(lines)


def _toml_lines(section: dict[str, Any]) -> list[str]:
    # A JSON string, number, list and boolean are written alike in TOML, which has no null.
    return [
        f"{key} = {msgspec.json.encode(value).decode()}"
        for key, value in section.items()
        if value is not None
    ]
