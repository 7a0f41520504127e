"""Simulated links: transmission through changes of bandwidth, partitions, order under jitter."""

from __future__ import annotations

import pytest

from reefcast.errors import ConfigurationError
from reefcast.model.messages import PeerMessage, Publish, Settled
from reefcast.model.publication import Publication
from reefcast.routing.gossip.messages import Join, Walked
from reefcast.simulation.faults import BandwidthChange, Delay, Drop, LinkFault, Partition, Reorder
from reefcast.simulation.links import DROPPED, Link, LinkSpec

EDGE = ("a", "b")
EVENT = Publish(Publication("p", 1, 0, {}))


def link(*faults: LinkFault, jitter_s: float = 0.0) -> Link:
    """Return a link of 1 000 bytes per second, with 0.5 s on the wire."""
    return Link("a", "b", LinkSpec(0.5, 1000.0, jitter_s), faults, 3, 0)


def test_size_over_bandwidth() -> None:
    assert link().transmitted_at(2.0, 500) == 2.5


def test_bandwidth_that_changes_on_the_way() -> None:
    changed = link(BandwidthChange((EDGE,), 1.0, 0.016))  # 2 000 bytes a second
    assert changed.transmitted_at(0.5, 1500) == pytest.approx(1.5)


def test_nothing_leaves_while_the_link_is_cut() -> None:
    cut = link(Partition((("b", "a"),), 1.0, 4.0))
    assert cut.transmitted_at(0.5, 1000) == pytest.approx(4.5)
    assert cut.transmitted_at(2.0, 1000) == 5.0


def test_what_is_on_the_wire_of_a_cut_link_is_sent_again() -> None:
    assert link(Partition((EDGE,), 1.0, 4.0)).arrives_at(0.8, 0.0) == 4.5


def test_messages_never_overtake_on_one_link() -> None:
    jittery = link(jitter_s=1.0)
    arrivals = [jittery.arrives_at(i * 0.01, jittery.extra_s(i * 0.01, EVENT)) for i in range(200)]
    assert arrivals == sorted(arrivals)
    assert len(set(arrivals)) > 1


def test_the_short_way_without_faults_is_the_long_one() -> None:
    short, long = link(jitter_s=0.02), link(jitter_s=0.02)
    for i in range(200):
        sent = i * 0.01
        assert short.arrives_steadily(sent) == long.arrives_at(sent, long.extra_s(sent, EVENT))


def test_queue_length_counts_what_is_not_transmitted() -> None:
    busy = link()
    busy.queued.extend([1.0, 2.0, 3.0])
    assert [busy.queue_len(at) for at in (0.5, 1.0, 2.5, 3.0)] == [3, 2, 1, 0]


def test_faults_hold_between_their_instants_only() -> None:
    faulty = link(Drop(1.0, from_s=1.0, to_s=2.0), Delay(0.25, from_s=3.0))
    assert [faulty.extra_s(at, EVENT) for at in (0.5, 1.5, 2.5, 3.5)] == [0.0, DROPPED, 0.0, 0.25]
    assert faulty.extra_s(1.5, Settled(1)) == 0.0


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        (EVENT, False),
        (Walked(topic="t", path=("a", "b"), views=((),), at=0), True),
        (Join(topic="t"), False),
        (Settled(1), False),
    ],
)
def test_control_messages_are_lost_only_where_nobody_waits_for_the_answer(
    message: Publish | PeerMessage | Settled, lost: bool
) -> None:
    assert link(Drop(0.0, control=1.0)).extra_s(1.0, message) == (DROPPED if lost else 0.0)


def test_reorder_delays_a_share() -> None:
    reordering = link(Reorder(0.5, 0.1))
    extras = [reordering.extra_s(0.0, EVENT) for _ in range(200)]
    assert 50 < sum(extra > 0 for extra in extras) < 150
    assert max(extras) <= 0.1


@pytest.mark.parametrize(
    "spec", [LinkSpec(-1.0), LinkSpec(bytes_per_s=0.0), LinkSpec(jitter_s=float("inf"))]
)
def test_impossible_links_are_refused(spec: LinkSpec) -> None:
    with pytest.raises(ConfigurationError):
        spec.validate()
