"""Retained values at one broker: answers to clients, the disk, limits."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from retaining_network import START_US, Network, body, publication

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.grants import Grants, Template, UserGrant
from reefcast.model.messages import (
    Advertise,
    Deliver,
    Effect,
    Keep,
    Kept,
    LinkKind,
    LinkUp,
    Publish,
    Refused,
    Send,
    Subscribe,
)
from reefcast.model.subjects import Subject
from reefcast.retaining.messages import (
    Clear,
    Compare,
    Entry,
    Forget,
    NotRetained,
    Recall,
    Recalled,
    RecallOn,
    Retain,
    Retained,
    Spread,
    Took,
)
from reefcast.retaining.recalls import MOST_RECALLS, SLICE
from reefcast.retaining.service import RetainingService
from reefcast.retaining.values import TABLE, Limits
from reefcast.routing.broker import Broker
from reefcast.sessions.home import Home
from reefcast_lab.torture.stores import SimulatedStore

EPOCH_S = START_US / 1e6


def alone(**limits: float) -> Network:
    made = Limits(**limits)  # type: ignore[arg-type]  # as in the file
    return Network({"a": []}, random.Random(1), limits=made)


def answers(network: Network, client: str, first: object) -> list[Recalled]:
    """Return all parts of an answer."""
    found = [first]
    while found[-1].more:
        found.append(network.say(client, "a", RecallOn(token=found[-1].token)))
    return found


def times(recalled: Iterable[Recalled]) -> set[int]:
    return {entry.version[2] for each in recalled for entry in each.entries}


# --- questions -----------------------------------------------------------------------------------


def test_an_answer_looks_at_some_values_at_a_time() -> None:
    network = alone()
    count = 2 * SLICE + 10
    for seq in range(1, count + 1):
        network.retain("a", body("p", seq, START_US + seq, f"t{seq}", n=seq))
    first = network.say("c", "a", Recall(token=1, filter="n > 100"))
    found = answers(network, "c", first)
    assert len(found) == 3
    assert times(found) == set(range(101, count + 1))
    assert all(len(each.entries) <= SLICE for each in found)
    assert network.say("c", "a", RecallOn(token=1)) is None  # it is forgotten


def test_what_changes_meanwhile_is_answered_as_it_is_now() -> None:
    network = alone()
    for seq in range(1, SLICE + 11):
        network.retain("a", body("p", seq, START_US + seq, f"t{seq}"))
    first = network.say("c", "a", Recall(token=1, filter="TRUE"))
    missing = set(range(1, SLICE + 11)) - times([first])
    changed, cleared = sorted(missing)[:2]
    network.retain("a", body("p", 99_999, START_US + 99_999, f"t{changed}"))
    network.clear("q", "a", f"t{cleared}", START_US + 99_999)
    assert times(answers(network, "c", first)[1:]) == missing - {changed, cleared} | {99_999}


def test_a_watch_is_told_of_all_for_a_time_and_then_of_what_comes_late() -> None:
    network = alone()
    network.services["a"].link_up("b", client=False)
    network.say("c", "a", Recall(token=1, filter="n > 1", watch_s=2.0))
    network.retain("a", body("p", 2, START_US, "t", n=2))
    network.retain("a", body("p", 1, START_US, "u", n=1))  # does not match
    [told] = network.answers["c"]
    assert told.late
    assert times([told]) == {2}
    network.answers["c"].clear()
    network.pass_time(3.0)
    after_us = START_US + 3_000_000
    network.retain("a", body("p", 3, after_us, "t", n=3))
    assert not network.answers["c"]  # it comes as a publication
    network.retain("a", body("q", 1, START_US + 1_000_000, "v", n=3))
    [told] = network.answers["c"]  # it may have passed before the subscription was there
    network.answers["c"].clear()
    encoded = body("p", 4, after_us + 1, "t", n=4)
    late = Entry(b"\xa1t", (after_us + 1, "p", 4), (), encoded)
    network.services["a"].handle(Spread(entries=(late,)), "b", client=False)
    assert not network.answers["c"]
    sends = network.services["a"].handle(
        Spread(entries=(Entry(b"\xa1t", (after_us + 2, "p", 5), (), encoded),), late=True),
        "b",
        client=False,
    )
    assert [(each.link, type(each.message)) for each in sends] == [("c", Recalled)]
    network.say("c", "a", Forget(token=1))
    sends = network.services["a"].handle(
        Spread(entries=(Entry(b"\xa1t", (after_us + 3, "p", 6), (), encoded),), late=True),
        "b",
        client=False,
    )
    assert not sends


def test_a_client_asks_for_too_much() -> None:
    network = alone()
    for token in range(1, MOST_RECALLS + 1):
        assert isinstance(
            network.say("c", "a", Recall(token=token, filter="TRUE", watch_s=1)), Recalled
        )
    refused = network.say("c", "a", Recall(token=5000, filter="TRUE"))
    assert isinstance(refused, NotRetained)
    assert "1000 times already" in refused.reason
    network.services["a"].link_down("c", client=True)
    assert isinstance(network.say("c", "a", Recall(token=5001, filter="TRUE")), Recalled)


def test_a_question_with_a_filter_that_is_none() -> None:
    refused = alone().say("c", "a", Recall(token=1, filter="price <"))
    assert isinstance(refused, NotRetained)


# --- what is not taken ---------------------------------------------------------------------------


def test_a_clock_that_is_ahead_does_not_hide_what_others_publish() -> None:
    network = alone(max_ahead_s=60.0)
    refused = network.retain("a", body("p", 1, START_US + 61_000_000, "t"))
    assert isinstance(refused, NotRetained)
    assert "61.0 s in the future" in refused.reason
    assert isinstance(network.retain("a", body("p", 2, START_US + 59_000_000, "t")), Retained)


def test_only_so_many_tombstones_are_kept() -> None:
    network = alone(max_values=3)
    for n in range(10):
        network.clear("q", "a", f"t{n}", START_US + n)
    assert len(network.services["a"].values) == 3


@pytest.mark.parametrize(
    ("message", "client"),
    [
        (Spread(entries=()), True),
        (Compare(digests=bytes(2048)), True),
        (Took(exchange=1), True),
        (Recall(token=1, filter="TRUE"), False),
        (Retain(token=1, body=body("p", 1, START_US, "t")), False),
        (Retained(token=1), True),
        (Retained(token=1), False),
        (Spread(entries=(Entry(b"k", (1, "p", 1), (), b"\xc1"),)), False),  # no publication
    ],
)
def test_what_is_not_for_everybody_to_say(message: object, client: bool) -> None:
    service = RetainingService(epoch_s=EPOCH_S)
    with pytest.raises(ProtocolError):
        service.handle(message, "x", client=client)  # type: ignore[arg-type]  # any service message
    assert len(service.values) == 0


# --- in a broker ---------------------------------------------------------------------------------


class Life:
    """One life of a broker with a disk."""

    def __init__(self, store: SimulatedStore | None = None, **named: object) -> None:
        self.store = store
        self.service = RetainingService(epoch_s=EPOCH_S)
        if store is not None:
            contents = store.load()
            named |= {"home": Home(contents, epoch_s=EPOCH_S), "rows": contents.rows}
        self.core = Broker("a", "acyclic", services=(self.service,), **named)
        self.handle(LinkUp(LinkKind.CLIENT), "p")

    def handle(self, item: object, link: str, now: float = 0.0) -> list[Effect]:
        effects = self.core.handle(item, link, now)
        for effect in effects:
            if isinstance(effect, Keep) and self.store is not None:
                self.store.write(effect.changes)
        return effects


def said(effects: Iterable[Effect], kind: type) -> list:
    return [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


def test_a_client_hears_that_a_value_is_retained_when_it_is_on_disk() -> None:
    store = SimulatedStore()
    life = Life(store)
    retain = Retain(token=1, body=body("p", 1, START_US, "t"))
    effects = life.handle(retain, "p")
    [keep] = [effect for effect in effects if isinstance(effect, Keep)]
    assert [change.table for change in keep.changes] == [TABLE]
    assert not said(effects, Retained)
    store.sync()
    assert said(life.handle(Kept(keep.token), ""), Retained) == [Retained(token=1)]
    store.kill()
    assert Life(store).service.values.values == 1


def test_without_a_disk_it_hears_at_once() -> None:
    retain = Retain(token=1, body=body("p", 1, START_US, "t"))
    assert said(Life().handle(retain, "p"), Retained) == [Retained(token=1)]


def test_a_value_that_expires_while_the_broker_is_down_is_not_there_after_it() -> None:
    store = SimulatedStore()
    encoded = body("p", 1, START_US, "t", **{"$expires_s": 5})
    Life(store).handle(Retain(token=1, body=encoded), "p")
    store.sync()
    again = Life(store)
    again.handle(LinkUp(LinkKind.CLIENT), "q", now=10.0)
    assert again.service.values.values == 0


def test_what_a_listener_for_mqtt_needs() -> None:
    """A message with the flag is a publication, too; an empty one clears; a subscriber chooses
    whether to ask."""
    life = Life()
    life.handle(LinkUp(LinkKind.CLIENT), "q")
    life.handle(Subscribe(("q", 1), "topic MATCHES 'a/#'", 1), "q")
    for seq, payload in ((1, b"on"), (2, b"")):
        made = publication("p", seq, START_US + seq, "a/b")
        made = type(made)(*made.id, made.time_us, {}, made.topics, payload)
        encoded = wire.encode_publication(made)
        life.handle(Retain(token=seq, body=encoded, clear=not payload), "p")
        effects = life.core.handle_publications([Publish(made, body=encoded)], "p", 0.0)
        assert [e.to for e in effects if isinstance(e, Deliver)] == [{"q": [1]}]
        found = life.handle(Recall(token=seq, filter="topic MATCHES 'a/#'"), "q")
        [recalled] = said(found, Recalled)
        assert len(recalled.entries) == bool(payload)


def test_a_value_must_lie_within_the_advertisements_as_a_publication_must() -> None:
    life = Life()
    inside, outside = body("p", 1, START_US, "t", n=1), body("p", 2, START_US, "t", n=-1)
    other = body("somebody", 1, START_US, "t", n=1)
    [refused] = said(life.handle(Retain(token=1, body=other), "p"), NotRetained)
    assert "is not this client" in refused.reason  # though it never advertised
    assert said(life.handle(Retain(token=2, body=outside), "p"), Retained)
    life.handle(Advertise(("p", 1), "n > 0 AND topic = 't'", 3), "p")
    assert said(life.handle(Retain(token=4, body=inside), "p"), Retained)
    [refused] = said(life.handle(Retain(token=5, body=outside), "p"), NotRetained)
    effects = life.core.handle_publications(
        [Publish(wire.decode_publication(outside), body=outside)], "p", 0.0
    )
    assert said(effects, Refused)[0].reason == refused.reason
    clear = Clear(token=6, time_us=START_US, topic="t")
    assert said(life.handle(clear, "p"), Retained)
    for named in ({"topic": "u"}, {"attributes": {"n": -1}}):
        clear = Clear(token=7, time_us=START_US, **named)
        [refused] = said(life.handle(clear, "p"), NotRetained)
        assert "lies outside what this client advertised" in refused.reason


def restricted() -> Life:
    """A broker with a client q that may publish for its desk only, where p may publish anything."""
    life = Life()
    life.core.granting.grants = Grants([UserGrant(name="fx", publish=Template("desk = 'fx'"))])
    life.handle(LinkUp(LinkKind.CLIENT, subject=Subject("quentin", granted=("fx",))), "q")
    return life


@pytest.mark.parametrize("clear", [True, False])
def test_what_clears_or_replaces_the_value_of_others_is_refused_whatever_it_says(
    *, clear: bool
) -> None:
    """A listener for MQTT clears by a publication, which may lie within the grant itself."""
    life = restricted()
    theirs = body("p", 1, START_US, "t", desk="hr")
    assert said(life.handle(Retain(token=1, body=theirs), "p"), Retained)
    mine = body("q", 1, START_US + 1, "t", desk="fx")
    [refused] = said(life.handle(Retain(token=2, body=mine, clear=clear), "q"), NotRetained)
    assert f"is not yours to {'clear' if clear else 'replace'}: it lies outside" in refused.reason
    assert life.service.values.values == 1
    own = body("q", 2, START_US + 2, "u", desk="fx")
    assert said(life.handle(Retain(token=3, body=own), "q"), Retained)
    again = body("q", 3, START_US + 3, "u", desk="fx")
    assert said(life.handle(Retain(token=4, body=again, clear=clear), "q"), Retained)
    assert life.service.values.values == (1 if clear else 2)


def test_nobody_clears_through_a_broker_that_does_not_have_the_value() -> None:
    """It could be somebody else's, at brokers from which this one is cut off."""
    life = restricted()
    for message in (
        Clear(token=1, time_us=START_US, topic="t"),
        Retain(token=2, body=body("q", 1, START_US, "t", desk="fx"), clear=True),
    ):
        [refused] = said(life.handle(message, "q"), NotRetained)
        assert "there is no value of this key here that could be cleared" in refused.reason
    assert said(life.handle(Clear(token=3, time_us=START_US, topic="t"), "p"), Retained)
    # What was there, and is cleared already, is no secret.
    assert said(life.handle(Clear(token=4, time_us=START_US + 1, topic="t"), "q"), Retained)
