"""Confirmed publications with TID routing: they follow no tree."""

from __future__ import annotations

import pytest

from reefcast.model.messages import Confirmed, Publish, Send
from reefcast.routing.tid_tables import TidHeader
from reefcast_lab.torture.network import Network

RING = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
"""A ring: the session is at c, the publisher at a."""
TID = pytest.mark.parametrize("routing", ["tid-s", "tid-d"])


class Watched(Network):
    """A network that records the publications between brokers, and who answers them."""

    def __init__(self, routing: str) -> None:
        self.went: list[tuple[str, str, Publish]] = []
        self.answers: set[tuple[str, str]] = set()
        super().__init__(RING, 1, routing)

    def carry(self, name: str, send: Send) -> None:
        if send.link in self.names and isinstance(send.message, Publish):
            self.went.append((name, send.link, send.message))
        elif send.link in self.names and isinstance(send.message, Confirmed):
            self.answers.add((name, send.link))
        super().carry(name, send)


def with_session(routing: str) -> Watched:
    network = Watched(routing)
    network.want("s0", "c", "x >= 0")
    network.publisher("p0", "a", "x >= 0")
    network.settle()
    return network


@TID
def test_what_is_confirmed_is_flooded_and_the_rest_follows_its_tree(routing: str) -> None:
    network = with_session(routing)
    publisher = network.publishers["p0"]
    publisher.publish({"x": 1}, confirm=False)
    network.settle()
    assert len(network.went) == 2
    assert all(isinstance(copy.header, TidHeader) for _, _, copy in network.went)
    network.went.clear()
    publisher.publish({"x": 2}, confirm=True)
    network.settle()
    links = {frozenset((one, other)) for one, other, _ in network.went}
    assert links == {frozenset(edge) for edge in RING}
    assert not any(isinstance(copy.header, TidHeader) for _, _, copy in network.went)
    assert {(other, one) for one, other, _ in network.went} == network.answers
    assert publisher.confirmed == {2}
    assert not network.problems


@TID
def test_a_broker_without_memory_gets_it_from_all_that_waited_for_it(routing: str) -> None:
    """A copy that waited for a neighbour has no tree, and is not astray for that."""
    network = with_session(routing)
    publisher = network.publishers["p0"]
    for name in "cb":
        network.kill(name)
    network.run(100)
    network.pass_time(6.0)
    publisher.publish({"x": 2}, confirm=True)
    network.run(100)
    assert publisher.kept == {1}
    network.went.clear()
    network.settle()
    assert publisher.confirmed == {1}
    assert {"b", "c"} <= {other for _, other, _ in network.went}
    assert not any(isinstance(copy.header, TidHeader) for _, _, copy in network.went)
    assert not network.problems
