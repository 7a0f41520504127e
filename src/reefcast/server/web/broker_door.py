"""The HTTP listener of a broker: that of any member of a network, with the dashboard."""

from __future__ import annotations

from reefcast.server.metrics.collecting import Collector
from reefcast.server.metrics.observed import not_ready
from reefcast.server.web.dashboard import Dashboard, OperatedBroker
from reefcast.server.web.door import Door
from reefcast.server.web.operated import Operated


def broker_door(broker: OperatedBroker, host: str, port: int) -> Door:
    """Return the HTTP listener of `broker` at this address."""
    me = Operated(
        kind="broker",
        name=broker.name,
        network=broker.network,
        session=broker.host.me.session,
        tls=broker.tls,
        journal=broker.host.journal,
        audit=broker.host.audit,
        authenticator=broker.shared.authenticator,
        grants=lambda: broker.host.core.granting.grants,
        not_ready=lambda: not_ready(broker),
        figures=Collector(broker, broker.looks.sums).figures,
        status=broker.status,
    )
    door = Door(me, host, port)
    door.dashboard = Dashboard(broker, door.visits, door.place)
    return door
