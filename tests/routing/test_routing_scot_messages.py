"""What a broker of a SCOT does with messages that are wrong, late, or about something unknown."""

from __future__ import annotations

import pytest
from routing_harness import rows_of

from reefcast.errors import ConfigurationError, ProtocolError
from reefcast.matching.scan import ScanIndex
from reefcast.model.covering import intersects
from reefcast.model.filters import Filter
from reefcast.model.messages import (
    Advertise,
    LinkDown,
    LinkKind,
    LinkUp,
    Send,
    Settled,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
)
from reefcast.overlay.scot import scot
from reefcast.overlay.topology import path
from reefcast.routing import scot as scot_routing
from reefcast.routing.broker import Broker
from reefcast.routing.clt import CivSet, CivUnset
from reefcast.routing.tid_tables import Bind

MADE = scot(path("abc"), 3)
BOTH = pytest.mark.parametrize("routing", ["spr", "idr"])
AD = ("p", 1)


def civ_set(token: int = 0) -> CivSet:
    return CivSet(advertisements=(AD,), token=token)


def civ_unset(token: int = 0) -> CivUnset:
    return CivUnset(advertisements=(AD,), token=token)


def broker(routing: str, *, host: bool = False, relearning: bool = False) -> Broker:
    """Return b-0 with all its links up; it knows advertisement AD, of its own client or from
    b-1."""
    made = Broker(
        "b-0",
        routing,
        new_index=ScanIndex,
        neighbours=MADE.graph["b-0"] if relearning else (),
        scot=MADE.neighbours("b-0"),
    )
    for link in MADE.graph["b-0"]:
        made.handle(LinkUp(LinkKind.BROKER), link, 0.0)
    made.handle(LinkUp(LinkKind.CLIENT), "p", 0.0)
    made.handle(Advertise(AD, "TRUE", 1), "p" if host else "b-1", 0.0)
    return made


def civ(made: Broker) -> str:
    return str(rows_of(made, "CLT")[0]["CIV"])


@BOTH
def test_only_the_host_takes_note_of_civ_messages(routing: str) -> None:
    for host, before, after in ((True, "111", "011"), (False, "010", "010")):
        made = broker(routing, host=host)
        assert civ(made) == before
        assert made.handle(civ_unset(7), "b-2", 0.0) == [Send("b-2", Settled(7))]
        assert civ(made) == after
        assert made.handle(civ_set(8), "b-2", 0.0) == [Send("b-2", Settled(8))]
        assert civ(made) == before


@BOTH
def test_a_civ_message_about_what_is_gone_is_answered(routing: str) -> None:
    made = broker(routing, host=True)
    for message in (
        CivSet(advertisements=(("q", 1), AD), token=1),
        CivUnset(advertisements=(("q", 1),), token=2),
    ):
        assert made.handle(message, "b-1", 0.0) == [Send("b-1", Settled(message.token))]
    assert civ(made) == "111"
    assert made.tables() == {"CLT": 1, "PRT": 0}


@BOTH
@pytest.mark.parametrize(
    "message",
    [civ_set(), civ_unset(), Advertise(("q", 1), "TRUE")],
)
def test_what_belongs_on_i_links_is_refused_on_a_links(
    routing: str, message: CivSet | CivUnset | Advertise
) -> None:
    made = broker(routing, host=True)
    with pytest.raises(ProtocolError, match="over an aLink"):
        made.handle(message, "a-0", 0.0)
    assert civ(made) == "111"
    assert made.tables() == {"CLT": 1, "PRT": 0}


@BOTH
def test_messages_of_other_routings_and_of_clients_are_refused(routing: str) -> None:
    made = broker(routing)
    with pytest.raises(ProtocolError, match="does not know"):
        made.handle(Bind(id=("s", 1), filter="TRUE", trees=(AD,)), "b-1", 0.0)
    with pytest.raises(ProtocolError, match="only brokers"):
        made.handle(civ_set(), "p", 0.0)


@BOTH
def test_the_routing_needs_a_scot(routing: str) -> None:
    with pytest.raises(ConfigurationError, match="needs a SCOT"):
        Broker("b-0", routing)


@BOTH
def test_an_advertisement_of_another_broker_is_withdrawn_by_that_broker_only(routing: str) -> None:
    made = broker(routing)
    made.handle(Unadvertise(AD), "b-2", 0.0)
    assert made.tables()["CLT"] == 1
    assert made.handle(Unadvertise(AD, 5), "b-1", 0.0) == [Send("b-1", Settled(5))]
    assert made.tables()["CLT"] == 0


@BOTH
def test_a_broker_that_relearns_clears_no_bit_for_a_client_either(routing: str) -> None:
    made = broker(routing, relearning=True)
    made.handle(Subscribe(("p", 3), "TRUE", 3), "p", 0.0)
    effects = made.handle(Unsubscribe(("p", 3), 4), "p", 0.0)
    assert {e.link for e in effects if isinstance(e, Send)} == {"a-0", "c-0"}
    assert civ(made) == "011"


@BOTH
def test_a_broker_that_relearns_keeps_no_i_link_waiting(routing: str) -> None:
    """What an aLink tells is of no use over an iLink; an aLink must wait for the other aLink."""
    made = broker(routing, relearning=True)
    assert Send("b-2", Synced()) in made.handle(LinkUp(LinkKind.BROKER), "b-2", 0.0)
    assert Send("c-0", Synced()) not in made.handle(LinkUp(LinkKind.BROKER), "c-0", 0.0)
    assert Send("c-0", Synced()) in made.handle(Synced(), "a-0", 0.0)


@BOTH
def test_a_neighbour_that_is_given_up_need_not_tell(routing: str) -> None:
    made = broker(routing, relearning=True)
    for link in ("a-0", "b-1", "b-2"):
        made.handle(Synced(), link, 0.0)
    assert made.relearning
    assert Send("b-1", civ_unset(1)) in made.handle(LinkDown(), "c-0", 0.0)
    assert not made.relearning


@BOTH
def test_a_broker_that_relearns_clears_no_bit_until_all_have_told(routing: str) -> None:
    """b-0 has no subscription yet, but c-0 may still send one."""
    made = broker(routing, relearning=True)
    assert civ(made) == "011"
    for link in ("a-0", "b-1", "b-2"):
        effects = made.handle(Synced(), link, 0.0)
        assert not any(isinstance(getattr(e, "message", None), CivUnset) for e in effects)
    assert civ(made) == "011"
    effects = made.handle(Synced(), "c-0", 0.0)
    assert Send("b-1", civ_unset(1)) in effects
    assert civ(made) == "010"


@BOTH
def test_subscriptions_do_not_come_over_i_links(routing: str) -> None:
    made = broker(routing)
    with pytest.raises(ProtocolError, match="over an iLink"):
        made.handle(Subscribe(("s", 1), "TRUE", 3), "b-1", 0.0)
    assert made.tables() == {"CLT": 1, "PRT": 0}


@BOTH
@pytest.mark.parametrize("host", [True, False])
def test_an_advertisement_from_two_sides_is_a_row_for_each(routing: str, host: bool) -> None:
    """The client has moved to another broker, and what it said at the first one still stands."""
    made = broker(routing, host=host)
    before = civ(made)
    made.handle(Advertise(AD, "TRUE", 3), "b-2", 0.0)
    assert made.tables()["CLT"] == 2
    made.handle(Unadvertise(AD), "b-2", 0.0)
    assert made.tables()["CLT"] == 1
    assert civ(made) == before


@BOTH
def test_a_client_that_leaves_costs_one_search_for_each_advertisement(
    routing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = broker(routing)
    made.handle(LinkUp(LinkKind.CLIENT), "s", 0.0)
    for number in range(1, 21):
        made.handle(Subscribe(("s", number), f"x = {number}", number), "s", 0.0)
    asked = []

    def counting(f: Filter, g: Filter) -> bool:
        asked.append(g.text)
        return intersects(f, g)

    monkeypatch.setattr(scot_routing, "intersects", counting)
    effects = made.handle(LinkDown(), "s", 0.0)
    told = [e.message for e in effects if isinstance(e, Send) and e.link == "b-1"]
    assert [type(message) for message in told] == [CivUnset]
    assert asked == []  # nobody is left; not the next of those that leave as well, twenty times
