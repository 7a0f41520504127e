"""A broker whose clients all have one role: what they publish and see is checked, and all of the
load lies within it. So it is to be compared with the same load without."""

from __future__ import annotations

import asyncio
import sys

from reefcast.model.wire import Role
from reefcast.network.file import NetworkFile, load_network
from reefcast.network.sections import RoleEntry
from reefcast.protocol.principal import ALL_ROLES, Principal, UserRole
from reefcast.server.greeting import LOCAL, Authenticator, Greeting
from reefcast.server.node import Node
from reefcast.server.process import run

ROLE = RoleEntry(
    name="quotes",
    publish="price > 0 AND volume >= 0",
    subscribe="change BETWEEN -100 AND 100 AND owner IS NULL",
    rights=["status"],
)
CLIENT = Principal("bench", frozenset({UserRole.CLIENT}), "bench", (ROLE.name,))


class Everybody(Authenticator):
    """Every client is one user; brokers and operators are what they say."""

    def prove(self, greeting: Greeting) -> Principal:
        return CLIENT if greeting.hello.role is Role.CLIENT else LOCAL._replace(roles=ALL_ROLES)


def run_granted(network: NetworkFile, name: str) -> None:
    """Run the broker until it is told to stop."""
    network.role = [ROLE]

    async def serve(told_to_stop: asyncio.Event) -> None:
        node = Node(network.validate(), name, authenticator=Everybody())
        await node.start()
        await told_to_stop.wait()
        await node.stop()

    run(serve)


if __name__ == "__main__":
    run_granted(load_network(sys.argv[1]), sys.argv[2])
