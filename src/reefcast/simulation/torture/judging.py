"""What is checked when a tortured network has come to rest."""

from __future__ import annotations

from collections.abc import Iterator

from reefcast.simulation.torture.checkers import queue_of
from reefcast.simulation.torture.network import Network


def judge(network: Network) -> list[str]:
    """Let all come to rest, with all brokers up; return what was wrong then, and before."""
    network.settle()
    network.problems += check_queues(network)
    network.problems += check_progress(network)
    return network.problems


def check_queues(network: Network) -> Iterator[str]:
    """Check P2 and P3 in all queues."""
    for wanted in network.sessions.values():
        queue = queue_of(network, wanted)
        if len(set(queue)) < len(queue):
            yield f"P2: session {wanted.name} has events twice: {queue}"
        for publisher in network.publishers.values() if network.ordered else ():
            made = publisher.made
            its = [s for name, s in queue if name == publisher.name and wanted.name in made[s]]
            if any(s in publisher.confirmed and s < max(its[: at + 1]) for at, s in enumerate(its)):
                yield f"P3: session {wanted.name} of {publisher.name}: {its}"


def check_progress(network: Network) -> Iterator[str]:
    """Check P4 when nothing is left to do."""
    for publisher in network.publishers.values():
        if publisher.open:
            where = {
                name: core._then.confirming.waits_for() for name, core in network.cores.items()
            }
            yield f"P4: {publisher.name} waits for {sorted(publisher.open)}: {where}"
    for wanted in network.sessions.values():
        if wanted.asked.keys() != wanted.settled:
            yield f"P4: subscriptions of {wanted.name} do not settle"
