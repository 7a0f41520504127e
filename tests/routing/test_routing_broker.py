"""The broker core: scripts with golden traces, settlement, clients, restarts."""

from __future__ import annotations

import random

import pytest
from routing_harness import Harness

from reefcast.errors import LocalError, ProtocolError
from reefcast.model.messages import (
    Advertise,
    LinkKind,
    LinkUp,
    Send,
    Settled,
    Subscribe,
    Synced,
)
from reefcast.overlay.topology import balanced_tree, path
from reefcast.routing.acyclic import AcyclicOptions
from reefcast.routing.broker import Broker


def quiet(network: Harness) -> Harness:
    network.run()
    network.log.clear()
    return network


def settled_chain() -> Harness:
    """Return a - b - c with publisher p at a and subscriber s at c, both connected; nothing has
    been asked for yet."""
    network = Harness(path(["a", "b", "c"]))
    network.connect("p", "a")
    network.connect("s", "c")
    return quiet(network)


def test_an_advertisement_draws_the_subscription_and_the_publication_follows_it_back() -> None:
    network = settled_chain()
    network.subscribe("s", "x > 5")
    network.run()
    network.advertise("p", "x > 0")
    network.run()
    network.publish("p", x=7)
    network.publish("p", x=3)
    network.run()
    assert [line for line in network.log if "Settled" not in line] == [
        "a -> b: Advertise p#1 x > 0",
        "b -> c: Advertise p#1 x > 0",
        "c -> b: Subscribe s#1 x > 5",
        "b -> a: Subscribe s#1 x > 5",
        "a -> b: Publish 1",
        "b -> c: Publish 1",
        "c => s: 1 for (1,)",
    ]
    assert network.discarded == {"unwanted": 1}


def test_a_subscription_goes_only_where_an_advertisement_wants_it() -> None:
    network = settled_chain()
    network.advertise("p", "x < 0")
    network.run()
    network.subscribe("s", "x > 5")
    network.run()
    assert network.brokers["c"].tables() == {"SRT": 1, "PRT": 1}
    assert network.brokers["b"].tables() == {"SRT": 1, "PRT": 0}


def test_unsubscribe_and_unadvertise_leave_nothing() -> None:
    network = settled_chain()
    advertisement = network.advertise("p", "TRUE")
    number = network.subscribe("s", "x > 5")
    network.run()
    network.unsubscribe("s", number)
    network.unadvertise("p", advertisement)
    network.run()
    assert all(b.tables() == {"SRT": 0, "PRT": 0} for b in network.brokers.values())


def test_an_advertisement_withdrawn_takes_the_subscription_back() -> None:
    network = settled_chain()
    advertisement = network.advertise("p", "x > 0")
    network.subscribe("s", "x > 5")
    network.run()
    network.unadvertise("p", advertisement)
    network.run()
    assert network.brokers["a"].tables() == {"SRT": 0, "PRT": 0}
    assert network.brokers["c"].tables() == {"SRT": 0, "PRT": 1}


def test_settled_answers_only_when_the_farthest_broker_has_it() -> None:
    network = settled_chain()
    network.advertise("p", "TRUE")
    network.run()
    number = network.subscribe("s", "x > 5")
    while ("s", number) not in network.settled:
        assert network.step()
    assert all(b.tables()["PRT"] == 1 for b in network.brokers.values())


def test_a_publisher_that_never_advertised_advertises_true() -> None:
    network = settled_chain()
    network.subscribe("s", "x > 5")
    network.run()
    network.publish("p", x=6)
    network.publish("p", x=7)
    network.run()
    assert [(client, id[1]) for client, id, _ in network.delivered] == [("s", 1), ("s", 2)]


def test_publications_wait_for_their_advertisement_but_not_for_ever() -> None:
    network = settled_chain()
    network.kill("c")
    network.connect("t", "a")
    network.run()
    network.subscribe("t", "TRUE")
    network.run()
    network.queues["b", "a"].clear()
    network.overlay["b"].remove("c")
    network.advertise("p", "TRUE")
    network.publish("p", x=1)
    while network.queues["p", "a"]:
        network.step()
    network.queues["a", "b"].clear()  # the advertisement never arrives, nobody will answer
    assert network.delivered == []
    network.fire_timers()
    assert len(network.delivered) == 1
    network.publish("p", x=2)
    network.run()
    assert len(network.delivered) == 2


def test_an_advertisement_withdrawn_at_once_loses_nothing_that_was_published_under_it() -> None:
    network = settled_chain()
    network.subscribe("s", "TRUE")
    network.run()
    advertisement = network.advertise("p", "TRUE")
    network.publish("p", x=1)
    network.unadvertise("p", advertisement)
    network.publish("p", x=2)
    network.run()
    assert [id[1] for _, id, _ in network.delivered] == [1]
    assert network.discarded == {"outside_advertisement": 1}
    assert all(broker.tables()["SRT"] == 0 for broker in network.brokers.values())


def test_a_publisher_that_leaves_at_once_loses_nothing() -> None:
    network = settled_chain()
    network.subscribe("s", "TRUE")
    network.run()
    network.publish("p", x=1)
    network.disconnect("p")
    network.run()
    assert len(network.delivered) == 1
    assert network.brokers["a"].clients == {}
    assert network.brokers["c"].tables()["SRT"] == 0


@pytest.mark.parametrize("routing", ["acyclic", "flooding"])
def test_a_publication_outside_the_advertisements_is_refused(routing: str) -> None:
    network = Harness(path(["a", "b"]), routing)
    network.connect("p", "a")
    network.connect("s", "b")
    network.subscribe("s", "TRUE")
    network.advertise("p", "x > 0")
    network.run()
    network.publish("p", x=-1)
    network.run()
    assert network.delivered == []
    assert network.discarded == {"outside_advertisement": 1}
    [(client, refusal)] = network.refused
    assert client == "p"
    assert refusal.publication == ("p", 1)
    assert "x > 0" in refusal.reason


def test_an_event_crosses_a_client_once_with_all_matching_numbers() -> None:
    network = settled_chain()
    for filter in ("x > 1", "x > 100", "x > 2", "y IS NULL"):
        network.subscribe("s", filter)
    network.run()
    network.publish("p", x=7)
    network.run()
    assert network.delivered == [("s", ("p", 1), (1, 3, 4))]


def test_a_bad_filter_is_refused_with_its_place() -> None:
    network = settled_chain()
    network.subscribe("s", "x >")
    network.run()
    [(client, refusal)] = network.refused
    assert (client, refusal.token) == ("s", 1)
    assert "column" in refusal.reason
    assert all(b.tables()["PRT"] == 0 for b in network.brokers.values())


def test_numbers_are_never_used_again_and_belong_to_their_owner() -> None:
    network = settled_chain()
    network.subscribe("s", "TRUE")
    network._say("s", Subscribe(("s", 1), "x > 1", 9))
    network._say("s", Subscribe(("p", 5), "x > 1", 10))
    network.unsubscribe("s", 7)
    network.run()
    assert [refusal.token for _, refusal in network.refused] == [9, 10, 0]


def test_advertisements_that_cross_at_a_broker_that_restarts_settle() -> None:
    """Each advertisement waits for subscriptions that the broker between them had not handled. When
    this broker comes back, it is told them again, and the other advertisement, too. It must not
    wait for that one, which does not settle before the first."""
    network = Harness(path(["a", "b", "c"]), "acyclic")
    for client, home in (("p", "a"), ("s", "a"), ("q", "c"), ("t", "c")):
        network.connect(client, home)
    network.subscribe("s", "TRUE")
    network.subscribe("t", "TRUE")
    network.run()
    crossing = [("p", network.advertise("p", "TRUE")), ("q", network.advertise("q", "TRUE"))]
    while network.brokers["b"].tables()["SRT"] < 2:
        network.step()
    network.slow = {("a", "b"), ("c", "b")}
    network.run()
    assert network.brokers["a"].tables()["SRT"] == network.brokers["c"].tables()["SRT"] == 2
    network.kill("b")
    network.start("b")
    network.slow = set()
    network.run()
    assert set(crossing) <= network.settled


def test_a_driver_or_a_client_that_breaks_the_rules_is_told() -> None:
    broker = Broker("a", "acyclic")
    with pytest.raises(LocalError, match="not up"):
        broker.handle(Settled(1), "b", 0.0)
    broker.handle(LinkUp(LinkKind.CLIENT), "c", 0.0)
    with pytest.raises(ProtocolError, match="only brokers"):
        broker.handle(Settled(1), "c", 0.0)
    with pytest.raises(LocalError, match="connected already"):
        broker.handle(LinkUp(LinkKind.CLIENT), "c", 0.0)


def test_flooding_on_a_cycle_delivers_once() -> None:
    ring = {"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]}
    network = Harness(ring, "flooding")
    network.connect("p", "a")
    network.connect("s", "c")
    network.subscribe("s", "TRUE")
    network.run()
    network.publish("p", x=1)
    network.run()
    assert len(network.delivered) == 1
    assert network.discarded["duplicate"] == 2


@pytest.mark.parametrize("seed", range(30))
def test_a_broker_that_restarts_relearns_from_its_neighbours(seed: int) -> None:
    """After the restart all tables are what they were, except for the rows of its own lost
    clients."""
    rng = random.Random(seed)
    names = [f"b{i}" for i in range(7)]
    network = Harness(balanced_tree(names, 2), rng=rng)
    for name in names:
        network.connect(f"p-{name}", name)
        network.connect(f"s-{name}", name)
        network.advertise(f"p-{name}", f"x > {rng.randrange(5)}")
        network.subscribe(f"s-{name}", f"x < {rng.randrange(10)}")
    network.run()
    victim = rng.choice(names)
    network.kill(victim)
    network.start(victim)
    for _ in range(rng.randrange(30)):
        network.step()  # the clients come back while the broker relearns
    for kind in ("p", "s"):
        network.connect(f"{kind}-{victim}+", victim)
    network.advertise(f"p-{victim}+", "x > 2")
    number = network.subscribe(f"s-{victim}+", "x < 8")
    network.run()
    assert (f"s-{victim}+", number) in network.settled
    assert all(not b.relearning for b in network.brokers.values())
    fresh = Harness(balanced_tree(names, 2))
    for client, home in network.home.items():
        fresh.connect(client, home)
    for name, broker in network.brokers.items():
        for client, state in broker.clients.items():
            for filter in state.advertised():
                fresh.advertise(client, filter)
            for row in broker.router.prt.from_hop(client):
                fresh.subscribe(client, row.filter.text)
        assert name in fresh.brokers
    fresh.run()
    for name in names:
        assert network.brokers[name].tables() == fresh.brokers[name].tables()


def test_a_link_that_is_given_up_takes_its_rows_along() -> None:
    network = settled_chain()
    network.advertise("p", "TRUE")
    network.subscribe("s", "TRUE")
    network.run()
    from reefcast.model.messages import LinkDown

    effects = network.brokers["b"].handle(LinkDown(), "c", 0.0)
    network._apply("b", effects)
    network.run()
    assert network.brokers["a"].tables() == {"SRT": 1, "PRT": 0}


def test_a_neighbour_that_restarted_gets_no_answer_to_what_it_asked_before() -> None:
    """The broker's new tokens start at 1 again, so that an old answer would pass for one to a new
    message."""
    broker = Broker("a", "acyclic")
    for neighbour in ("b", "c"):
        broker.handle(LinkUp(LinkKind.BROKER), neighbour, 0.0)
    broker.handle(Advertise(("p", 1), "TRUE", 1), "c", 0.0)
    [send] = broker.handle(Subscribe(("s", 1), "x > 0", 1), "b", 0.0)
    assert send.link == "c"
    broker.handle(LinkUp(LinkKind.BROKER), "b", 0.0)
    assert broker.handle(Settled(send.message.token), "c", 0.0) == []
    [send] = broker.handle(Subscribe(("s", 2), "x > 0", 2), "b", 0.0)
    assert broker.handle(Settled(send.message.token), "c", 0.0) == [Send("b", Settled(2))]


def test_a_publisher_that_goes_to_another_broker_with_the_same_publication_is_heard() -> None:
    """Broker b still has the advertisement that the publisher's first broker, now gone, sent it."""
    network = Harness(path(["a", "b", "c"]))
    network.connect("p", "a")
    network.connect("s", "b")
    network.subscribe("s", "TRUE")
    network.run()
    network.publish("p", x=1)
    network.run()
    network.kill("a")
    network.connect("p", "c")
    network._seqs["p"] = 0
    network.publish("p", x=1)
    network.publish("p", x=2)
    network.run()
    network.fire_timers()  # a does not answer the advertisement
    network.run()
    assert [id[1] for _, id, _ in network.delivered] == [1, 1, 2]


def test_a_covered_subscription_of_a_broker_that_relearns_settles_with_its_stand_in() -> None:
    """Nobody is told of s#2, because s#1 covers it; but s#1 has yet to arrive where it counts."""
    broker = Broker("b2", "acyclic", neighbours=["b1"], options=AcyclicOptions(covering="active"))
    broker.handle(LinkUp(LinkKind.CLIENT), "s", 0.0)
    for number in (1, 2):
        broker.handle(Subscribe(("s", number), "x > 0", number), "s", 0.0)
    broker.handle(LinkUp(LinkKind.BROKER), "b1", 0.0)
    effects = broker.handle(Advertise(("p", 1), "TRUE", 7), "b1", 0.0)
    told = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Subscribe)]
    assert [message.id for message in told] == [("s", 1)]
    effects = broker.handle(Synced(), "b1", 0.0)
    assert not [e for e in effects if isinstance(e, Send) and e.link == "s"]
    effects = broker.handle(Settled(told[0].token), "b1", 0.0)
    assert {e.message for e in effects if isinstance(e, Send) and e.link == "s"} == {
        Settled(1),
        Settled(2),
    }
