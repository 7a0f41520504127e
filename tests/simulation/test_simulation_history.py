"""Live storages in simulated time, and clients that ask them. Whatever happens to connections and
brokers, what was stored is found."""

from __future__ import annotations

import gc
import math
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_history_scenarios import PATIENCE_S, QUESTIONS, changed, reachable_from
from simulation_wire_scenarios import (
    Faults,
    everywhere,
    nobody_reads_logs,
    on_links,
    with_deaths,
)

from reefcast.errors import ConfigurationError, FilterSyntaxError
from reefcast.model.filters import parse_filter
from reefcast.model.patterns import topic_pattern_covers, topic_patterns_meet
from reefcast.model.publication import Publication, PublicationId
from reefcast.model.topics import topic_patterns_of
from reefcast.network.sections import LimitsSection
from reefcast.overlay.topology import names, path, random_tree
from reefcast.simulation.checkers import check
from reefcast.simulation.clients import Asked
from reefcast.simulation.faults import Crash
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.simulation import Result, Simulation
from reefcast.simulation.wire.clients import WireClient
from reefcast.simulation.wire.faults import Freeze, Restart, Sever, Wire
from reefcast.simulation.wire.storages import WireStorage
from reefcast.simulation.wire.world import WireWorld
from reefcast.simulation.world import Setup

NUMBERS = st.integers(0, 2**32)


def storages(simulation: Simulation) -> dict[str, WireStorage]:
    """Return the storages that have not been given up, by name."""
    assert isinstance(simulation.world, WireWorld)
    return {c.name: c.storage for c in simulation.world.clients.values() if c.storage is not None}


def stored_near(simulation: Simulation, broker: str) -> list[str]:
    """Return the topics and patterns that can be asked for at that broker."""
    near = reachable_from(simulation, broker)
    return [
        topic
        for name, storage in storages(simulation).items()
        if simulation.world.clients[name].broker in near
        for topic in storage.topics
    ]


def twin(simulation: Simulation, result: Result, asked: Asked) -> list[PublicationId] | None:
    """Return what must be found once all is quiet, by a look at each publication; None: an
    error."""
    filter = parse_filter(asked.question.filter)
    stored = stored_near(simulation, asked.broker)
    found: list[Publication] = []
    for about in topic_patterns_of(filter) or ():
        kept = [topic for topic in stored if topic_patterns_meet(about, topic)]
        whole = any(topic_pattern_covers(topic, about) for topic in kept)
        if not kept:
            return None
        for one in result.published:
            publication = one.publication
            (topic,) = publication.topics
            wanted = topic_pattern_covers(about, topic) and filter.matches(publication)
            if wanted and (whole or any(topic_pattern_covers(each, topic) for each in kept)):
                found.append(publication)
    return sorted({p.id for p in found}, key=order_of(result))


def order_of(result: Result) -> Callable[[PublicationId], tuple[int, str, int]]:
    times = {one.publication.id: one.publication.time_us for one in result.published}
    return lambda id: (times[id], *id)


def asked_at_the_end(simulation: Simulation, number: int) -> tuple[list[Asked], Result]:
    """Ask a question of each kind, as clients of some brokers that are up."""
    rng = random.Random(number)
    nodes = simulation.world.nodes
    up = [name for name, node in nodes.items() if node.up]
    handles = [
        simulation.request(f"e-{at}", at, text, simulation.now_s, patience_s=PATIENCE_S)
        for text in QUESTIONS
        for at in rng.sample(up, min(len(up), 2))
    ]
    with nobody_reads_logs():
        result = simulation.run(until_s=simulation.now_s + 20)
    return [asked for asked in result.asked if asked.handle in handles], result


def check_ended(simulation: Simulation, result: Result) -> None:
    """Check that each question is over, and gave nothing twice or out of order."""
    by_time = order_of(result)
    for asked in result.asked:
        if not simulation.world.nodes[asked.broker].up:
            continue
        assert asked.ended_s < math.inf, asked
        if not asked.question.handover_s:
            assert asked.found == sorted(set(asked.found), key=by_time)
        assert len(set(asked.found)) == len(asked.found)
    assert isinstance(simulation.world, WireWorld)
    assert simulation.world.problems() == []


@pytest.mark.long
@settings(max_examples=6)
@given(number=NUMBERS, faults=st.sampled_from((on_links, everywhere)))
def test_once_quiet_all_that_was_stored_is_found(number: int, faults: Faults) -> None:
    simulation = changed(number, faults)
    at_the_end, result = asked_at_the_end(simulation, number)
    check_ended(simulation, result)
    assert not result.damaged
    for asked in at_the_end:
        expected = twin(simulation, result, asked)
        if expected is None:
            assert asked.error.startswith("nobody stores")
        else:
            assert (asked.error, asked.found) == ("", expected)


@pytest.mark.long
@settings(max_examples=6)
@given(number=NUMBERS)
def test_after_deaths_it_is_found_or_nobody_has_it(number: int) -> None:
    """A storage may lack what was stored while its broker was down; if it covers the whole topic,
    it gives all that it has."""
    simulation = changed(number, with_deaths)
    at_the_end, result = asked_at_the_end(simulation, number)
    check_ended(simulation, result)
    published = {one.publication.id: one.publication for one in result.published}
    kept = {
        name: {publication.id for publication in storage.kept()}
        for name, storage in storages(simulation).items()
    }
    for asked in at_the_end:
        expected = twin(simulation, result, asked)
        assert asked.error.startswith("nobody stores") == (expected is None)
        assert (asked.error == "") == (expected is not None)
        assert set(asked.found) <= set(expected or ())
        filter = parse_filter(asked.question.filter)
        if len(asked.hops) == 1:
            (name,) = asked.hops
            assert set(asked.found) == {id for id in kept[name] if filter.matches(published[id])}


def outcome(number: int) -> tuple[object, ...]:
    simulation = changed(number, with_deaths)
    result = simulation.result()
    asked = [(a.handle, a.asked_s, a.ended_s, a.error, a.found, a.hops) for a in result.asked]
    return asked, result.messages, result.counters, result.unseed


@pytest.mark.long
@pytest.mark.parametrize("number", [1, pytest.param(0, marks=pytest.mark.soak)])
def test_one_seed_gives_one_run(number: int) -> None:
    assert outcome(number) == outcome(number)


@pytest.mark.long
@settings(max_examples=5)
@given(number=NUMBERS)
def test_who_subscribes_and_then_asks_misses_nothing(number: int) -> None:
    """The answer stays open for longer than anything is under way: each publication is in it, or
    was delivered, or both."""
    rng = random.Random(number)
    tree = random_tree(names(rng.randint(2, 8)), rng)
    brokers = list(tree)
    link = LinkSpec(rng.uniform(1e-4, 0.02), jitter_s=rng.choice((0.0, 0.005)))
    simulation = Simulation(Setup(graph=tree, seed=number, link=link), wire=True)
    for name in ("s1", "s2"):
        simulation.store(name, rng.choice(brokers), ["t"], 0.0)
    for _ in range(200):
        at_s, n = rng.uniform(3.0, 6.0), rng.randint(0, 2)
        client = rng.choice(brokers)
        simulation.publish(f"p-{client}", client, {"n": n}, at_s, topics=("t",))
    home, text = rng.choice(brokers), "topic = 't' AND n > 0"
    simulation.subscribe("c", home, text, 3.5)
    simulation.request("c", home, text, 4.5, handover_s=1.0)
    result = simulation.run()
    (asked,) = result.asked
    wanted = {
        one.publication.id for one in result.published if one.publication.attributes["n"] != 0
    }
    came = simulation.deliveries()
    live = {
        (publisher, int(seq))
        for publisher, seq, client in zip(came.publisher, came.seq, came.client, strict=True)
        if client == "c"
    }
    assert set(asked.found) | live == wanted
    assert asked.error == ""
    assert len(set(asked.found)) == len(asked.found)
    assert len(live) < len(wanted)


# --- single cases ---------------------------------------------------------------------------------


START_S = 10.0
"""By then, storages have told each other everything that they have."""
NO_WAY = LinkSpec(latency_s=1e-6)


def line(*, crash: Crash | None = None, wire: Wire | None = None) -> Simulation:
    """Return brokers b1 to b5 in a line."""
    faults = [] if crash is None else [crash]
    setup = Setup(graph=path(names(5)), seed=1, faults=faults)
    return Simulation(setup, wire=wire or Wire(client_link=NO_WAY))


def publish(simulation: Simulation, start_s: float, number: int) -> None:
    """Publish an event each 10 ms, as a client in the middle, with `n` counting from 0."""
    for n in range(number):
        simulation.publish("p", "b3", {"n": n}, start_s + 0.01 * n, topics=("t",))


def found(result: Result, handle: int) -> list[int]:
    """Return the attributes `n` of what was found."""
    values = {one.publication.id: one.publication.attributes["n"] for one in result.published}
    (asked,) = (asked for asked in result.asked if asked.handle == handle)
    assert asked.error == ""
    return [int(values[id]) for id in asked.found]


def test_the_nearest_storage_answers_over_the_links_between() -> None:
    simulation = line()
    simulation.store("near", "b5", ["t"], 0.0)
    simulation.store("far", "b1", ["t"], 0.0)
    publish(simulation, START_S, 10)
    handle = simulation.request("c", "b4", "topic = 't' AND n >= 4", START_S + 1)
    before = simulation.run(until_s=START_S).messages
    result = simulation.run()
    check(simulation).require()
    assert found(result, handle) == [4, 5, 6, 7, 8, 9]
    (asked,) = result.asked
    assert asked.hops == {"near": 1}
    # Over one link of 1 ms: the request, what was found, and the end.
    for kind in ("request", "items", "end"):
        assert result.messages[kind] - before.get(kind, 0) == 1
    assert 0.002 < asked.ended_s - asked.asked_s < 0.003


def test_times_limits_and_lifetimes() -> None:
    simulation = line()
    simulation.store("s", "b1", ["t"], 0.0, lifetime_s=1.5)
    publish(simulation, START_S, 100)
    within = simulation.request("c", "b2", "topic = 't'", 11.0, since_s=10.5, until_s=10.53)
    first = simulation.request("c", "b2", "topic = 't'", 11.0, limit=3)
    forgotten = simulation.request("c", "b2", "topic = 't'", 12.4)
    result = simulation.run()
    assert found(result, within) == [50, 51, 52]
    assert found(result, first) == [0, 1, 2]
    assert found(result, forgotten) == list(range(91, 100))


def test_an_open_answer_has_what_comes_in_meanwhile() -> None:
    simulation = line()
    simulation.store("s", "b1", ["t"], 0.0)
    publish(simulation, START_S, 100)
    handle = simulation.request("c", "b5", "topic = 't'", START_S + 0.5, handover_s=0.2)
    result = simulation.run()
    got = found(result, handle)
    assert sorted(got) == list(range(len(got)))
    assert 70 <= len(got) <= 71
    assert result.asked[0].ended_s == pytest.approx(START_S + 0.7, abs=0.02)


@pytest.mark.long
def test_many_go_by_credit() -> None:
    """There are more than a window of 4 096."""
    simulation = line()
    simulation.store("s", "b2", ["t"], 0.0)
    for n in range(4_500):
        simulation.publish("p", "b2", {"n": n}, START_S + n * 1e-4, topics=("t",))
    handle = simulation.request("c", "b3", "topic = 't'", START_S + 2)
    result = simulation.run()
    assert found(result, handle) == list(range(4_500))
    assert result.messages["more"] > 0


def test_a_storage_that_was_away_asks_the_others_first() -> None:
    simulation = line(crash=Crash("b5", START_S + 0.2, START_S + 0.8))
    simulation.store("away", "b5", ["t"], 0.0)
    simulation.store("there", "b1", ["t"], 0.0)
    publish(simulation, START_S, 100)
    handle = simulation.request("c", "b5", "topic = 't'", START_S + 10)
    result = simulation.run()
    assert found(result, handle) == list(range(100))
    assert result.asked[0].hops == {"away": 0}


def test_the_next_one_takes_over_when_a_broker_goes_for_good() -> None:
    wire = Wire(limits=LimitsSection(link_patience_s=0.5))
    simulation = line(crash=Crash("b5", START_S + 0.2, math.inf), wire=wire)
    simulation.store("gone", "b5", ["t"], 0.0)
    simulation.store("there", "b1", ["t"], 0.0)
    publish(simulation, START_S, 10)
    while_away = simulation.request("c", "b4", "topic = 't'", START_S + 0.3, patience_s=0.2)
    after = simulation.request("c", "b4", "topic = 't'", START_S + 2)
    result = simulation.run()
    assert found(result, while_away) == found(result, after) == list(range(10))
    assert [asked.hops for asked in result.asked] == [{"there": 3}] * 2


def test_a_storage_that_is_given_up_is_not_asked() -> None:
    simulation = line()
    handle = simulation.store("s", "b5", ["t"], 0.0)
    publish(simulation, START_S, 10)
    simulation.withdraw(handle, START_S + 1)
    simulation.request("c", "b4", "topic = 't'", START_S + 2)
    (asked,) = simulation.run().asked
    assert asked.error.startswith("nobody stores 't'")
    client = simulation.world.clients["s"]
    assert isinstance(client, WireClient)
    assert client.storage is None and client.live is None


@pytest.mark.long
@pytest.mark.parametrize("name", ["near", "b4", "c"])
def test_who_is_frozen_is_not_waited_for_or_goes_on(name: str) -> None:
    frozen = Freeze(name=name, from_s=START_S + 0.5, to_s=START_S + 6.0)
    simulation = line(wire=Wire(faults=[frozen]))
    simulation.store("near", "b5", ["t"], 0.0)
    simulation.store("far", "b1", ["t"], 0.0)
    publish(simulation, START_S, 100)
    during = simulation.request("c", "b5", "topic = 't' AND n < 10", START_S + 2)
    after = simulation.request("c", "b5", "topic = 't'", START_S + 20)
    with nobody_reads_logs():
        result = simulation.run()
    assert found(result, during) == list(range(10))
    assert found(result, after) == list(range(100))


@pytest.mark.long
@pytest.mark.parametrize("other", [True, False])
def test_a_storage_that_is_killed_starts_again_on_what_it_has(other: bool) -> None:
    killed = Restart(client="s", at_s=START_S + 0.505, restart_s=START_S + 0.755)
    simulation = line(wire=Wire(faults=[killed]))
    simulation.store("s", "b5", ["t"], 0.0)
    if other:
        simulation.store("far", "b1", ["t"], 0.0)
    publish(simulation, START_S, 100)
    during = simulation.request("c", "b5", "topic = 't' AND n < 10", START_S + 0.6)
    after = simulation.request("c", "b5", "topic = 't'", START_S + 10)
    with nobody_reads_logs():
        result = simulation.run()
    check(simulation).require()
    got = found(result, after)
    assert result.asked[1].hops == {"s": 0}
    if other:
        assert found(result, during) == list(range(10))
        assert got == list(range(100))
    else:
        assert result.asked[0].error.startswith("nobody stores")
        assert got == [n for n in range(100) if n in got]
        assert {*range(50), *range(80, 100)} <= set(got)


@pytest.mark.long
@pytest.mark.parametrize("link", [("c", "b3"), ("b2", "b3"), ("s", "b2")])
@pytest.mark.parametrize("after_bytes", [pytest.param(1, marks=pytest.mark.soak), 20_000])
def test_an_answer_that_is_cut_goes_on(link: tuple[str, str], after_bytes: int) -> None:
    asked_s = START_S + 2
    cuts = [Sever(links=(link,), at_s=asked_s, at=end, after_bytes=after_bytes) for end in link]
    simulation = line(wire=Wire(client_link=LinkSpec(1e-4), faults=cuts))
    simulation.store("s", "b2", ["t"], 0.0)
    simulation.store("far", "b5", ["t"], 0.0)
    for n in range(900):
        simulation.publish("p", "b2", {"n": n}, START_S + n * 1e-4, topics=("t",))
    handle = simulation.request("c", "b3", "topic = 't'", asked_s)
    with nobody_reads_logs():
        assert found(simulation.run(), handle) == list(range(900))


def test_what_can_not_be_asked_is_refused() -> None:
    simulation = line()
    simulation.store("s", "b1", ["t"], 0.0)
    with pytest.raises(ConfigurationError, match="is a storage already"):
        simulation.store("s", "b1", ["u"], 0.0)
    with pytest.raises(ConfigurationError, match="storages keep topics"):
        simulation.request("c", "b1", "price > 3", 0.0)
    with pytest.raises(ConfigurationError, match="sits at"):
        simulation.request("s", "b2", "topic = 't'", 0.0)
    with pytest.raises(FilterSyntaxError):
        simulation.store("s2", "b1", ["a/#/b"], 0.0)


def test_without_wire_there_is_no_history() -> None:
    simulation = Simulation(Setup(graph=path(names(2))))
    with pytest.raises(ConfigurationError, match="storages need live brokers"):
        simulation.store("s", "b1", ["t"], 0.0)
    with pytest.raises(ConfigurationError, match="give wire=True"):
        simulation.request("c", "b1", "topic = 't'", 0.0)


def test_histories_go_with_their_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    simulation = line()
    simulation.store("s", "b1", ["t"], 0.0)
    simulation.run()
    (made,) = tmp_path.glob("reefcast-simulated-*")
    del simulation
    gc.collect()
    assert not made.exists()
