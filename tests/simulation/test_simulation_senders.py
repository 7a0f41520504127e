"""Senders that links share: when messages leave, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from reefcast.errors import ConfigurationError
from reefcast.model.messages import Publish
from reefcast.simulation.costs import preset
from reefcast.simulation.faults import (
    BandwidthChange,
    Crash,
    Cut,
    Delay,
    Drop,
    Fault,
    Partition,
    Reorder,
)
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import Link, LinkSpec
from reefcast.simulation.senders import Sharing
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

GRAPH = {"a": ["b", "c"], "b": ["a"], "c": ["a", "d"], "d": ["c"]}
RATE = 1000.0


def setup(sender: Sharing, **more: Any) -> Setup:
    """Return four brokers, b - a - c - d, that take no time; links take 1 ms for a byte."""
    return Setup(
        graph=GRAPH,
        routing="flooding",
        costs=preset("free"),
        link=LinkSpec(0.5, RATE),
        sender=sender,
        **more,
    )


def sent_s(setup: Setup) -> dict[tuple[str, str], float]:
    """Let clients at c and at a publish at once; return when which link had sent its first copy, in
    times of one copy."""
    simulation = Simulation(setup)
    kernel = simulation.world
    assert isinstance(kernel, Kernel)
    ends: dict[tuple[str, str], float] = {}

    def watch(out: Link, publish: Publish, at: float) -> None:
        ends.setdefault((out.source, out.target), out.queued[-1])

    kernel.watch = watch
    for broker in ("c", "a"):
        simulation.publish(f"at-{broker}", broker, {"n": 1}, 100.0)
    simulation.run()
    least = min(ends.values()) - 100.0
    return {link: (end - 100.0) / least for link, end in ends.items()}


def test_each_link_has_a_sender_of_its_own() -> None:
    found = sent_s(setup("link"))
    links = (("c", "a"), ("c", "d"), ("a", "b"), ("a", "c"))
    assert [found[link] for link in links] == pytest.approx([1.0] * 4)


def test_the_links_of_a_broker_send_one_after_the_other() -> None:
    found = sent_s(setup("broker"))
    assert sorted((found["c", "a"], found["c", "d"])) == pytest.approx([1.0, 2.0])
    assert sorted((found["a", "b"], found["a", "c"])) == pytest.approx([1.0, 2.0])


def test_so_do_those_of_the_brokers_of_one_machine() -> None:
    machines = {"a": "one", "c": "one", "b": "two", "d": "two"}
    found = sent_s(setup("machine", machines=machines))
    assert sorted(found[link] for link in found if link[0] in "ac") == pytest.approx(
        [1.0, 2.0, 3.0, 4.0]
    )


@pytest.mark.parametrize(
    "fault",
    [
        Crash("a", 1.0),
        Cut((("a", "d"),), 1.0),
        Partition((("a", "b"),), 1.0, 2.0),
        BandwidthChange((("a", "b"),), 1.0, 1.0),
    ],
)
def test_faults_that_change_what_a_shared_sender_sends_are_refused(fault: Fault) -> None:
    setup("link", faults=[fault]).validate()
    with pytest.raises(ConfigurationError, match=r'share a sender.*take sender = "link"'):
        setup("broker", faults=[fault]).validate()


def test_faults_of_the_wire_are_not() -> None:
    faults = [Drop(0.1), Delay(extra_s=1.0), Reorder(0.1, 1.0)]
    setup("broker", faults=faults).validate()


@pytest.mark.parametrize(
    ("sender", "machines", "words"),
    [
        ("card", {}, "no sender 'card'; choose one of link, broker, machine"),
        ("broker", {"a": "one"}, 'only sender = "machine" uses them'),
        ("machine", {"a": "one"}, "broker b has no machine"),
        ("machine", dict.fromkeys("abcde", "one"), "a machine is for e"),
    ],
)
def test_senders_that_there_are_not(sender: Any, machines: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        setup(sender, machines=machines).validate()
