"""Storages in the simulator, and clients that ask them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_history_scenarios import QUESTIONS, changed, reachable_from

from reefcast.errors import ConfigurationError
from reefcast.model.filters import parse_filter
from reefcast.model.patterns import topic_pattern_covers, topic_patterns_meet
from reefcast.model.publication import Publication, PublicationId
from reefcast.model.topics import topic_patterns_of
from reefcast.overlay.topology import names, path, random_tree
from reefcast.simulation.faults import Crash
from reefcast.simulation.history import Asked
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.plain import PlainKernel
from reefcast.simulation.simulation import Result, Simulation
from reefcast.simulation.world import Setup

NUMBERS = st.integers(0, 2**32)


def stored_near(simulation: Simulation, broker: str) -> list[str]:
    """The topics and patterns that can be asked for from there."""
    near = reachable_from(simulation, broker)
    return [
        topic
        for client in simulation.world.clients.values()
        if client.broker in near and client.past and (storage := client.past.storage)
        if storage.handle in client.current
        for topic in storage.topics
    ]


def twin(simulation: Simulation, result: Result, asked: Asked) -> list[PublicationId] | None:
    """What should be found once all is quiet: a look at each publication. None: an error."""
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
    """A question of each kind, by clients at some brokers that are up."""
    rng = random.Random(number)
    nodes = simulation.world.nodes
    up = [name for name, node in nodes.items() if node.up]
    handles = [
        simulation.request(f"e-{at}", at, text, simulation.now_s, patience_s=1.0)
        for text in QUESTIONS
        for at in rng.sample(up, min(len(up), 2))
    ]
    result = simulation.run(until_s=simulation.now_s + 100)
    return [asked for asked in result.asked if asked.handle in handles], result


def check_ended(simulation: Simulation, result: Result) -> None:
    """Whatever happened: each question is over, and gave nothing twice or out of its order."""
    by_time = order_of(result)
    for asked in result.asked:
        if not simulation.world.nodes[asked.broker].up:
            continue
        assert asked.ended_s < math.inf, asked
        if not asked.question.handover_s:
            assert asked.found == sorted(set(asked.found), key=by_time)
        assert len(set(asked.found)) == len(asked.found)
    for client in simulation.world.clients.values():
        if client.past and client.past.storage:
            assert client.past.storage.failed == ""


@settings(max_examples=25, deadline=None)
@given(number=NUMBERS)
def test_once_quiet_all_that_was_stored_is_found(number: int) -> None:
    simulation = changed(number, Kernel, harm=False)
    at_the_end, result = asked_at_the_end(simulation, number)
    check_ended(simulation, result)
    assert not result.damaged
    for asked in at_the_end:
        expected = twin(simulation, result, asked)
        if expected is None:
            assert asked.error.startswith("nobody stores")
        else:
            assert (asked.error, asked.found) == ("", expected)


@settings(max_examples=25, deadline=None)
@given(number=NUMBERS)
def test_after_crashes_it_is_found_or_nobody_has_it(number: int) -> None:
    """What was stored while a broker was down its storages may lack; who has all of a topic gives
    all that it has."""
    simulation = changed(number, Kernel, harm=True)
    at_the_end, result = asked_at_the_end(simulation, number)
    check_ended(simulation, result)
    published = {one.publication.id: one.publication for one in result.published}
    for asked in at_the_end:
        expected = twin(simulation, result, asked)
        assert asked.error.startswith("nobody stores") == (expected is None)
        assert (asked.error == "") == (expected is not None)
        assert set(asked.found) <= set(expected or ())
        filter = parse_filter(asked.question.filter)
        if len(asked.hops) == 1:
            (name,) = asked.hops
            past = simulation.world.clients[name].past
            assert past is not None
            assert past.storage is not None
            kept = {id for id in past.storage.memory if filter.matches(published[id])}
            assert set(asked.found) == kept


def outcome(number: int, kernel: type[Kernel | PlainKernel]) -> tuple[object, ...]:
    simulation = changed(number, kernel, harm=number % 2 == 1)
    result = simulation.run()
    asked = [
        (a.handle, round(a.asked_s, 6), round(a.ended_s, 6), a.error, a.found, a.hops)
        for a in result.asked
    ]
    return asked, result.messages, result.counters, result.delivered_clients, result.unseed


@settings(max_examples=25, deadline=None)
@given(number=NUMBERS)
def test_the_fast_kernel_asks_and_answers_as_its_plain_twin(number: int) -> None:
    assert outcome(number, Kernel) == outcome(number, PlainKernel)


def test_one_seed_gives_one_run() -> None:
    assert outcome(7, Kernel) == outcome(7, Kernel)


@settings(max_examples=20, deadline=None)
@given(number=NUMBERS)
def test_who_subscribes_and_then_asks_misses_nothing(number: int) -> None:
    """The answer stays open for longer than anything is under way: what was published is in it, or
    was delivered, or both."""
    rng = random.Random(number)
    tree = random_tree(names(rng.randint(2, 8)), rng)
    brokers = list(tree)
    link = LinkSpec(rng.uniform(1e-4, 0.02), jitter_s=rng.choice((0.0, 0.005)))
    simulation = Simulation(Setup(graph=tree, seed=number, link=link))
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


def line(*, crash: Crash | None = None) -> Simulation:
    """Brokers b1 to b5 in a line."""
    faults = [] if crash is None else [crash]
    return Simulation(Setup(graph=path(names(5)), seed=1, faults=faults))


def publish(simulation: Simulation, start_s: float, number: int) -> None:
    """By a client in the middle, a publication each 10 ms, `n` counting from 0."""
    for n in range(number):
        simulation.publish("p", "b3", {"n": n}, start_s + 0.01 * n, topics=("t",))


def found(result: Result, handle: int) -> list[int]:
    """The attributes `n`."""
    values = {one.publication.id: one.publication.attributes["n"] for one in result.published}
    (asked,) = (asked for asked in result.asked if asked.handle == handle)
    assert asked.error == ""
    return [int(values[id]) for id in asked.found]


def test_the_nearest_storage_answers_over_the_links_between() -> None:
    simulation = line()
    simulation.store("near", "b5", ["t"], 0.0)
    simulation.store("far", "b1", ["t"], 0.0)
    publish(simulation, 1.0, 10)
    handle = simulation.request("c", "b4", "topic = 't' AND n >= 4", 2.0)
    result = simulation.run()
    assert found(result, handle) == [4, 5, 6, 7, 8, 9]
    (asked,) = result.asked
    assert asked.hops == {"near": 1}
    # Over one link of 1 ms: the request, what was found, and the end.
    assert {kind: result.messages[kind] for kind in ("request", "items", "end")} == {
        "request": 1,
        "items": 1,
        "end": 1,
    }
    assert 0.002 < asked.ended_s - asked.asked_s < 0.003


def test_times_limits_and_lifetimes() -> None:
    simulation = line()
    simulation.store("s", "b1", ["t"], 0.0, lifetime_s=1.5)
    publish(simulation, 1.0, 100)
    within = simulation.request("c", "b2", "topic = 't'", 2.0, since_s=1.5, until_s=1.53)
    first = simulation.request("c", "b2", "topic = 't'", 2.0, limit=3)
    forgotten = simulation.request("c", "b2", "topic = 't'", 3.4)
    result = simulation.run()
    assert found(result, within) == [50, 51, 52]
    assert found(result, first) == [0, 1, 2]
    assert found(result, forgotten) == list(range(91, 100))


def test_an_open_answer_has_what_comes_in_meanwhile() -> None:
    simulation = line()
    simulation.store("s", "b1", ["t"], 0.0)
    publish(simulation, 1.0, 100)
    handle = simulation.request("c", "b5", "topic = 't'", 1.5, handover_s=0.2)
    result = simulation.run()
    got = found(result, handle)
    assert sorted(got) == list(range(len(got)))
    assert 70 <= len(got) <= 71
    assert result.asked[0].ended_s == pytest.approx(1.7, abs=0.02)


def test_many_go_by_credit() -> None:
    """More than a window of 4 096."""
    simulation = line()
    simulation.store("s", "b2", ["t"], 0.0)
    for n in range(9_000):
        simulation.publish("p", "b2", {"n": n}, 1.0 + n * 1e-4, topics=("t",))
    handle = simulation.request("c", "b3", "topic = 't'", 3.0)
    result = simulation.run()
    assert found(result, handle) == list(range(9_000))
    assert result.messages["more"] > 0


def test_a_storage_that_was_away_asks_the_others_first() -> None:
    simulation = line(crash=Crash("b5", 1.2, 1.8))
    simulation.store("away", "b5", ["t"], 0.0)
    simulation.store("there", "b1", ["t"], 0.0)
    publish(simulation, 1.0, 100)
    handle = simulation.request("c", "b5", "topic = 't'", 3.0)
    result = simulation.run()
    assert found(result, handle) == list(range(100))
    assert result.asked[0].hops == {"away": 0}


def test_the_next_one_takes_over_when_a_broker_goes_for_good() -> None:
    simulation = line(crash=Crash("b5", 1.2, math.inf, link_patience_s=0.5))
    simulation.store("gone", "b5", ["t"], 0.0)
    simulation.store("there", "b1", ["t"], 0.0)
    publish(simulation, 1.0, 10)
    while_away = simulation.request("c", "b4", "topic = 't'", 1.3, patience_s=0.2)
    after = simulation.request("c", "b4", "topic = 't'", 3.0)
    result = simulation.run()
    assert found(result, while_away) == found(result, after) == list(range(10))
    assert [asked.hops for asked in result.asked] == [{"there": 3}] * 2


def test_a_storage_that_is_given_up_is_not_asked() -> None:
    simulation = line()
    handle = simulation.store("s", "b5", ["t"], 0.0)
    publish(simulation, 1.0, 10)
    simulation.withdraw(handle, 2.0)
    simulation.request("c", "b4", "topic = 't'", 3.0)
    (asked,) = simulation.run().asked
    assert asked.error.startswith("nobody stores 't'")


def test_what_can_not_be_asked_is_refused() -> None:
    simulation = line()
    simulation.store("s", "b1", ["t"], 0.0)
    with pytest.raises(ConfigurationError, match="is a storage already"):
        simulation.store("s", "b1", ["u"], 0.0)
    with pytest.raises(ConfigurationError, match="storages keep topics"):
        simulation.request("c", "b1", "price > 3", 0.0)
    with pytest.raises(ConfigurationError, match="sits at"):
        simulation.request("s", "b2", "topic = 't'", 0.0)
