"""When a broker fails on a message, only that message is lost: the rest of its batch is routed,
each message exactly once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing_harness import Harness

from reefcast.errors import InternalError
from reefcast.model.messages import (
    Advertise,
    Deliver,
    Discard,
    Effect,
    Header,
    Input,
    LinkKind,
    LinkUp,
    Publish,
    Send,
    Settled,
    Subscribe,
)
from reefcast.model.publication import Publication
from reefcast.overlay.scot import scot
from reefcast.overlay.topology import graph, path
from reefcast.routing.broker import Broker
from reefcast.routing.capabilities import ActsLater
from reefcast.routing.clients import ClientState
from reefcast.routing.failures import PartlyFailed
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.registry import ROUTINGS, routing_named

TREE = graph("abcdef", ["ab", "bc", "bd", "de", "df"])
RING = graph("abcde", ["ab", "bc", "cd", "de", "ea", "bd"])
OVERLAYS = {"flooding": RING, "tid-s": RING, "tid-d": RING, "gossip": path("a")}
STAGES = ("objection", "match", "step", "order")


class Fault(Exception):
    """The exception that a broker fails with."""


def poison(publication: Publication) -> str:
    """Return where a publication makes a broker fail, as "stage@broker"; "None" if nowhere."""
    return str(publication.attributes.get("fail"))


class Failing(Harness):
    """A harness in which publications that wait on a link arrive in batches; with `faults` some of
    them make a broker fail."""

    def __init__(self, routing: str, rng: random.Random, *, faults: bool) -> None:
        self.faults = faults
        self.failed: list[tuple[str, tuple[str, int]]] = []
        overlay = OVERLAYS.get(routing, TREE)
        options = {"gossip": GossipOptions(contacts=("a",))}.get(routing)
        super().__init__(
            scot(path("abc"), 3) if "spr" in routing or "idr" in routing else overlay,
            routing,
            rng,
            options=lambda name: options or routing_named(routing).options(),
        )

    def start(self, name: str) -> None:
        super().start(name)
        broker = self.brokers[name]
        if not self.faults:
            return
        prt, ordering = broker.router.prt, broker._ordering

        def guarded(ask: Callable[..., Any]) -> Callable[..., Any]:
            def ask_each(publications: Sequence[Publication], *rest: Any) -> Any:
                if any(poison(each) == f"match@{name}" for each in publications):
                    raise Fault
                return ask(publications, *rest)

            return ask_each

        def delivered(deliver: Deliver, now: float) -> list[Effect]:
            if poison(deliver.publish.publication) == f"order@{name}":
                raise Fault
            return hand_out(deliver, now)

        hand_out = ordering._delivered
        prt.next_hops, prt.digests = guarded(prt.next_hops), guarded(prt.digests)  # type: ignore[method-assign]  # to fail
        ordering._delivered = delivered  # type: ignore[method-assign]  # to fail

    def step(self) -> bool:
        ready = [ends for ends, queue in self.queues.items() if queue]
        if not ready:
            return False
        source, target = self.rng.choice(ready)
        queue = self.queues[source, target]
        batch: list[Input] = [queue.popleft()]
        while queue and isinstance(batch[-1], Publish) and isinstance(queue[0], Publish):
            batch.append(queue.popleft())
        self._apply(target, self._asked(target, batch, source))
        return True

    def _asked(self, name: str, batch: list[Input], link: str) -> list[Effect]:
        broker = self.brokers[name]
        try:
            if isinstance(batch[0], Publish):
                return broker.handle_publications([self._spoiled(name, p) for p in batch], link, 0)
            return broker.handle(batch[0], link, 0.0)
        except PartlyFailed as partly:
            assert len({id(failure.publish) for failure in partly.failures}) == len(partly.failures)
            for publish, _ in partly.failures:
                assert publish is not None
                self.failed.append((name, publish.publication.id))
            return partly.effects

    def _spoiled(self, name: str, publish: Any) -> Publish:
        if self.faults and poison(publish.publication) == f"step@{name}":
            header = msgspec.structs.replace(publish.header, hops=None)
            return Publish(publish.publication, header, publish.body)
        return publish

    def _send(self, name: str, send: Send) -> None:
        if not isinstance(send.message, Publish) or send.message.header.hops is not None:
            super()._send(name, send)


def objecting(faults: bool) -> Callable[..., str | None]:
    object_to = ClientState.objection

    def objection(client: ClientState, publication: Publication) -> str | None:
        if faults and poison(publication).startswith("objection"):
            raise Fault
        return object_to(client, publication)

    return objection


def played(routing: str, seed: int, *, faults: bool) -> Failing:
    """Run a network in which clients publish in bursts; `seed` determines everything random."""
    rng = random.Random(seed)
    network = Failing(routing, random.Random(seed), faults=faults)
    brokers = sorted(network.overlay)
    for i in range(4):
        network.connect(f"p{i}", rng.choice(brokers))
        network.connect(f"s{i}", rng.choice(brokers))
    for i in range(4):
        for number in (1, 2):
            x = rng.randrange(-1, 4)
            order_s = rng.choice((0.0, 0.5))
            subscribe = Subscribe((f"s{i}", number), f"topic = 't' AND x > {x}", number)
            network._say(f"s{i}", msgspec.structs.replace(subscribe, order_s=order_s))
    network.run()
    for i in range(4):
        if rng.random() < 0.7:
            network.advertise(f"p{i}", "TRUE" if rng.random() < 0.7 else "x > 0")
        if rng.random() < 0.5:
            network.run()
        for _ in range(rng.randrange(12)):
            attributes = {"x": rng.randrange(5)}
            if rng.random() < 0.3:
                attributes["fail"] = f"{rng.choice(STAGES)}@{rng.choice(brokers)}"
            network.publish(f"p{i}", ("t",), **attributes)
    for _ in range(3):
        network.run()
        network.fire_timers()
    return network


@pytest.mark.long
@pytest.mark.parametrize("routing", sorted(ROUTINGS))
@settings(max_examples=16)
@given(seed=st.integers(0, 2**32))
def test_the_others_are_delivered_as_if_nothing_had_failed(routing: str, seed: int) -> None:
    runs = []
    for faults in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ClientState, "objection", objecting(faults))
            runs.append(played(routing, seed, faults=faults))
    failing, sound = runs
    spoiled = {id for _, id in failing.failed}
    assert not sound.failed
    delivered, wanted = (Counter(run.delivered) for run in runs)
    assert all(count == 1 for count in delivered.values())
    missed = {id for _, id, _ in wanted - delivered}
    assert missed <= spoiled
    assert not delivered - wanted
    if not spoiled:
        return
    published, all_of_them = (
        sum(broker.counters["published"] for broker in run.brokers.values()) for run in runs
    )
    assert all_of_them - len(spoiled) <= published <= all_of_them


# --- one case of each stage -----------------------------------------------------------------------


def one_broker(routing: str = "flooding") -> Broker:
    """Return a broker with a subscriber, a publisher that has advertised, and a neighbour."""
    broker = Broker("a", routing)
    for link, kind in (("s", LinkKind.CLIENT), ("p", LinkKind.CLIENT), ("b", LinkKind.BROKER)):
        broker.handle(LinkUp(kind), link, 0.0)
    broker.handle(Subscribe(("s", 1), "x >= 0", 1), "s", 0.0)
    broker.handle(Advertise(("p", 1), "TRUE", 1), "p", 0.0)
    broker.handle(Settled(1), "b", 0.0)
    return broker


def batch_of(count: int, spoiled: int | None = None) -> list[Publish]:
    """Return a batch in which one publication has a header that no routing expects."""
    made = [Publish(Publication("p", seq + 1, 0, {"x": seq})) for seq in range(count)]
    if spoiled is not None:
        header = msgspec.structs.replace(Header(0), hops=None)  # type: ignore[arg-type]  # to fail
        made[spoiled] = Publish(made[spoiled].publication, header)
    return made


def seqs(effects: Sequence[Effect]) -> list[int]:
    return [e.publish.publication.seq for e in effects if isinstance(e, Deliver)]


@pytest.mark.parametrize("spoiled", range(4))
def test_flooding_delivers_all_others_of_a_batch(spoiled: int) -> None:
    broker = one_broker()
    with pytest.raises(PartlyFailed, match="broker a failed on 1 of the publications") as failed:
        broker.handle_publications(batch_of(4, spoiled), "b", 0.0)
    good = [seq for seq in (1, 2, 3, 4) if seq != spoiled + 1]
    assert seqs(failed.value.effects) == good
    assert [f.publish.publication.seq for f in failed.value.failures if f.publish] == [spoiled + 1]
    assert isinstance(failed.value.__cause__, TypeError)
    assert [publish.publication.seq for publish, _ in broker.last_routed] == good
    assert broker.counters["delivered"] == 3
    again = broker.handle_publications(batch_of(4), "b", 0.0)  # each is remembered
    assert [type(effect) for effect in again] == [Discard] * 4


def test_the_next_input_knows_nothing_of_it() -> None:
    broker = one_broker()
    with pytest.raises(PartlyFailed):
        broker.handle_publications(batch_of(2, 0), "b", 0.0)
    later = [Publish(Publication("q", 1, 0, {"x": 1}))]
    assert seqs(broker.handle_publications(later, "b", 0.0)) == [1]


def test_held_publications_are_let_go_but_the_one_that_fails() -> None:
    broker = Broker("a", "acyclic")
    for link, kind in (("s", LinkKind.CLIENT), ("p", LinkKind.CLIENT), ("b", LinkKind.BROKER)):
        broker.handle(LinkUp(kind), link, 0.0)
    broker.handle(Subscribe(("s", 1), "x >= 0", 1), "s", 0.0)
    sent = broker.handle(Advertise(("p", 1), "TRUE", 7), "p", 0.0)
    (told,) = [e.message for e in sent if isinstance(e, Send) and isinstance(e.message, Advertise)]
    assert seqs(broker.handle_publications(batch_of(3, 1), "p", 0.0)) == []
    with pytest.raises(PartlyFailed) as failed:
        broker.handle(Settled(told.token), "b", 0.0)
    assert seqs(failed.value.effects) == [1, 3]
    answers = [e.message for e in failed.value.effects if isinstance(e, Send) and e.link == "p"]
    assert answers == [Settled(7)]


def test_what_comes_after_a_batch_fails_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = one_broker("acyclic")
    assert isinstance(broker.router, ActsLater)

    def afterwards() -> list[Send]:
        raise Fault("late")

    monkeypatch.setattr(broker.router, "afterwards", afterwards)
    broker.router.unfinished = True
    with pytest.raises(InternalError, match="what they gave cause for: Fault: late") as failed:
        broker.handle_publications(batch_of(2), "b", 0.0)
    assert isinstance(failed.value, PartlyFailed)
    assert seqs(failed.value.effects) == [1, 2]
