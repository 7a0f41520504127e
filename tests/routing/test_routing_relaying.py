"""Sessions reached from any broker: searches and circuits between cores, whose messages arrive
in any order that links allow. For consumers that move under all faults see
`test_torture_promises`."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import ProtocolError
from reefcast.model.messages import LinkDown, LinkKind, LinkUp, Publish, ServiceMessage
from reefcast.model.publication import Publication
from reefcast.model.wire import encode_publication
from reefcast.sessions.messages import (
    Acknowledge,
    AddFilter,
    Attach,
    CloseSession,
    ConsumerEnded,
    Done,
    Failed,
    Handed,
    ListSessions,
    Note,
    Notes,
    OpenSession,
    ReadNotes,
    Sessions,
)
from reefcast.sessions.relay_messages import Cut, Here, Nowhere, ToClient, ToHome, Where
from reefcast_lab.torture.network import Network

LINE = [("a", "b"), ("b", "c")]
NAME = "s"


class Probe:
    """A client that asks what a test wants, and keeps the answers."""

    def __init__(self, network: Network, name: str, broker: str) -> None:
        self._network, self.name, self._broker = network, name, broker
        self.heard: list[ServiceMessage] = []
        network.clients[name] = self
        network.put(broker, LinkUp(LinkKind.CLIENT), name)

    def say(self, *messages: ServiceMessage) -> None:
        for message in messages:
            self._network.put(self._broker, message, self.name)

    def told(self, broker: str, message: Any) -> None:
        self.heard.append(message)

    def started(self, broker: str) -> None: ...

    def killed(self, broker: str) -> None: ...

    def leave(self) -> None:
        self._network.put(self._broker, LinkDown(), self.name)

    def answer(self, token: int) -> ServiceMessage:
        """Return the only answer to the request with this token."""
        [answer] = [each for each in self.heard if getattr(each, "token", 0) == token]
        return answer


class Unjudged:
    """A judge of writes that accepts all: these sessions have no owner who says what is right."""

    def judge(self, *_: object) -> list[str]:
        return []


class Unwatched(Network):
    def start(self, name: str) -> None:
        super().start(name)
        self.watches[name] = cast("Any", Unjudged())


def network_of(edges: Iterable[tuple[str, str]], seed: int = 0) -> Network:
    network = Unwatched(list(edges), seed, "flooding")
    network.settle()
    return network


def homes(network: Network) -> list[str]:
    return [n for n, core in network.cores.items() if core.delivering.hosting.has(("", NAME))]


def circuits(network: Network) -> dict[str, int]:
    figures = {name: core.delivering.relay.figures() for name, core in network.cores.items()}
    assert not any(each["session_searches"] for each in figures.values())
    return {name: each["session_circuits"] for name, each in figures.items()}


def opening(token: int = 1, *, here: bool = False) -> OpenSession:
    return OpenSession(token=token, session=NAME, here=here)


def published(network: Network, broker: str, payload: bytes = b"") -> None:
    """Have client `p` publish one event at a broker."""
    publication = Publication("p", 1, 0, {"x": 1}, (), payload)
    network.put(broker, Publish(publication, body=encode_publication(publication)), "p")


# --- who makes a session --------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.integers(2, 6), st.integers(0, 3))
def test_of_several_who_make_a_session_one_does(rng: Random, brokers: int, more: int) -> None:
    names = "abcdef"[:brokers]
    edges = {(names[rng.randrange(at)], names[at]) for at in range(1, brokers)}
    others = [(one, other) for one in names for other in names if one < other]
    edges.update(rng.sample(others, min(more, len(others))))
    network = network_of(sorted(edges), rng.randrange(1 << 30))
    probes = []
    for at, broker in enumerate(rng.choices(names, k=rng.randint(2, 5))):
        probes.append(Probe(network, f"q{at}", broker))
        probes[-1].say(opening())
        network.run(rng.choice((0, 1, 3, 10)))
    network.settle()
    assert len(homes(network)) == 1
    answers = [probe.answer(1) for probe in probes]
    assert sorted(each.value for each in answers if isinstance(each, Done)) == [
        *[0] * (len(probes) - 1),
        1,
    ]


def test_a_session_is_not_made_while_a_broker_cannot_be_asked() -> None:
    network = network_of(LINE)
    probe = Probe(network, "q", "a")
    network.kill("c")
    probe.say(opening(1))
    network.run(100)
    failed = probe.answer(1)
    assert isinstance(failed, Failed) and failed.again == "later"
    assert failed.reason.endswith(
        "asked now: c; wait for it, or make the session here all the same (here=True)"
    )
    probe.say(opening(2, here=True))
    network.run(100)
    assert probe.answer(2) == Done(token=2, value=1)
    assert homes(network) == ["a"]


@pytest.mark.parametrize("asked", [[("a", "b")], [("a", "b"), ("b", "c")]])
def test_a_broker_that_goes_while_it_is_asked_counts_as_missing(
    asked: list[tuple[str, str]],
) -> None:
    network = network_of(LINE)
    probe = Probe(network, "q", "a")
    probe.say(opening())
    for before, link in zip([None, *asked], asked, strict=False):
        if before is not None:
            network.step("frame", before)
        assert any(isinstance(each, Where) for each in network.links[link].frames)
    network.kill("c")
    network.run(100)
    failed = probe.answer(1)
    assert isinstance(failed, Failed) and failed.again == "later" and "now: c;" in failed.reason


def test_a_broker_that_others_reach_is_not_missing() -> None:
    network = network_of([*LINE, ("a", "c")])
    probe = Probe(network, "q", "a")
    network.break_link(("a", "c"))
    probe.say(opening())
    network.run(100)
    assert probe.answer(1) == Done(token=1, value=1)


def test_what_is_asked_about_no_session_is_answered_with_a_sentence() -> None:
    network = network_of(LINE)
    probe = Probe(network, "q", "a")
    probe.say(Attach(token=1, session=NAME, consumer=1, window=1))
    network.settle()
    failed = probe.answer(1)
    assert isinstance(failed, Failed) and failed.gone and not failed.again
    assert failed.reason == "there is no session 's' in this network"


# --- circuits -------------------------------------------------------------------------------------


def with_session(edges: Iterable[tuple[str, str]] = LINE, home: str = "c") -> Network:
    """Return a network with a session that has a subscription at its home; `p` publishes at `a`."""
    network = network_of(edges)
    Probe(network, "p", "a")
    owner = Probe(network, "owner", home)
    owner.say(opening(), AddFilter(token=2, session=NAME, filter="TRUE"))
    network.settle()
    assert homes(network) == [home]
    return network


def attached(network: Network, broker: str = "a", name: str = "q") -> Probe:
    probe = Probe(network, name, broker)
    probe.say(Attach(token=1, session=NAME, consumer=1, window=10))
    network.settle()
    assert probe.answer(1) == Done(token=1)
    return probe


@pytest.mark.parametrize("size", [0, 1_000_000])
def test_events_and_acknowledgements_pass(size: int) -> None:
    network = with_session()
    probe = attached(network)
    published(network, "a", bytes(size))
    network.run(100)  # and no time passes: it is handed out once
    [handed] = [each for each in probe.heard if isinstance(each, Handed)]
    [owed] = handed.events
    assert len(owed.body) > size
    probe.say(Acknowledge(token=2, consumer=1, positions=(owed.position,)))
    probe.say(ListSessions(token=3, session=NAME))
    network.settle()
    assert probe.answer(2) == Done(token=2)
    rows = probe.answer(3)
    assert isinstance(rows, Sessions)
    [row] = rows.rows
    assert (row.home, row.events, list(row.consumers.values())) == ("c", 0, [0])
    assert "q@a/" in next(iter(row.consumers))
    assert circuits(network) == {"a": 1, "b": 1, "c": 1}


def test_clients_of_a_broker_share_a_circuit_until_the_last_has_left() -> None:
    network = with_session()
    first, second = attached(network), attached(network, name="r")
    assert circuits(network) == {"a": 1, "b": 1, "c": 1}
    first.leave()
    network.settle()
    assert circuits(network) == {"a": 1, "b": 1, "c": 1}
    home = network.cores["c"].delivering.hosting
    assert len(home._consumers) == 1
    second.leave()
    network.settle()
    assert circuits(network) == {"a": 0, "b": 0, "c": 0}
    assert not home._consumers


@pytest.mark.parametrize("edge", LINE)
def test_both_ends_hear_that_a_link_between_them_broke(edge: tuple[str, str]) -> None:
    network = with_session()
    probe = attached(network)
    probe.say(ListSessions(token=2, session=NAME))  # on its way
    network.break_link(edge)
    network.run(100)
    reason = "the way to the broker that has session 's' broke"
    assert ConsumerEnded(consumer=1, reason=reason, again=True) in probe.heard
    assert probe.answer(2) == Failed(token=2, reason=reason, again="now")
    network.settle()
    assert circuits(network) == {"a": 0, "b": 0, "c": 0}
    assert not network.cores["c"].delivering.hosting._consumers
    probe.say(Attach(token=3, session=NAME, consumer=2, window=10))
    network.settle()
    assert probe.answer(3) == Done(token=3)


def test_a_client_whose_broker_cannot_reach_the_home_hears_so() -> None:
    network = with_session()
    probe = attached(network)
    network.kill("b")
    probe.say(Attach(token=2, session=NAME, consumer=2, window=10))
    network.run(100)
    assert probe.answer(2) == Failed(
        token=2, reason="session 's' may be at a broker that cannot be asked now: b", again="later"
    )


def test_a_session_that_was_made_anew_elsewhere_is_found_there() -> None:
    network = with_session()
    probe = attached(network)
    probe.say(CloseSession(token=2, session=NAME))
    network.settle()
    assert [each.again for each in probe.heard if isinstance(each, ConsumerEnded)] == [False]
    other = Probe(network, "r", "b")
    other.say(opening())
    network.settle()
    assert homes(network) == ["b"]
    probe.say(opening(3))
    network.settle()
    assert probe.answer(3) == Failed(
        token=3, reason="the way to the broker that has session 's' broke", again="now"
    )
    probe.say(opening(4))
    network.settle()
    assert probe.answer(4) == Done(token=4)
    assert homes(network) == ["b"]


# --- who takes a session over ---------------------------------------------------------------------


def test_who_takes_over_from_anywhere_is_handed_at_once_what_others_had() -> None:
    network = with_session()
    first = attached(network)
    here = attached(network, "c", "here")
    published(network, "a")
    network.run(200)  # and no time passes: what one of them has is not owed to others
    had = [each for each in (first, here) if any(isinstance(said, Handed) for said in each.heard)]
    assert len(had) == 1
    for token, (broker, name) in enumerate((("b", "r"), ("c", "s"), ("a", "t")), 2):
        second = Probe(network, name, broker)
        second.say(Attach(token=token, session=NAME, consumer=1, window=10, alone=True))
        network.run(200)
        assert second.answer(token) == Done(token=token)
        [owed] = [owed for each in second.heard if isinstance(each, Handed) for owed in each.events]
        assert owed.tries == token
    reason = "another client of this session took over"
    for probe in (first, here, network.clients["r"], network.clients["s"]):
        ended = [each for each in probe.heard if isinstance(each, ConsumerEnded)]
        assert ended == [ConsumerEnded(consumer=1, reason=reason)]
    assert not any(isinstance(each, ConsumerEnded) for each in second.heard)
    # What comes late from one of them changes nothing.
    first.say(Acknowledge(token=8, consumer=1, positions=(owed.position,)))
    first.say(Note(token=9, session=NAME, notes={"a": "late"}, consumer=1))
    second.say(Note(token=9, session=NAME, notes={"a": "now"}, consumer=1))
    network.run(200)
    for token in (8, 9):
        late = first.answer(token)
        assert isinstance(late, Failed) and late.gone and not late.again
    assert second.answer(9) == Done(token=9)
    second.say(ListSessions(token=10, session=NAME), ReadNotes(token=11, session=NAME))
    network.run(200)
    rows = second.answer(10)
    assert isinstance(rows, Sessions)
    assert (rows.rows[0].events, len(rows.rows[0].consumers)) == (1, 1)
    assert second.answer(11) == Notes(token=11, notes={"a": "now"})


# --- notes ----------------------------------------------------------------------------------------


def noted(probe: Probe, network: Network, notes: dict[str, str | None], token: int) -> None:
    probe.say(Note(token=token, session=NAME, notes=notes))
    network.run(100)
    assert probe.answer(token) == Done(token=token)


def read(probe: Probe, token: int) -> list[Notes]:
    return [each for each in probe.heard if isinstance(each, Notes) and each.token == token]


def test_notes_are_left_and_read_from_anywhere_and_outlive_their_home() -> None:
    network = with_session()
    probe = Probe(network, "q", "a")
    noted(probe, network, {"a": "1", "b": "2"}, 1)
    noted(probe, network, {"a": None, "large": "x" * 300_000}, 2)
    network.kill("c", power=True)
    network.settle()
    other = Probe(network, "r", "b")
    for each in (probe, other):
        each.say(ReadNotes(token=3, session=NAME))
        network.settle()
        first, second = read(each, 3)
        assert (first.more, second.more) == (True, False)
        assert first.notes | second.notes == {"b": "2", "large": "x" * 300_000}
    assert circuits(network) == {"a": 1, "b": 2, "c": 2}
    assert not any(
        each.asked["q"] for each in network.cores["a"].delivering.relay._entries.values()
    )


def test_where_the_way_breaks_while_notes_are_read_a_failure_stands_for_the_rest() -> None:
    network = with_session()
    probe = Probe(network, "q", "a")
    noted(probe, network, {f"{at}": "x" * 200_000 for at in range(3)}, 1)
    probe.say(ReadNotes(token=2, session=NAME))
    while not read(probe, 2):
        network.run(1)
    network.break_link(("a", "b"))
    assert [each.more for each in read(probe, 2)] == [True]
    failed = [each for each in probe.heard if isinstance(each, Failed)]
    assert [(each.token, each.again) for each in failed] == [(2, "now")]
    network.settle()
    probe.say(ReadNotes(token=3, session=NAME))
    network.settle()
    assert [each.more for each in read(probe, 3)] == [True, True, False]


def test_who_comes_back_anywhere_learns_which_number_has_which_filter() -> None:
    network = with_session()
    probe = Probe(network, "q", "a")
    for token, filter in enumerate(("x = 1", "x > 0", "x = 1"), 1):
        probe.say(AddFilter(token=token, session=NAME, filter=filter))
        network.settle()
    numbers = [probe.answer(token) for token in (1, 2, 3)]
    assert numbers == [Done(token=1, value=2), Done(token=2, value=3), Done(token=3, value=2)]
    network.kill("c")
    network.settle()
    other = Probe(network, "r", "b")
    other.say(ListSessions(token=1, session=NAME))
    network.settle()
    answer = other.answer(1)
    assert isinstance(answer, Sessions)
    [row] = answer.rows
    assert row.subscriptions == {1: "TRUE", 2: "x = 1", 3: "x > 0"}
    other.say(Attach(token=2, session=NAME, consumer=1, window=10))
    network.settle()
    published(network, "a")
    network.run(200)  # and no time passes: it is handed out once
    [owed] = [owed for each in other.heard if isinstance(each, Handed) for owed in each.events]
    assert owed.subscriptions == (1, 2, 3)


# --- what must not come ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message", [Where(id="1", owner="", session=NAME, entry="a"), Cut(id="1"), Here(id="1")]
)
def test_clients_do_not_say_what_brokers_say(message: ServiceMessage) -> None:
    network = network_of(LINE)
    probe = Probe(network, "q", "a")
    with pytest.raises(ProtocolError, match="only brokers do"):
        probe.say(message)


@pytest.mark.parametrize("kind", [ToHome, ToClient])
def test_what_no_circuit_carries_is_cut(kind: type[ToHome | ToClient]) -> None:
    network = network_of(LINE)
    network.put("b", kind(id="1", client="q", part=b""), "a")
    assert list(network.links["b", "a"].frames) == [Cut(id="1")]
    network.put("b", Nowhere(id="1"), "a")
    network.put("b", Cut(id="1"), "a")
    network.settle()


def test_nobody_passes_on_what_no_client_asks() -> None:
    network = network_of(LINE)
    probe = Probe(network, "q", "b")
    probe.say(opening())
    network.settle()
    network.put("b", Where(id="1", owner="", session=NAME, entry="a"), "a")
    assert network.links["b", "a"].frames.pop() == Here(id="1")
    for part in (b"\xc1", b"\x81\xa4type\xa3cut"):
        with pytest.raises(ProtocolError):
            network.put("b", ToHome(id="1", client="q", part=part), "a")
