"""What a broker with two sets of tables tells a neighbour, against a twin that looks at what both
sets want to tell."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.messages import Advertise, Send, Settled, Unadvertise, Unsubscribe
from reefcast.routing.mesh.egress import NEW, OLD, Egress
from reefcast.routing.mesh.messages import Anchored, Vicinity

LINKS = ("u", "v")
IDS = [("c", number) for number in range(4)]
Told = set[tuple[str, bool, tuple[str, int]]]
"""The link, whether it is a subscription, and its id."""


def said(entry: tuple[str, bool, tuple[str, int]]) -> Send:
    link, subscription, id = entry
    if subscription:
        return Send(link, Anchored(id=id, filter="TRUE", anchor="x"))
    return Send(link, Advertise(id, "TRUE"))


def unsaid(entry: tuple[str, bool, tuple[str, int]]) -> Send:
    link, subscription, id = entry
    return Send(link, Unsubscribe(id) if subscription else Unadvertise(id))


def hear(told: Told, send: Send) -> None:
    """Enter a message into what the neighbour knows."""
    message = send.message
    assert isinstance(message, Anchored | Advertise | Unsubscribe | Unadvertise)
    entry = (send.link, isinstance(message, Anchored | Unsubscribe), message.id)
    if isinstance(message, Anchored | Advertise):
        told.add(entry)
    else:
        told.remove(entry)


@given(st.integers(0, 2**32))
def test_neighbours_know_what_either_tables_want_said(seed: int) -> None:
    rng = random.Random(seed)
    entries = [(link, kind, id) for link in LINKS for kind in (False, True) for id in IDS]
    wants: dict[int, Told] = {OLD: set(rng.sample(entries, 8)), NEW: set()}
    told: Told = set(wants[OLD])
    egress = Egress()
    for link in LINKS:
        for kind in (False, True):
            ids = [entry[2] for entry in wants[OLD] if entry[:2] == (link, kind)]
            egress.was_said(link, ids, subscriptions=kind)
    for _ in range(60):
        tables, entry = rng.choice((OLD, NEW)), rng.choice(entries)
        send = unsaid(entry) if entry in wants[tables] else said(entry)
        wants[tables] ^= {entry}
        passes = egress.passes(send, tables)
        if send == said(entry):  # who waits for the old tables waits for the neighbour's answer
            assert passes is (tables == OLD or entry not in told)
        if passes:
            hear(told, send)
        assert told == wants[OLD] | wants[NEW]
        if rng.random() < 0.03:
            link = rng.choice(LINKS)  # its other end has lost its memory
            egress.forget(link)
            told = {entry for entry in told if entry[0] != link}
            for tables in (OLD, NEW):
                for entry in [entry for entry in wants[tables] if entry[0] == link]:
                    if egress.passes(said(entry), tables):
                        hear(told, said(entry))
            assert told == wants[OLD] | wants[NEW]
    left, drop = rng.choice(((NEW, egress.drop_old), (OLD, egress.drop_new)))
    for send in drop():
        hear(told, send)
    assert told == wants[left]


def test_of_vicinities_only_those_of_the_old_tables_are_told() -> None:
    """Outside the affected brokers both are the same; loads are told only once anyway."""
    egress, send = Egress(), Send("u", Vicinity(brokers=()))
    assert egress.passes(send, OLD)
    assert not egress.passes(send, NEW)


def test_what_is_about_neither_is_told_for_both() -> None:
    egress, send = Egress(), Send("u", Settled(1))
    assert egress.passes(send, OLD)
    assert egress.passes(send, NEW)
