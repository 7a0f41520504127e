"""Live brokers and clients, simulated: whatever happens to connections and programs, what is owed
arrives once, and nothing else does."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simulation_scenarios import FILTERS
from simulation_wire_scenarios import (
    ROUTINGS,
    check_wire,
    clients_of,
    everywhere,
    nobody_reads_logs,
    on_links,
    run_wire,
    wire_of,
    wire_setup,
    with_a_stop,
    with_deaths,
)

from reefcast.errors import ConfigurationError, InternalError
from reefcast.overlay.topology import names, path, star
from reefcast.simulation.checkers import Evidence, check
from reefcast.simulation.faults import Crash, Drop, Partition
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.wire.faults import Freeze, Pieces, Sever, Slices, Stop, Vanish, Wire
from reefcast.simulation.wire.world import WireWorld
from reefcast.simulation.world import Setup

NUMBERS = st.integers(0, 2**32)
ROUTING = st.sampled_from(ROUTINGS)


@pytest.mark.long
@settings(max_examples=30)
@given(NUMBERS, ROUTING)
@example(2, "flooding")  # a second connection, dialled while the first is not greeted yet
@example(1, "mesh")
def test_links_between_brokers_break_and_nothing_is_lost(number: int, routing: str) -> None:
    check_wire(number, routing, on_links)


@pytest.mark.long
@settings(max_examples=40)
@given(NUMBERS, ROUTING)
@example(33, "spr-mesh")
def test_connections_of_clients_break_too_and_sessions_stay(number: int, routing: str) -> None:
    check_wire(number, routing, everywhere)


@pytest.mark.long
@settings(max_examples=40)
@given(NUMBERS, ROUTING)
@example(57, "spr")  # a link that began anew twice at one end, and once at the other
@example(136316, "acyclic")  # published again under an advertisement that settles too late
@example(1065, "flooding")  # two hellos of one client, read in the wrong order
def test_brokers_die_and_only_what_they_had_in_memory_is_lost(number: int, routing: str) -> None:
    check_wire(number, routing, with_deaths)


@pytest.mark.long
@settings(max_examples=20)
@given(NUMBERS, ROUTING)
@example(5, "spr")
@example(6, "tid-s")
def test_a_broker_stops_while_links_break_and_nothing_is_lost(number: int, routing: str) -> None:
    assert check_wire(number, routing, with_a_stop).result().damaged == frozenset()


@pytest.mark.soak
@pytest.mark.parametrize("routing", ROUTINGS)
def test_thousands_of_runs(routing: str) -> None:
    for number in range(1000):
        for faults in (on_links, everywhere, with_deaths, with_a_stop):
            simulation = check_wire(number, routing, faults)
            assert faults is not with_a_stop or not simulation.result().damaged


# --- the two simulators ---------------------------------------------------------------------------


def play(simulation: Simulation, clients: dict[str, str], rng: random.Random) -> set[tuple]:
    """Change claims only while nothing is published, so that both simulators owe the same; return
    who got what under which handle."""
    handles: list[int] = []
    for phase in range(3):
        start_s = 20.0 * phase + 1.0
        for name, at in clients.items():
            at_s = start_s + rng.uniform(0.0, 1.0)
            kind = rng.choice(("subscribe", "advertise", "withdraw", "nothing"))
            if kind == "subscribe":
                handles.append(simulation.subscribe(name, at, rng.choice(FILTERS), at_s))
            elif kind == "advertise":
                handles.append(simulation.advertise(name, at, rng.choice(FILTERS), at_s))
            elif kind == "withdraw" and handles:
                simulation.withdraw(handles.pop(rng.randrange(len(handles))), start_s + 2.0)
        for name, at in clients.items():
            for _ in range(3):
                attributes = {"a": rng.randint(0, 5), "s": rng.choice(("x", "y", "z"))}
                simulation.publish(name, at, attributes, start_s + 10.0 + rng.uniform(0.0, 1.0))
    with nobody_reads_logs():
        simulation.run()
    check(simulation).require()
    claims = {(claim.client, claim.number): claim.handle for claim in simulation.result().claims}
    rows = Evidence(simulation).delivered
    return {(who, seq, client, claims[client, number]) for who, seq, client, number in rows}


@pytest.mark.long
@settings(max_examples=12)
@given(NUMBERS, st.sampled_from(("flooding", "acyclic", "spr", "idr", "tid-s", "tid-d")))
def test_both_simulators_deliver_the_same(number: int, routing: str) -> None:
    rng = random.Random(number)
    setup = wire_setup(rng, routing)
    clients = clients_of(setup, rng)
    wire = wire_of(rng, [])
    plain, live = Simulation(setup), Simulation(setup, wire=wire)
    assert play(plain, clients, random.Random(number)) == play(live, clients, random.Random(number))
    assert plain.result().refused == live.result().refused


# --- one seed, one run ----------------------------------------------------------------------------


def facts(number: int) -> tuple[int, float, list[tuple]]:
    simulation = run_wire(number, "acyclic", with_deaths)
    result = simulation.result()
    return result.unseed, result.duration_s, Evidence(simulation).delivered


@pytest.mark.long
def test_one_seed_gives_one_run() -> None:
    once = {number: facts(number) for number in (1, 2)}
    for number, found in once.items():
        assert facts(number) == found
    assert once[1][0] != once[2][0]


def test_the_order_of_sets_is_no_part_of_a_run() -> None:
    """Another process hashes strings differently, and has its objects at other addresses."""
    code = "from test_simulation_wire import facts; print(*(facts(n)[0] for n in range(3)))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == [str(facts(n)[0]) for n in range(3)]


# --- single faults --------------------------------------------------------------------------------


def one_run(
    wire: Wire, subscribers: Mapping[str, str] | None = None, **setup: object
) -> Simulation:
    """Return a run of three brokers in a row, with ten events per second from one end to the other
    for three seconds. `subscribers`: further ones, beside s, and their brokers."""
    simulation = Simulation(replace(Setup(graph=path(names(3)), seed=1), **setup), wire=wire)
    for name, at in ({"s": "b3"} | dict(subscribers or {})).items():
        simulation.subscribe(name, at, "TRUE", 0.0)
    simulation.advertise("p", "b1", "TRUE", 0.0)
    for number in range(30):
        simulation.publish("p", "b1", {"n": number}, 1.0 + number / 10)
    with nobody_reads_logs():
        simulation.run()
    check(simulation).require()
    assert isinstance(simulation.world, WireWorld)
    assert simulation.world.problems() == []
    return simulation


def got(simulation: Simulation) -> list[int]:
    return [seq for _, seq, _, _ in Evidence(simulation).delivered]


ALL = list(range(1, 31))


@pytest.mark.parametrize("at", ["b1", "b2"])
@pytest.mark.parametrize(
    "after_bytes",
    [pytest.param(cut, marks=[pytest.mark.soak] if cut % 7 else []) for cut in range(1, 60)],
)
def test_a_link_is_cut_at_any_byte(at: str, after_bytes: int) -> None:
    cut = Sever(links=(("b1", "b2"),), at_s=1.55, at=at, after_bytes=after_bytes)
    assert got(one_run(Wire(faults=[cut]))) == ALL


@pytest.mark.parametrize("drains", [True, False])
@pytest.mark.parametrize("told", [(), ("b1",), ("b2",)])
def test_an_end_that_is_not_told_finds_out(told: tuple[str, ...], drains: bool) -> None:
    half = Vanish(links=(("b1", "b2"),), at_s=1.55, told=told, drains=drains)
    assert got(one_run(Wire(faults=[half]))) == ALL


@pytest.mark.parametrize("link", [("b1", "b2"), ("s", "b3"), ("p", "b1")])
def test_reads_of_one_byte(link: tuple[str, str]) -> None:
    assert got(one_run(Wire(faults=[Pieces(links=(link,), most=1)]))) == ALL


@pytest.mark.long
@pytest.mark.parametrize("name", ["b1", "b2", "b3", "s", "p"])
def test_a_program_is_frozen_for_longer_than_anybody_waits(name: str) -> None:
    simulation = one_run(Wire(faults=[Freeze(name=name, from_s=1.55, to_s=15.0)]))
    assert got(simulation) == ALL
    assert (simulation.deliveries().time_us >= 15e6).any()


def test_a_client_whose_connection_breaks_keeps_its_session() -> None:
    simulation = one_run(Wire(faults=[Sever(links=(("s", "b3"),), at_s=1.55)]))
    assert isinstance(simulation.world, WireWorld)
    client = simulation.world.clients["s"]
    assert (got(simulation), client.resumed, client.anew) == (ALL, 1, [])
    assert len(client.claims) == 1


def test_a_client_of_a_broker_that_dies_asks_anew() -> None:
    simulation = one_run(Wire(), faults=[Crash("b3", 1.55, 2.05)])
    assert isinstance(simulation.world, WireWorld)
    first, second = simulation.world.clients["s"].claims
    assert first.ended_s == pytest.approx(1.55) and second.requested_s > 2.05
    assert set(ALL[15:]) <= set(got(simulation)) | {n for n in ALL if n / 10 < second.settled_s}


def test_a_broker_is_told_to_stop_and_comes_back() -> None:
    simulation = one_run(Wire(faults=[Stop(broker="b2", at_s=1.55, restart_s=2.5)]))
    assert got(simulation) == ALL


@pytest.mark.parametrize("link", [("b2", "b3"), ("b1", "b2")])
@pytest.mark.parametrize("at_s", [1.51, 1.53, 1.55])
def test_a_broker_that_stops_hands_over_what_it_has_though_a_link_breaks(
    link: tuple[str, str], at_s: float
) -> None:
    """b2 dials one of its neighbours, and the other one dials it."""
    stop = Stop(broker="b2", at_s=1.525, restart_s=2.5)
    simulation = one_run(
        Wire(faults=[stop, Sever(links=(link,), at_s=at_s)]), link=LinkSpec(latency_s=0.02)
    )
    assert (got(simulation), simulation.result().damaged) == (ALL, frozenset())


def test_a_broker_that_stops_takes_over_nothing_from_who_comes_anew() -> None:
    """b2 waits for the answer of b4; what b1 would send it meanwhile is for b3, which is away."""
    wire = Wire(faults=[Stop(broker="b2", at_s=1.525, restart_s=4.0)])
    simulation = one_run(
        wire,
        routing="flooding",
        graph=star(["b2", "b1", "b3", "b4"]),
        faults=[
            Crash("b3", 1.45, 4.5),
            Crash("b1", 1.55, 1.58),
            Partition((("b2", "b4"),), 1.45, 3.5),
        ],
    )
    was_in_b2 = {("p", 6)}
    assert simulation.result().damaged == was_in_b2


def test_a_broker_that_stops_waits_a_moment_for_a_neighbour_that_died() -> None:
    wire = Wire(faults=[Stop(broker="b2", at_s=1.525, restart_s=1.6)])
    simulation = one_run(wire, subscribers={"at b2": "b2"}, faults=[Crash("b3", 1.52, 9.0)])
    assert isinstance(simulation.world, WireWorld)
    _, again = simulation.world.clients["at b2"].claims
    assert 2.5 < again.requested_s < 4.0


def test_a_broker_that_dies_in_the_middle_loses_what_it_had_in_memory() -> None:
    simulation = one_run(Wire(), faults=[Crash("b2", 1.55, 2.5)])
    lost = {seq for _, seq in simulation.result().damaged}
    assert set(ALL) - set(got(simulation)) <= lost and len(lost) <= 1


def test_bytes_wait_for_the_end_of_a_partition() -> None:
    away = Partition((("b1", "b2"),), 1.55, 2.55)
    simulation = one_run(Wire(), faults=[away])
    times = simulation.deliveries().time_us
    assert got(simulation) == ALL
    assert not ((times > 1.6e6) & (times < 2.55e6)).any()


def test_work_is_done_in_slices() -> None:
    """What comes in one read is handled in many turns, in order."""
    slow = [Slices(broker=broker, share=1.0) for broker in names(3)]
    assert got(one_run(Wire(faults=slow))) == ALL


# --- what cannot be -------------------------------------------------------------------------------


def test_what_happens_to_messages_alone_is_refused(tmp_path) -> None:
    setup = Setup(graph=path(names(3)))
    with pytest.raises(ConfigurationError, match="to messages, not to bytes"):
        Simulation(replace(setup, faults=[Drop(share=0.1)]), wire=True)
    with pytest.raises(ConfigurationError, match="traces"):
        Simulation(replace(setup, trace=TraceOptions(tmp_path)), wire=True)
    simulation = Simulation(setup, wire=True)
    with pytest.raises(ConfigurationError, match="no broker named"):
        simulation.subscribe("s", "b9", "TRUE", 0.0)


def test_an_error_in_a_program_ends_the_run(monkeypatch) -> None:
    simulation = Simulation(Setup(graph=path(names(2))), wire=True)
    simulation.publish("p", "b1", {"a": 1}, 0.5)
    monkeypatch.setattr(
        "reefcast.server.connection.Connection.data_received", lambda *_: {}["no such thing"]
    )
    with pytest.raises(InternalError, match="callback"):
        simulation.run()


def test_simulated_messages_need_no_live_brokers() -> None:
    code = (
        "import sys, reefcast.simulation.simulation\n"
        "print([name for name in sys.modules if name == 'asyncio'"
        " or name.startswith(('reefcast.server', 'reefcast.client'))])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"
