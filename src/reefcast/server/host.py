"""What the ends of all connections of a broker share."""

from __future__ import annotations

from typing import NamedTuple

from reefcast.model.wire import Codec, Hello
from reefcast.network.sections import LimitsSection
from reefcast.server.credit import CongestionControl
from reefcast.server.driver import Driver
from reefcast.server.outputs import Outputs
from reefcast.server.tracing import Journal


class Host(NamedTuple):
    """`me`: what every hello of this broker says; its `session` is the random text drawn when the
    broker started. `codec`: of what brokers say to each other."""

    me: Hello
    limits: LimitsSection
    codec: Codec
    driver: Driver
    outputs: Outputs
    congestion: CongestionControl
    journal: Journal
