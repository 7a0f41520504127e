"""Faults written as text; faults and costs that are refused."""

from __future__ import annotations

import pytest

from reefcast.errors import ConfigurationError
from reefcast.network.sections import LimitsSection
from reefcast.overlay.topology import names, path
from reefcast.simulation.costs import CostModel, preset
from reefcast.simulation.faults import (
    BandwidthChange,
    Crash,
    Drop,
    Fault,
    Partition,
    fault_mark,
    parse_fault,
)
from reefcast.simulation.world import Setup


def test_faults_are_read_from_text() -> None:
    assert parse_fault("crash:broker=b1,at_s=5,restart_s=7") == Crash("b1", 5.0, 7.0)
    assert parse_fault("drop:share=0.01") == Drop(0.01)
    assert parse_fault("drop:share=0.01,control=0.2") == Drop(0.01, control=0.2)
    assert parse_fault("partition:links=b1/b2+b2/b3,from_s=1,to_s=2") == Partition(
        (("b1", "b2"), ("b2", "b3")), 1.0, 2.0
    )
    assert parse_fault("bandwidth:links=b1/b2,at_s=1,bandwidth_mbit_per_s=10") == BandwidthChange(
        (("b1", "b2"),), 1.0, 10.0
    )


def test_the_patience_of_a_crash_is_that_of_the_network_file_unless_it_is_given() -> None:
    assert parse_fault("crash:broker=b1,at_s=5").link_patience_s == LimitsSection().link_patience_s
    assert parse_fault("crash:broker=b1,at_s=5", 3.0).link_patience_s == 3.0
    assert parse_fault("crash:broker=b1,at_s=5,link_patience_s=2", 3.0).link_patience_s == 2.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("flood:at_s=1", "none of crash, cut, move, partition"),
        ("crash:broker=b1", "at_s must be given"),
        ("crash:broker=b1,when=3", "crash has no 'when'"),
        ("drop:share=much", "is not a number"),
        ("partition:links=b1-b2,from_s=1,to_s=2", "links are written b01/b02"),
    ],
)
def test_text_that_is_no_fault(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        parse_fault(text)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Crash("b9", 1.0), "no broker named 'b9'"),
        (Crash("b1", 0.0), "crashes after the start"),
        (Partition((("b1", "b3"),), 1.0, 2.0), "no link b1/b3"),
        (Partition((("b1", "b2"),), 1.0, float("inf")), "must end"),
        (Partition((("b1", "b2"),), 2.0, 1.0), "ends before it starts"),
        (Drop(1.5), "at most 1"),
        (Drop(-0.5), "negative"),
        (Drop(0.0, control=1.5), "at most 1"),
        (BandwidthChange((("b1", "b2"),), 1.0, 0.0), "above 0"),
    ],
)
def test_faults_that_cannot_be(fault: Fault, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Setup(graph=path(names(3)), faults=[fault]).validate()


def test_a_broker_that_is_down_cannot_crash() -> None:
    faults = [Crash("b1", 1.0, 3.0), Crash("b1", 2.0, 4.0)]
    with pytest.raises(ConfigurationError, match="down already"):
        Setup(graph=path(names(3)), faults=faults).validate()


def test_costs() -> None:
    with pytest.raises(ConfigurationError, match="publication_s"):
        CostModel(publication_s=-1.0).validate()
    with pytest.raises(ConfigurationError, match="measured"):
        preset("cheap")
    assert preset("padres").validate().publication_s > preset("measured").publication_s


@pytest.mark.parametrize(
    ("text", "what", "from_s", "to_s"),
    [
        ("crash:broker=b,at_s=5,restart_s=7", "b is down", 5.0, 7.0),
        ("crash:broker=b,at_s=5", "b is down", 5.0, None),
        ("partition:links=a/b+b/c,from_s=1,to_s=2", "partition on a – b, b – c", 1.0, 2.0),
        ("cut:links=a/b,at_s=3", "cut on a – b", 3.0, 3.0),
        ("move:broker=a,old=b,new=c,at_s=3", "a moves from b to c", 3.0, 3.0),
        ("bandwidth:links=a/b,at_s=3,bandwidth_mbit_per_s=1", "bandwidth on a – b", 3.0, None),
        ("drop:share=0.1", "drop on every link", 0.0, None),
    ],
)
def test_what_a_report_says_of_a_fault(text, what, from_s, to_s):
    assert fault_mark(parse_fault(text)) == {"what": what, "from_s": from_s, "to_s": to_s}
