"""The sections of a network file; each parameter states its unit and meaning here."""

from __future__ import annotations

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
    """`level`: one of `model.trace.LEVELS`. `directory`: where the Parquet goes. `sample`: share of
    the publications that level "sampled" writes down (0 to 1). `flush_s`: seconds between files."""

    level: str = "off"
    directory: str = "out/trace"
    sample: float = 0.01
    flush_s: float = 1.0


class LimitsSection(Section):
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


class OverloadSection(Section):
    """When a link between brokers counts as overloaded, for the routings that go round it: when
    `Q_len * (1 + Q_in) / (1 + Q_out) > tau` (OctopiA's equation 3). `Q_len`: publications that
    wait for the link now; `Q_in`, `Q_out`: those that came and went in the last full window.

    `tau`: the threshold, in publications waiting while as many go as come. `window_ms`: the
    paper's t_w, milliseconds from one count of `Q_in` and `Q_out` to the next."""

    tau: float = 10.0
    window_ms: float = 50.0


class BrokerEntry(Section):
    """`listen`: host:port. `region`, `cluster`: the broker's place in a SCOT (see
    `overlay.scot`), a label of the tree and a cluster index from 0; all brokers have both or
    none, and the links must then be exactly those of the SCOT."""

    name: str
    listen: str = ""
    region: str | None = None
    cluster: int | None = None

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


class LinkEntry(Section):
    """`between`: two brokers. The other three serve the simulator only: the link's latency, its
    bandwidth, and the mean of an exponential extra delay (order on the link is kept)."""

    between: tuple[str, str]
    latency_ms: float = 1.0
    bandwidth_mbit_per_s: float = 1000.0
    jitter_ms: float = 0.0
