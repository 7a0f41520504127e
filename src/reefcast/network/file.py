"""The network file: one TOML file that describes a whole network, live or simulated.

A file that contradicts itself, or has an unknown key, is refused with a sentence that says where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from reefcast.errors import ConfigurationError
from reefcast.model.wire import QUEUE_POLICIES
from reefcast.network.admin_addresses import EVERYWHERE, AdminAddress, check_admin
from reefcast.network.checks import Section, address_in, check_choices, check_keys, check_numbers
from reefcast.network.listeners import ListenerEntry, TakenAddress, check_listeners
from reefcast.network.roles import grants_of
from reefcast.network.sections import (
    SECTIONS,
    AdminSection,
    BrokerEntry,
    CertificateEntry,
    LimitsSection,
    LinkEntry,
    LogSection,
    NetworkSection,
    OverloadSection,
    RequestsSection,
    RetainedSection,
    RoleEntry,
    SecuritySection,
    SessionsSection,
    StatisticsSection,
    StorageEntry,
    TlsSection,
    TraceSection,
)
from reefcast.network.storages import check_storages
from reefcast.network.subjects import subject_of
from reefcast.network.toml_text import TIMES, toml_lines
from reefcast.overlay.scot import Place, Scot, scot_of
from reefcast.overlay.topology import Graph, graph
from reefcast.protocol.privacy import is_loopback
from reefcast.routing.covering.statistics import Window
from reefcast.routing.links import Overload
from reefcast.routing.registry import check_overlay, routing_named
from reefcast.routing.router import RoutingOptions, Shape
from reefcast.traces.vocabulary import LEVELS

_TABLES = (
    *("network", "tls", "security", "routing", "trace", "limits", "overload"),
    *("statistics", "requests", "sessions", "retained", "log", "admin"),
)
"""The sections that stand once in a file, in the order in which they are written."""


class NetworkFile(Section, kw_only=True):
    """A whole overlay; see `load_network`."""

    network: NetworkSection = msgspec.field(default_factory=NetworkSection)
    tls: TlsSection = msgspec.field(default_factory=TlsSection)
    trace: TraceSection = msgspec.field(default_factory=TraceSection)
    limits: LimitsSection = msgspec.field(default_factory=LimitsSection)
    overload: OverloadSection = msgspec.field(default_factory=OverloadSection)
    routing: dict[str, Any] = msgspec.field(default_factory=dict)
    statistics: StatisticsSection = msgspec.field(default_factory=StatisticsSection)
    requests: RequestsSection = msgspec.field(default_factory=RequestsSection)
    sessions: SessionsSection = msgspec.field(default_factory=SessionsSection)
    retained: RetainedSection = msgspec.field(default_factory=RetainedSection)
    log: LogSection = msgspec.field(default_factory=LogSection)
    admin: AdminSection = msgspec.field(default_factory=AdminSection)
    security: SecuritySection | None = None
    certificate: list[CertificateEntry] = msgspec.field(default_factory=list)
    broker: list[BrokerEntry] = msgspec.field(default_factory=list)
    listener: list[ListenerEntry] = msgspec.field(default_factory=list)
    link: list[LinkEntry] = msgspec.field(default_factory=list)
    storage: list[StorageEntry] = msgspec.field(default_factory=list)
    role: list[RoleEntry] = msgspec.field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self.broker]

    def graph(self) -> Graph:
        return graph(self.names, (entry.between for entry in self.link))

    def neighbours(self, name: str) -> list[str]:
        """Return the broker's neighbours, sorted. Raises `ConfigurationError` for an unknown
        broker."""
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
        """Return the address on which the broker or the peer listens: host and port."""
        return (self._peer(name) or self.entry(name)).address

    def admin_address(self, name: str) -> tuple[str, int] | None:
        """Return the address of a broker's HTTP listener for operators: host and port; None if it
        has none."""
        own = self.entry(name).admin if name in self.names else ""
        where = f"broker {name}: admin" if own else "[admin] listen"
        listen = own or self.admin.listen
        return address_in(listen, where, "127.0.0.1:9464") if listen else None

    def is_node(self, name: str) -> bool:
        """Return whether this is the name of a broker, or can be that of a peer."""
        return name in self.names or self._peer(name) is not None

    def _peer(self, name: str) -> BrokerEntry | None:
        """Return the entry of a *peer*, a broker that is in no file: its name is its address. Only
        where brokers find each other, and at addresses that brokers may have."""
        entry = BrokerEntry(name=name, listen=name)
        if name in self.names or routing_named(self.network.routing).overlay is not Shape.NONE:
            return None
        try:
            host, _ = entry.address
        except ConfigurationError:
            return None
        return entry if self.may_be_reached or is_loopback(host) else None

    @property
    def may_be_reached(self) -> bool:
        """Whether brokers may listen where other machines reach them."""
        return self.tls.on or self.network.insecure

    @property
    def has_users(self) -> bool:
        """Whether clients may be of several users, so that none may use another's id."""
        return self.security is not None or self.tls.on

    def for_peers(self) -> NetworkFile:
        """Return what a peer must know of this network: what holds for all, the brokers in the
        file, and whether clients must prove who they are: an empty `[security]`, for the files of
        users are on the brokers' machines, and `clients` of `[tls]`."""
        section = NetworkSection(name=self.network.name, routing=self.network.routing)
        brokers = [BrokerEntry(each.name, each.listen) for each in self.broker if not each.is_peer]
        return NetworkFile(
            network=section,
            tls=TlsSection(clients=self.tls.clients),
            routing=self.routing,
            broker=brokers,
            security=None if self.security is None else SecuritySection(),
        )

    def scot(self) -> Scot | None:
        """Return the SCOT that the brokers' regions and clusters describe; None if they have none.

        Raises `ConfigurationError`, naming the property of a SCOT that does not hold.
        """
        places: dict[str, Place] = {}
        for entry in self.broker:
            if entry.region is not None and entry.cluster is not None:
                places[entry.name] = Place(entry.region, entry.cluster)
            elif entry.region is not None or entry.cluster is not None:
                raise ConfigurationError(
                    f"broker {entry.name} has only a region or only a cluster; give both or none"
                )
        return scot_of(self.graph(), places) if places else None

    def routing_options(self, broker: str = "") -> RoutingOptions:
        """Return the options under `[routing]`, for all brokers or for this one. Raises
        `ConfigurationError` for options that the routing does not have."""
        routing = self.network.routing
        own = self.entry(broker).routing if broker else {}
        where = f"routing of broker {broker}" if own else "[routing]"
        where, given = f"{where}, for routing {routing!r}", self.routing | own
        options = routing_named(routing).options
        check_keys(given, options, f"{where},")
        check_choices(given, options, f"{where}:")
        try:
            return msgspec.convert(given, options)
        except (msgspec.ValidationError, ConfigurationError) as error:
            raise ConfigurationError(f"{where}: {error}") from error

    def statistics_window(self) -> Window:
        """Return which rows of statistics count."""
        section = self.statistics
        return Window(section.window_s, section.rows, section.total)

    def overload_limit(self) -> Overload:
        """Return when a link counts as overloaded."""
        return Overload(self.overload.tau, self.overload.window_s)

    def validate(self) -> NetworkFile:
        """Return the network itself. Raises `ConfigurationError` if it contradicts itself."""
        _check_brokers(self)
        _check_overlay(self)
        _check_tls(self)
        _check_advisories(self)
        _check_security(self)
        listens = {entry.listen for entry in self.broker}
        check_admin(_admin_addresses(self), listens, _lacks_for_admin(self))
        _check_listeners(self)
        _check_numbers(self)
        _ = self.log.settings
        check_storages(self.storage, self.names)
        grants_of(self.role)
        return self


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
            raise ConfigurationError(
                f"broker name {entry.name!r} contains a '/'; files are named after brokers"
            )
        seen[entry.name] = entry.listen
        if entry.listen:
            host, _ = entry.address
            if not network.may_be_reached and not is_loopback(host):
                raise ConfigurationError(
                    f"broker {entry.name} would listen on {host}, which others can reach: give the "
                    "file a section [tls] (reefcast certificates make), listen on 127.0.0.1, or "
                    "set insecure = true in [network]"
                )
    addresses = [listen for listen in seen.values() if listen]
    if len(set(addresses)) < len(addresses):
        twice = next(each for each in addresses if addresses.count(each) > 1)
        raise ConfigurationError(
            f"two brokers have the same listen address {twice}; give each one of its own"
        )


def _check_tls(network: NetworkFile) -> None:
    tls = network.tls
    if bool(tls.certificate) is not bool(tls.authority) or (tls.key and not tls.certificate):
        given = [name for name in ("certificate", "key", "authority") if getattr(tls, name)]
        raise ConfigurationError(
            f"[tls] has only {' and '.join(given)}: give certificate, key and authority, or none"
        )
    if tls.on and network.network.insecure:
        raise ConfigurationError(
            "insecure = true in [network] is for networks without [tls]: remove one of them"
        )
    if not tls.on and tls.clients != "none":
        raise ConfigurationError(
            f'[tls] has clients = "{tls.clients}", but no certificate and no authority'
        )
    both = {entry.name: entry for entry in network.storage if entry.name in set(network.names)}
    for name, entry in sorted(both.items()):
        if tls.on or entry.admin:
            shared = "certificates" if tls.on else "audit logs"
            raise ConfigurationError(
                f"a storage and a broker have the name {name!r}, so their {shared} would be one "
                "file: give the storage another name"
            )


def _check_overlay(network: NetworkFile) -> None:
    overlay = network.graph()
    check_overlay(network.network.routing, overlay, network.scot())
    for name in ("", *network.names):
        network.routing_options(name).check_brokers(network.names, network.is_node)
    network.statistics_window()


def _check_advisories(network: NetworkFile) -> None:
    if not network.sessions.advisories:
        return
    if not network.sessions.directory:
        raise ConfigurationError(
            "advisories = true in [sessions] is about durable sessions, which need a directory: "
            'give [sessions] one, such as directory = "sessions"'
        )
    routing = network.network.routing
    if routing_named(routing).overlay is Shape.NONE:
        raise ConfigurationError(
            f"routing {routing!r} carries no advisory events, for its subscribers name whole "
            "topics only: set advisories = false in [sessions], or use a routing with links, such "
            "as acyclic"
        )


def _check_security(network: NetworkFile) -> None:
    security = network.security
    if security is None:
        if network.certificate:
            raise ConfigurationError(
                "[[certificate]] says who users are, which needs a [security] section"
            )
        return
    alone = len(network.broker) < 2 and not network.storage
    if not (security.key or network.tls.on or alone):
        raise ConfigurationError(
            "[security] has no key, by which brokers and storages prove that they belong to this "
            "network: make one with `openssl rand -hex 32 > network.key`, and set "
            'key = "network.key"; or use TLS (reefcast certificates make)'
        )
    if security.audit_bytes < 1 or security.audit_files < 0:
        raise ConfigurationError("[security] audit_bytes must be above 0, audit_files 0 or more")
    if network.certificate and network.tls.clients == "none":
        raise ConfigurationError(
            "a [[certificate]] says who a client is, and [tls] asks clients for none: set clients "
            'to "optional" or "required"'
        )
    known = {entry.name for entry in network.role}
    used = {*security.anonymous, *(role for each in network.certificate for role in each.roles)}
    if known and used - known:
        raise ConfigurationError(
            f"there is no [[role]] named {min(used - known)!r}, which [security] anonymous or a "
            "[[certificate]] gives"
        )
    subjects = [subject_of(entry.subject) for entry in network.certificate]
    if len(set(subjects)) < len(subjects):
        raise ConfigurationError("two [[certificate]]s have the same subject")


def _admin_addresses(network: NetworkFile) -> Iterator[AdminAddress]:
    for broker in network.broker:
        address = network.admin_address(broker.name)
        if address is not None:
            machine = _machine(broker)
            text = broker.admin or network.admin.listen
            yield AdminAddress("broker", broker.name, text, address, machine)
    hosts = {entry.name: entry.address[0] for entry in network.broker if entry.listen}
    for storage in network.storage:
        address = storage.admin_address
        if address is not None:
            # The file does not say where a storage runs. One that listens on all addresses of its
            # machine may have a machine of its own; others are taken to be beside their brokers.
            beside = hosts.get(storage.broker, storage.broker)
            machine = storage.name if address[0] in EVERYWHERE else beside
            yield AdminAddress("storage", storage.name, storage.admin, address, machine)


def _machine(broker: BrokerEntry) -> str:
    """Return where a broker runs, as far as the file says."""
    return broker.address[0] if broker.listen else broker.name


def _check_listeners(network: NetworkFile) -> None:
    if not network.listener:
        return
    of_mqtt = [each.where for each in network.listener if each.protocol == "mqtt"]
    where, routing = of_mqtt[0] if of_mqtt else "", network.network.routing
    if of_mqtt and not network.sessions.directory:
        raise ConfigurationError(
            f"{where}: MQTT needs durable sessions, and these a directory: give [sessions] one, "
            'such as directory = "sessions"'
        )
    if of_mqtt and routing_named(routing).overlay is Shape.NONE:
        raise ConfigurationError(
            f"{where}: MQTT needs durable sessions, which routing {routing!r} does not have: use a "
            "routing with links, such as acyclic"
        )
    machines = {each.name: _machine(each) for each in network.broker}
    taken = [
        TakenAddress(machines[each.name], each.address, f"listen of broker {each.name}")
        for each in network.broker
        if each.listen
    ]
    taken += [
        TakenAddress(each.machine, each.address, f"the admin address of {each.who}")
        for each in _admin_addresses(network)
    ]
    check_listeners(
        network.listener,
        machines,
        taken,
        has_tls=network.tls.on,
        insecure=network.network.insecure,
    )


def _lacks_for_admin(network: NetworkFile) -> list[str]:
    """Return in words what the file lacks before others may reach what shows the status."""
    if network.network.insecure:
        return []
    needed = {
        "a section [tls] (reefcast certificates make)": network.tls.on,
        "a section [security] with users or tokens": network.security is not None,
    }
    return [words for words, there in needed.items() if not there]


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
    sections = (
        *(trace, limits, network.overload, network.requests, network.sessions, network.retained),
        *network.link,
    )
    check_numbers(sections)


def read_network(data: bytes | str) -> NetworkFile:
    """Parse a network from TOML text and validate it. Raises `ConfigurationError` that says where
    it is wrong."""
    return parse_network(data).validate()


def parse_network(data: bytes | str) -> NetworkFile:
    """Parse a network from TOML text without validating it, so that something may be added."""
    try:
        plain = msgspec.toml.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the network file cannot be read: {error}") from error
    return network_of(plain)


def network_of(plain: dict[str, Any]) -> NetworkFile:
    """Return the network that a file with these sections describes, without validating it. Raises
    `ConfigurationError` that says where it is wrong."""
    try:
        _check_all_keys(plain)
        return msgspec.convert(plain, NetworkFile)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the network file cannot be read: {error}") from error


def _check_all_keys(plain: dict[str, Any]) -> None:
    check_keys(plain, NetworkFile, "the network file")
    for title, section in SECTIONS.items():
        given = plain.get(title.strip("[]"), [])
        for each in given if isinstance(given, list) else [given]:
            check_keys(each, section, title)
            if isinstance(each, dict):
                check_choices(each, section, title)


def load_network(file: Path | str) -> NetworkFile:
    """Load a network from a file; the other files that it names are found from there. Raises
    `ConfigurationError`, which names the file."""
    try:
        network = read_network(Path(file).read_bytes())
        folder = Path(file).absolute().parent
        network.tls = network.tls.below(folder)
        if network.security is not None:
            network.security = network.security.below(folder)
        return network
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from error


def scot_network(
    made: Scot, listen: Iterable[str], *, name: str = "reefcast", routing: str
) -> NetworkFile:
    """Return the network of a SCOT. `listen`: the brokers' addresses, in the order of `made.graph`.

    Raises `ConfigurationError` for a name or an address that is not allowed."""
    brokers = [
        BrokerEntry(broker, address, made.places[broker].region, made.places[broker].cluster)
        for broker, address in zip(made.graph, listen, strict=True)
    ]
    links = [LinkEntry(between=edge) for edge in (*made.a_links, *made.i_links)]
    section = NetworkSection(name=name, routing=routing)
    return NetworkFile(network=section, broker=brokers, link=links).validate()


def dump_network(network: NetworkFile) -> str:
    """Return the network as TOML text that `parse_network` reads as the same."""
    plain: dict[str, Any] = msgspec.to_builtins(network, builtin_types=TIMES)
    lines: list[str] = []
    for name in _TABLES:
        if plain[name]:
            lines += [f"[{name}]", *toml_lines(plain[name]), ""]
    for name in ("certificate", "broker", "listener", "link", "storage", "role"):
        for entry in plain[name]:
            given = {key: value for key, value in entry.items() if value != {}}  # as by default
            lines += [f"[[{name}]]", *toml_lines(given), ""]
    return "\n".join(lines)
