"""What is checked when a tortured network has come to rest."""

from __future__ import annotations

from collections.abc import Iterator

from reefcast.routing.custody import CUSTODY
from reefcast.routing.mesh.movable import MovableMesh
from reefcast_lab.torture.having import is_owed, queue_of
from reefcast_lab.torture.network import Network

VALUES = range(10)
"""The values of `x` that filters tell apart."""
WINDOW = 8
"""The window of the consumers that empty all queues."""


def judge(network: Network) -> list[str]:
    """Let all come to rest, with all brokers up; return what was wrong then, and before. Raises
    `NeverQuietError`."""
    network.settle()
    network.problems += check_confirmed(network)
    network.problems += check_queues(network)
    network.problems += check_attached(network)
    drain(network)
    network.problems += check_kept(network)
    network.problems += check_progress(network)
    network.problems += check_drained(network)
    network.problems += check_unconfirmed(network)
    if network.movable:
        network.problems += check_moves(network)
        network.problems += check_tables(network)
    return network.problems


def drain(network: Network) -> None:
    """Let consumers acknowledge everything that is owed. Some of those that are there take nothing
    more and say nothing more: what they have is to go to others."""
    for consumer in network.consumers.values():
        if network.rng.random() < 0.5:
            consumer.greedy = True
        else:
            consumer.resize(0)
    for traveller in network.travellers.values():
        if network.rng.random() < 0.5:
            traveller.greedy = True
        else:
            traveller.resize(0)
    for wanted in network.sessions.values():
        if not wanted.ended and wanted.life is not None:
            network.consumer(wanted.name, WINDOW).greedy = True
    network.settle()


def check_confirmed(network: Network) -> Iterator[str]:
    """Check P1 for everything that was confirmed."""
    for publisher in network.publishers.values():
        for seq in sorted(publisher.confirmed - publisher.refused.keys()):
            yield from publisher.check_loss(seq)


def check_kept(network: Network) -> Iterator[str]:
    """Check P1 for everything that was in custody, when queues have had room for it."""
    for publisher in network.publishers.values():
        for seq in sorted(publisher.kept - publisher.refused.keys()):
            yield from publisher.check_loss(seq, what="was kept", may_refuse=True)


def check_unconfirmed(network: Network) -> Iterator[str]:
    """Check P5 where nothing was disturbed: what nobody confirmed has arrived all the same, unless
    its broker did not wait any longer for its advertisement."""
    for publisher in network.publishers.values() if not network.disturbed else ():
        for seq in sorted(publisher.made.keys() - publisher.asked - publisher.refused.keys()):
            if (publisher.name, seq) not in network.let_go:
                yield from publisher.check_loss(seq, "P5", "was published", may_refuse=True)


def check_queues(network: Network) -> Iterator[str]:
    """Check P2 and P3 in all queues."""
    for wanted in network.all_sessions:
        queue = queue_of(network, wanted)
        if len(set(queue)) < len(queue):
            yield f"P2: session {wanted.name} has events twice: {queue}"
        link = "" if wanted.life is None else wanted.life.link
        refused = {id for at, id in network.turned_away if at == link}
        for publisher in network.publishers.values() if network.ordered else ():
            made = publisher.made
            its = [s for name, s in queue if name == publisher.name and wanted in made[s]]
            confirmed = (publisher.confirmed | publisher.kept) - publisher.refused.keys()
            # What matched nothing any more, when it came, may come again for a later subscription.
            sure = {
                s
                for s in confirmed
                if (publisher.name, s) not in refused and is_owed(wanted, made[s].get(wanted, ()))
            }
            if any(s in sure and s < max(its[: at + 1]) for at, s in enumerate(its)):
                yield f"P3: session {wanted.name} of {publisher.name}: {its}"


def check_attached(network: Network) -> Iterator[str]:
    """Check that consumers at any broker are attached to their home (rule 12), each once."""
    for wanted in network.sessions.values():
        if wanted.ended or wanted.life is None:
            continue
        here = [
            each
            for each in network.travellers.values()
            if each.wanted is wanted and not each.is_gone
        ]
        for traveller in here:
            if not traveller.is_attached:
                yield f"rule 12: {traveller.name} at {traveller.entry} does not attach"
        home = network.cores[wanted.home].delivering._home
        assert home is not None
        consumers = home.status("", wanted.name).consumers
        for traveller in here:
            its = [each for each in consumers if traveller.is_named(each)]
            if len(its) != 1:
                yield f"rule 12: {traveller.name} at {traveller.entry} is the consumers {its}"


def check_progress(network: Network) -> Iterator[str]:
    """Check P4 when nothing is left to do."""
    for publisher in network.publishers.values():
        if publisher.open.keys() - publisher.kept:
            where = {
                name: core._then.confirming.waits_for() for name, core in network.cores.items()
            }
            yield f"P4: {publisher.name} waits for {sorted(publisher.open)}: {where}"
    for name, disk in network.disks.items():
        if left := disk.synced.rows.get(CUSTODY):
            yield f"P4: {len(left)} publications stay in custody of {name}"
    for wanted in network.all_sessions:
        if wanted.open and not (wanted.ended and wanted is not network.sessions[wanted.name]):
            yield f"P4: session {wanted.name} waits for {sorted(wanted.open)}"
        missing = wanted.asked.keys() - wanted.settled - wanted.removed
        if missing and not wanted.ended:
            yield f"P4: subscriptions of {wanted.name} do not settle: {sorted(missing)}"


def check_drained(network: Network) -> Iterator[str]:
    """Check that consumers have got all that was owed, and that disks keep nothing else."""
    for wanted in network.all_sessions:
        queue = queue_of(network, wanted)
        if queue and not wanted.ended:
            yield f"P4: nobody gets {queue} of session {wanted.name}"
    for name, disk in network.disks.items():
        owed = {each.event for s in disk.synced.sessions.values() for each in s.owed.values()}
        if idle := disk.synced.events.keys() - owed:
            yield f"rule 9: {name} keeps events {sorted(idle)} that nobody is owed"


def check_moves(network: Network) -> Iterator[str]:
    """Check that all moves have come to an end, and that all brokers agree on the links."""
    for name, core in network.cores.items():
        router = core.router
        assert isinstance(router, MovableMesh), "others move no links"
        if router.moving is not None:
            yield f"P4: {name} is still part of a move: {router.moving.plan}"
        elif router.brokers != network.linked(name):
            yield f"P4: {name} has the links {router.brokers}, and not {network.linked(name)}"
    if len(network.edges) != len(network.names) - 1:
        yield f"P4: the links are no tree: {network.edges}"


def check_tables(network: Network) -> Iterator[str]:
    """Check that tables lead everywhere, whatever happened before: what is published now without
    confirmation arrives."""
    published = [
        (publisher, publisher.publish({"x": x}, confirm=False))
        for publisher in network.publishers.values()
        for x in VALUES
    ]
    network.settle()
    for publisher, seq in published:
        yield from publisher.check_loss(seq, "P5", "was published in the end", may_refuse=True)
