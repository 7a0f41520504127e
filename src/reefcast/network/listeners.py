"""Listeners for clients of other protocols: what a network file may say of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from reefcast.cloudevents.sinks import AllowedSinks
from reefcast.errors import ConfigurationError
from reefcast.network.admin_addresses import EVERYWHERE
from reefcast.network.checks import Section, address_in
from reefcast.protocol.privacy import is_loopback

_LIMITS = {
    "receive_maximum": (1, 65_535),
    "maximum_packet_size": (0, 5 + (1 << 28) - 1),
    "session_expiry_s": (0, (1 << 32) - 1),
    "topic_alias_maximum": (0, 65_535),
    "keep_alive_s": (0, 65_535),
    "max_body_bytes": (1, 1 << 30),
    "max_connections": (1, 1 << 20),
}
"""The least and the greatest value of keys, as far as MQTT can say them, and memory allows."""
_OF_MQTT = (
    *("websocket", "content", "user_properties", "receive_maximum", "maximum_packet_size"),
    *("session_expiry_s", "topic_alias_maximum", "keep_alive_s"),
)
_OF_HTTP = (
    *("allow_origins", "max_body_bytes", "max_connections"),
    *("sinks", "sink_handshake", "sink_origin", "public_url"),
)
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.\-]*[A-Za-z0-9])?")
_PUBLIC_URL = re.compile(r"https?://[^/?#@\s]+(/[A-Za-z0-9/._~\-]*)?")
_ORIGIN = re.compile(r"https?://[^/?#@\s]+|null|\*")


class ListenerEntry(Section):
    """A listener for clients of another protocol, at one broker; a broker may have several. MQTT
    needs a directory in `[sessions]`, and a routing with links. A listener that changes needs a
    restart of its broker.

    - `broker`: the broker.
    - `protocol`: "mqtt": MQTT 5.0 and 3.1.1; "http": HTTP and WebSocket for programs and pages.
    - `listen`: its address for TCP, host:port; empty: there is none.
    - `websocket`: of MQTT: its address for WebSocket, host:port, with the path `/mqtt`; empty:
      there is none. HTTP has its WebSocket at its one address.
    - `tls`: whether it speaks TLS, with the certificate of `[tls]`; by default where there is such
      a section, but not on loopback. Off loopback it must, unless `[network]` has `insecure =
      true`.
    - `content`: "json": a payload without a content type is read as a JSON object, whose members
      become attributes; "none": only a payload whose content type says that it is JSON.
    - `user_properties`: whether the user properties of a publication become attributes, too.
    - `receive_maximum`: how many publications with QoS 1 and 2 a client may send before the first
      of them is acknowledged.
    - `maximum_packet_size`: how many bytes a packet of a client has; 0: as many as
      `publication_bytes` in `[limits]`.
    - `session_expiry_s`: for how many seconds at most the session of a client that is away is kept.
    - `topic_alias_maximum`: how many topic aliases a client may use.
    - `keep_alive_s`: the keep-alive interval of all clients, in seconds; 0: each has its own.
    - `allow_origins`: of HTTP: the origins of pages in browsers that may send requests besides
      those of its own host, such as "https://app.example"; "*": all.
    - `max_body_bytes`: of HTTP: how many bytes the body of a request, or a message of WebSocket,
      has at most.
    - `max_connections`: of HTTP: how many connections there are at most.
    - `sinks`: of HTTP: where events of CloudEvents subscriptions may be delivered, each a host such
      as "hooks.example.com" (by HTTPS), or the beginning of a URL such as
      "http://10.0.0.5:8080/hooks/". Without it a listener on loopback allows the sinks of this
      machine, and any other none. Lists of several listeners of a broker are joined, and so are the
      next three keys, of which the first that is given counts.
    - `sink_handshake`: of HTTP: whether a sink must permit deliveries (OPTIONS) before the first.
    - `sink_origin`: of HTTP: the name of a host by which sinks are asked, "reefcast" by default.
    - `public_url`: of HTTP: where sinks reach this listener, such as "https://events.example.com",
      if they may permit deliveries by a callback.
    """

    broker: str
    protocol: Literal["mqtt", "http"]
    listen: str = ""
    websocket: str = ""
    tls: bool | None = None
    content: Literal["json", "none"] = "none"
    user_properties: bool = False
    receive_maximum: int = 1024
    maximum_packet_size: int = 0
    session_expiry_s: int = 604_800
    topic_alias_maximum: int = 16
    keep_alive_s: int = 0
    allow_origins: list[str] = msgspec.field(default_factory=list)
    max_body_bytes: int = 1 << 20
    max_connections: int = 1000
    sinks: list[str] = msgspec.field(default_factory=list)
    sink_handshake: bool = True
    sink_origin: str = ""
    public_url: str = ""

    @property
    def address(self) -> tuple[str, int] | None:
        """Where it listens for TCP: host and port; None if it does not."""
        port = 1883 if self.protocol == "mqtt" else 8080
        return self._address("listen", self.listen, f"127.0.0.1:{port}")

    @property
    def websocket_address(self) -> tuple[str, int] | None:
        """Where it listens for WebSocket: host and port; None if it does not."""
        return self._address("websocket", self.websocket, "127.0.0.1:8083")

    def _address(self, key: str, text: str, example: str) -> tuple[str, int] | None:
        return address_in(text, f"{self.where}: {key}", example) if text else None

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """All of its addresses."""
        return tuple(filter(None, (self.address, self.websocket_address)))

    @property
    def name(self) -> str:
        """What tells it from others in the file."""
        return name_of(self.broker, self.listen, self.websocket)

    @property
    def where(self) -> str:
        """The entry in words."""
        return f"[[listener]] of broker {self.broker}"

    def speaks_tls(self, host: str, has_tls: bool) -> bool:
        """Return whether it speaks TLS on an address with this host. `has_tls`: whether the network
        file has a certificate."""
        return has_tls and not is_loopback(host) if self.tls is None else self.tls


_DEFAULTS = msgspec.structs.asdict(ListenerEntry(broker="", protocol="mqtt"))
_ADDRESSES = {
    "mqtt": 'give it listen, such as "127.0.0.1:1883", or websocket, such as "127.0.0.1:8083"',
    "http": 'give it listen, such as "127.0.0.1:8080"',
}


def name_of(broker: str, listen: str, websocket: str) -> str:
    """Return the name of a listener at this broker, with these addresses."""
    return f"{broker} {listen or websocket}"


class TakenAddress(NamedTuple):
    """An address that is taken. `machine`: where, as far as the file says; `what`: in words."""

    machine: str
    address: tuple[str, int]
    what: str

    def meets(self, other: TakenAddress) -> bool:
        """Return whether the two addresses conflict: not both can be listened on."""
        (host, port), (others_host, others_port) = self.address, other.address
        if self.machine != other.machine or port != others_port:
            return False
        return host == others_host or host in EVERYWHERE or others_host in EVERYWHERE


def check_listeners(
    listeners: Sequence[ListenerEntry],
    machines: Mapping[str, str],
    taken: Iterable[TakenAddress],
    *,
    has_tls: bool,
    insecure: bool,
) -> None:
    """Raise `ConfigurationError` for listeners that contradict themselves or others. `machines`:
    where each broker runs; `taken`: the addresses of all that is no such listener; `has_tls`,
    `insecure`: whether the file has a certificate, or allows to be reached without."""
    for each in listeners:
        if each.broker not in machines:
            raise ConfigurationError(
                f"{each.where}: there is no broker named {each.broker!r}; the file has "
                f"{', '.join(machines)}"
            )
        if not each.addresses:
            raise ConfigurationError(f"{each.where} has no address: {_ADDRESSES[each.protocol]}")
        _check_keys(each)
        _check_limits(each)
        _check_tls(each, has_tls, insecure)
    _check_places([*taken, *_places(listeners, machines)])


def _check_keys(entry: ListenerEntry) -> None:
    """Check that an entry says nothing that its protocol does not know."""
    others = {"mqtt": _OF_HTTP, "http": _OF_MQTT}[entry.protocol]
    for key in others:
        if getattr(entry, key) != _DEFAULTS[key]:
            raise ConfigurationError(
                f"{entry.where}: {key} is not for protocol {entry.protocol!r}; leave it out"
            )
    for origin in entry.allow_origins:
        if not _ORIGIN.fullmatch(origin):
            raise ConfigurationError(
                f"{entry.where}: allow_origins has {origin!r}, which is no origin, such as "
                '"https://app.example", and not "*"'
            )

    _check_sinks(entry)


def _check_sinks(entry: ListenerEntry) -> None:
    """Check what an entry says of the sinks of CloudEvents."""
    try:
        AllowedSinks(entry.sinks)
    except ConfigurationError as error:
        raise ConfigurationError(f"{entry.where}: {error}") from None
    if entry.sink_origin and not _HOST_NAME.fullmatch(entry.sink_origin):
        raise ConfigurationError(
            f"{entry.where}: sink_origin is {entry.sink_origin!r}; give it the name of a host, "
            'such as "events.example.com"'
        )
    if entry.public_url and not _PUBLIC_URL.fullmatch(entry.public_url):
        raise ConfigurationError(
            f"{entry.where}: public_url is {entry.public_url!r}; give it a URL without a query, "
            'such as "https://events.example.com"'
        )


def _check_limits(entry: ListenerEntry) -> None:
    for key, (least, most) in _LIMITS.items():
        value = getattr(entry, key)
        if not least <= value <= most:
            raise ConfigurationError(
                f"{entry.where}: {key} = {value} must be from {least} to {most}"
            )


def _check_tls(entry: ListenerEntry, has_tls: bool, insecure: bool) -> None:
    if entry.tls and not has_tls:
        raise ConfigurationError(
            f"{entry.where} has tls = true, and the file no section [tls] (reefcast certificates "
            "make)"
        )
    for host, _ in entry.addresses:
        if insecure or is_loopback(host) or entry.speaks_tls(host, has_tls):
            continue
        better = (
            "remove tls = false"
            if has_tls
            else "give the file a section [tls] (reefcast certificates make)"
        )
        alone = "" if has_tls else ", or set insecure = true in [network]"
        raise ConfigurationError(
            f"{entry.where} would listen on {host} without TLS, which others can reach: {better}, "
            f"or listen on 127.0.0.1{alone}"
        )


def _places(
    listeners: Iterable[ListenerEntry], machines: Mapping[str, str]
) -> Iterator[TakenAddress]:
    for each in listeners:
        machine = machines[each.broker]
        for key, address in (("listen", each.address), ("websocket", each.websocket_address)):
            if address is not None:
                yield TakenAddress(
                    machine, address, f"{key} in a [[listener]] of broker {each.broker}"
                )


def _check_places(places: Sequence[TakenAddress]) -> None:
    """Check that no two of them meet; a file may have thousands."""
    by_port: dict[tuple[str, int], list[TakenAddress]] = {}
    for each in places:
        others = by_port.setdefault((each.machine, each.address[1]), [])
        for other in others:
            if each.meets(other):
                host, port = each.address
                raise ConfigurationError(
                    f"{other.what} and {each.what} are both {host}:{port} on {each.machine}; give "
                    "each an address of its own"
                )
        others.append(each)
