"""Plans of storages, and the steps by which a network file follows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.model.patterns import topic_pattern_covers, topic_patterns_meet
from reefcast.network.file import NetworkFile, dump_network, read_network
from reefcast.network.placing import (
    planned_storages,
    say_the_same,
    widened,
    with_storages,
)
from reefcast.network.plan_file import PlannedStorage
from reefcast.network.sections import BrokerEntry, LinkEntry, StorageEntry

BROKERS = ["b1", "b2", "b3", "b4"]
TOPICS = ["x", "y", "a/1", "a/2", "a/+", "a/#"]


def entry(
    name: str, broker: str, topics: Iterable[str], joining: Iterable[str] = ()
) -> StorageEntry:
    return StorageEntry(
        name=name,
        broker=broker,
        topics=list(topics),
        directory=f"kept/{name}",
        joining=list(joining),
        index={"price": "number"} if name == "s1" else {},
        lifetime_s=60.0 if name == "s2" else None,
    )


def network(storages: Sequence[StorageEntry]) -> NetworkFile:
    brokers = [BrokerEntry(name, f"127.0.0.1:730{n}") for n, name in enumerate(BROKERS)]
    links = [LinkEntry(between=("b1", other)) for other in BROKERS[1:]]
    return NetworkFile(broker=brokers, link=links, storage=list(storages)).validate()


def plan(**topics: Sequence[str]) -> list[PlannedStorage]:
    return [PlannedStorage(broker, tuple(kept)) for broker, kept in topics.items()]


@st.composite
def storages(draw: st.DrawFn) -> list[StorageEntry]:
    made = []
    for number in range(draw(st.integers(0, 4))):
        topics = draw(st.lists(st.sampled_from(TOPICS), min_size=1, unique=True))
        joining = draw(st.lists(st.sampled_from(topics), unique=True))
        made.append(entry(f"s{number}", draw(st.sampled_from(BROKERS)), topics, joining))
    complete = [topic for each in made for topic in each.complete]
    for each in made:
        each.joining = [topic for topic in each.joining if _is_kept(topic, complete)]
    return made


def _is_kept(topic: str, kept: Iterable[str]) -> bool:
    """Return whether one of these topics or patterns covers the topic."""
    return any(topic_pattern_covers(own, topic) for own in kept)


def _is_partly(topic: str, kept: Iterable[str]) -> bool:
    """Return whether some of them overlap the topic, and none covers it."""
    return not _is_kept(topic, kept) and any(topic_patterns_meet(own, topic) for own in kept)


@st.composite
def plans(draw: st.DrawFn, kept: Sequence[StorageEntry]) -> list[PlannedStorage]:
    """Draw a plan in which some storage gets each topic that is kept. Further topics are covered by
    these, or new altogether."""
    topics = {topic for each in kept for topic in each.topics}
    complete = [topic for each in kept for topic in each.complete]
    others = [topic for topic in TOPICS if not _is_partly(topic, complete)]
    given: dict[str, set[str]] = {}
    more = draw(st.lists(st.sampled_from(others))) if others else []
    for topic in sorted(topics | set(more)):
        for broker in draw(st.lists(st.sampled_from(BROKERS), min_size=1, unique=True)):
            given.setdefault(broker, set()).add(topic)
    return [PlannedStorage(broker, tuple(sorted(given[broker]))) for broker in sorted(given)]


@given(data=st.data())
def test_both_steps_whatever_there_is_and_wherever_one_is_interrupted(data: st.DataObject) -> None:
    before = data.draw(storages())
    planned = data.draw(plans(before))
    then = planned_storages(before, planned, "new")
    wide = widened(before, then)
    network(then)
    network(wide)
    assert [(each.broker, each.topics) for each in then] == [
        (each.broker, list(each.topics)) for each in planned
    ]
    assert not any(each.joining for each in then)
    # who had something complete still has it
    now = {each.name: each for each in wide}
    for each in before:
        assert set(each.complete) <= set(now[each.name].complete)
    # nobody answers for what others have before it has it, too
    had = {each.name: each.complete for each in before}
    for each in wide:
        for topic in set(each.complete) - set(had.get(each.name, ())):
            assert not _is_kept_by_another(topic, each.name, before) or any(
                topic_pattern_covers(own, topic) for own in had[each.name]
            )
    # done again, it is the same
    again = planned_storages(wide, planned, "new")
    assert say_the_same(again, then)
    assert widened(wide, again) == wide
    assert say_the_same(widened(then, planned_storages(then, planned, "new")), then)


def _is_kept_by_another(topic: str, name: str, storages: Sequence[StorageEntry]) -> bool:
    return any(topic in each.complete for each in storages if each.name != name)


@given(data=st.data())
def test_the_file_says_what_it_is_given(data: st.DataObject) -> None:
    before, then = data.draw(storages()), data.draw(storages())
    for each in then:  # only topics of those that stay change
        for old in before:
            if old.name == each.name:
                each.broker = old.broker
    text = dump_network(network(before))
    changed = with_storages(text, then)
    assert say_the_same(read_network(changed).storage, then)
    assert read_network(with_storages(changed, before)).broker == network(before).broker


def test_whose_options_a_new_storage_has() -> None:
    before = [entry("s1", "b1", ["x", "y"]), entry("s2", "b2", ["a/#", "x"])]
    moved = planned_storages(before, plan(b3=["x", "y"], b4=["a/#"], b1=["z"]), "new/place")
    at_b3, at_b4, s1 = moved
    assert (at_b3.name, at_b3.directory) == ("at-b3", "new/place/at-b3")
    assert (at_b3.index, at_b3.lifetime_s) == ({"price": "number"}, None)
    assert (at_b4.index, at_b4.lifetime_s) == ({}, 60.0)
    assert (s1.name, s1.directory, s1.topics) == ("s1", "kept/s1", ["z"])
    [first] = planned_storages([], plan(b3=["x"]), "new")
    assert first == StorageEntry(name="at-b3", broker="b3", topics=["x"], directory="new/at-b3")
    taken = [entry("at-b3", "b1", ["x"])]
    names = [each.name for each in planned_storages(taken, plan(b3=["x"]), "new")]
    assert names == ["at-b3-2"]


def test_who_joins() -> None:
    before = [entry("s1", "b1", ["x", "a/#"]), entry("s2", "b2", ["y"], ["y"])]
    then = planned_storages(before, plan(b1=["x", "a/1"], b3=["a/#", "y", "z"]), "new")
    s1, s2, new = widened(before, then)
    assert (s1.topics, s1.joining) == (["x", "a/#", "a/1"], [])
    assert (s2.topics, s2.joining) == (["y"], ["y"])
    assert (new.topics, new.joining) == (["a/#", "y", "z"], ["a/#"])


def test_what_a_plan_must_not_forget() -> None:
    before = [entry("s1", "b1", ["x", "a/#"])]
    with pytest.raises(
        ConfigurationError, match="s1 keeps 'a/#', which no storage of the plan has"
    ):
        planned_storages(before, plan(b1=["x", "a/+"]), "new")
    with pytest.raises(ConfigurationError, match="the plan has '#', of which storage s1 keeps"):
        planned_storages(before, plan(b1=["x"], b2=["#"]), "new")
    assert planned_storages(before, plan(b2=["x", "a/#"], b3=["a/1"]), "new")


TEXT = """\
[[broker]]
name = "b1" # here

[[storage]] # the first
name = "s1"
broker = "b1"
topics = [
  "x", # exchange
  "y",
]
directory = "one"

[[storage]]
name = "s2"
broker = "b1"
topics = ["x"]
joining = ["x"]
directory = "two"
"""


def test_the_rest_of_the_file_stays_as_somebody_wrote_it() -> None:
    s1, s2 = read_network(TEXT).storage
    s1.topics, s1.joining, s2.joining = ["x", "z"], ["z"], []
    new = entry("s3", "b1", ["y"])
    changed = with_storages(TEXT, [s1, s2, new])
    assert changed == (
        TEXT.replace('  "y",\n', '  "z",\n')
        .replace('directory = "one"\n', 'directory = "one"\njoining = ["z"]\n')
        .replace('joining = ["x"]\n', "")
        + '\n[[storage]]\nname = "s3"\nbroker = "b1"\ntopics = ["y"]\ndirectory = "kept/s3"\n'
    )


def test_storages_in_one_line() -> None:
    text = 'storage = [{name="s1",broker="b1",topics=["x"],directory="d"}]\nbroker=[{name="b1"}]\n'
    new = entry("s3", "b1", ["y"], ["y"])
    assert say_the_same(read_network(with_storages(text, [new])).storage, [new])
    assert with_storages(text, []) == 'broker=[{name="b1"}]\n'
