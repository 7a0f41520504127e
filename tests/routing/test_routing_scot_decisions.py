"""One decision of IDR, for any state of the links, against the sentences of the spec one by one."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from routing_harness import link_up

from draws import RANDOMS
from reefcast.matching.scan import ScanIndex
from reefcast.model.messages import (
    Advertise,
    Header,
    LinkKind,
    LinkUp,
    Publish,
    Send,
    Subscribe,
)
from reefcast.model.publication import Publication
from reefcast.overlay.scot import Scot, scot
from reefcast.overlay.topology import star
from reefcast.routing.broker import Broker
from reefcast.routing.clt import CivUnset, ScotHeader, civ_of

MADE: Scot = scot(star(["hub", "n", "o", "p"]), 4)
HERE = "hub-2"
NEIGHBOURS = MADE.neighbours(HERE)
CLUSTER_OF = NEIGHBOURS.secondary
LINKS = [*NEIGHBOURS.primary, *CLUSTER_OF]


class Queues:
    def __init__(self) -> None:
        self.lengths: Counter[str] = Counter()

    def queue_len(self, link: str) -> int:
        return self.lengths[link]


def broker_with(
    rng: random.Random, interested: list[str], down: list[str]
) -> tuple[Broker, Queues]:
    """Return a broker with subscriptions TRUE from the links `interested`; one window with some
    traffic is over."""
    queues = Queues()
    broker = Broker(HERE, "idr", new_index=ScanIndex, queues=queues, scot=NEIGHBOURS)
    up = [link for link in LINKS if link not in down]
    rng.shuffle(up)
    for link in up:
        link_up(broker, link)
    for number, link in enumerate(interested):
        broker.handle(Subscribe(("s", number + 1), "TRUE"), link, 0.0)
    for link in up:
        entered = rng.choice([0, 0, 2, 10])
        for _ in range(entered):
            broker.links.goes(link)
        queues.lengths[link] = rng.randint(0, entered)
    broker.links.pass_time(0.05)
    queues.lengths = Counter({link: rng.choice([0, 1, 4, 8, 9, 10, 11, 30]) for link in up})
    return broker, queues


def hosted(broker: Broker, bits: int) -> str:
    """Connect client c, which advertises and has the TSC bits `bits`; return its name."""
    broker.handle(LinkUp(LinkKind.CLIENT), "c", 0.05)
    broker.handle(Advertise(("c", 1), "TRUE", 1), "c", 0.05)
    for link in broker.router.brokers:
        if link in CLUSTER_OF and not bits >> CLUSTER_OF[link] & 1:
            broker.handle(CivUnset(advertisements=(("c", 1),)), link, 0.05)
    broker.clients["c"].holding = False
    return "c"


def wished(
    broker: Broker, queues: Queues, came_by: str, interested: list[str], bits: int
) -> dict[str, int]:
    """Return the CIV of the copy for each link, by the spec: "IDR", sentence after sentence."""
    load = broker.links.lst.status
    a_links = [link for link in interested if link != came_by]
    targets = [k for k in broker.router.brokers if k in CLUSTER_OF and bits >> CLUSTER_OF[k] & 1]
    copies = dict.fromkeys(a_links, 0)
    rest = bits
    for link in targets:
        if not load(link).overloaded:
            copies[link] = 0
            rest &= ~(1 << CLUSTER_OF[link])
    if not rest:
        return copies
    shortest = sorted(LINKS, key=lambda link: (queues.queue_len(link), link))
    case_1 = [k for k in shortest if k in targets and not load(k).overloaded]
    case_2 = [k for k in shortest if k in a_links and not load(k).overloaded]
    case_3 = [k for k in shortest if k in targets]
    no_target = [k for k in shortest if k in a_links]
    for carrier in [*case_1, *case_2, *case_3, *no_target][:1]:
        copies[carrier] = rest & ~(1 << CLUSTER_OF.get(carrier, 31))
    return copies


@settings(max_examples=400)
@given(rng=RANDOMS)
def test_a_decision_is_the_one_of_the_spec(rng: random.Random) -> None:
    down = [link for link in CLUSTER_OF if rng.random() < 0.1]
    interested = [link for link in NEIGHBOURS.primary if rng.random() < 0.5]
    broker, queues = broker_with(rng, interested, down)
    others = sum(1 << cluster for cluster in CLUSTER_OF.values() if rng.random() < 0.7)
    header: Header = ScotHeader(hops=rng.randint(1, 5), civ=others)
    if rng.random() < 0.3:
        came_by = hosted(broker, others)
        others |= sum(1 << CLUSTER_OF[link] for link in down)  # these could not say that nobody is
        header = ScotHeader(0, rng.randrange(16))  # what a client writes there counts for nothing
    else:
        came_by = rng.choice(broker.router.brokers)
        others &= ~(1 << CLUSTER_OF.get(came_by, 31))
        header = ScotHeader(header.hops, others)
    publish = Publish(Publication("c", 1, 0, {}), header)
    expected = wished(broker, queues, came_by, interested, others)
    effects = broker.handle(publish, came_by, 0.06)
    found = {
        effect.link: (effect.message.header.hops, civ_of(effect.message.header))
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, Publish)
    }
    assert found == {link: (header.hops + 1, civ) for link, civ in expected.items()}


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_a_batch_is_decided_as_if_its_publications_came_one_by_one(seed: int) -> None:
    """What a batch has put on a link counts for its next publication, before the driver learns of
    it."""
    found = []
    for together in (True, False):
        rng = random.Random(seed)
        interested = [link for link in NEIGHBOURS.primary if rng.random() < 0.5]
        broker, queues = broker_with(rng, interested, [])
        came_by = hosted(broker, 0b1011)
        batch = [Publish(Publication("c", seq, 0, {})) for seq in range(1, rng.randint(2, 40))]
        sends = []
        for part in [batch] if together else [[publish] for publish in batch]:
            effects = broker.handle_publications(part, came_by, 0.06)
            copies = [e for e in effects if isinstance(e, Send) and isinstance(e.message, Publish)]
            queues.lengths.update(copy.link for copy in copies)
            sends += copies
        found.append(sends)
    assert found[0] == found[1]
