"""What a broker's figures are, and what of a broker is looked at for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from reefcast.model.messages import LinkName
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile
from reefcast.server.broker_link import BrokerLink
from reefcast.server.clients import Clients
from reefcast.server.draining import Draining
from reefcast.server.host import Host
from reefcast.server.metrics.definitions import Metric
from reefcast.server.metrics.histograms import Histogram
from reefcast.server.shared import Shared
from reefcast.tls.credentials import BrokerCredentials

Value = float | Histogram


class Figure(NamedTuple):
    """A value of a metric, for these values of its labels."""

    metric: Metric
    labels: tuple[str, ...]
    value: Value


class ObservedBroker(Protocol):
    """A broker, as operators see it (`node.Node`)."""

    network: NetworkFile
    name: str
    host: Host
    clients: Clients
    shared: Shared
    tls: BrokerCredentials | None
    stopping: bool
    draining: Draining

    @property
    def links(self) -> Mapping[LinkName, BrokerLink]:
        """The links of the overlay, by neighbour."""

    @property
    def uptime_s(self) -> float:
        """Seconds since it was made."""

    def link_states(self) -> list[dict[str, Any]]:
        """Return the state of each link, soft ones included."""

    def status(self, request: StatusRequest) -> dict[str, object]:
        """Return its status as plain data."""


def not_ready(broker: ObservedBroker) -> list[str]:
    """Return in words what is missing until a broker is ready; no names, for anybody may ask."""
    links = broker.links.values()
    down = sum(link.connection is None for link in links)
    missing = {
        "it was told to stop": broker.stopping,
        "it is drained": broker.draining.on,
        "it relearns its tables": broker.host.core.relearning,
        f"links that are not up: {down} of {len(links)}": down > 0,
    }
    return [words for words, true in missing.items() if true]


def figure(metric: Metric, value: Value, *labels: str) -> Figure:
    """Return a value of a metric."""
    return Figure(metric, labels, value)
