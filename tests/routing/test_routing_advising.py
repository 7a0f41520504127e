"""Advisory events over every routing: everything that happens to durable sessions is told once, to
those who subscribe to it by name, and to nobody else. The obvious twins are the counts of the homes
and those of the script."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest
from routing_harness import Harness
from routing_scenarios import settle

from reefcast.matching.scan import ScanIndex
from reefcast.model.messages import (
    Deliver,
    Effect,
    Keep,
    Kept,
    LinkName,
    Refused,
    Send,
    ServiceMessage,
    SessionNews,
    SetTimer,
    Timer,
)
from reefcast.model.publication import Publication
from reefcast.model.reserved import claims_reserved
from reefcast.overlay.scot import Scot, scot
from reefcast.overlay.topology import Graph, names, random_tree
from reefcast.routing.advising import ADVISORY_TIMER, INTERVAL_S, PREFIX
from reefcast.routing.broker import Broker
from reefcast.sessions.home import Home
from reefcast.sessions.messages import (
    Acknowledge,
    AddFilter,
    Asked,
    Attach,
    CloseSession,
    Detach,
    Handed,
    OpenSession,
    Reject,
)

ROUTINGS = ("flooding", "acyclic", "mesh", "spr", "idr", "spr-mesh", "idr-mesh", "tid-s", "tid-d")
ON_SCOTS = ("spr", "idr", "spr-mesh", "idr-mesh")
ORDINARY = ("TRUE", "price IS NULL", "session = 's0' OR x >= 0", "topic LIKE '%'")
KINDS = {"created", "attached", "detached", "full", "dropped", "expired", "closed", "dead-letter"}
SEEDS = 3
"""How many seeds are enough for each kind to happen under each routing."""
NAMING = ("topic LIKE '$reefcast/%'", "topic MATCHES '$reefcast/session/#' AND count > 0")


class Homes(Harness):
    """Brokers that all have a disk, on which every write is synced at once. `got`: what clients
    were delivered; `handed`: what consumers were handed and have not answered."""

    def __init__(self, overlay: Graph | Scot, routing: str, rng: random.Random):
        self.got: dict[LinkName, list[Publication]] = defaultdict(list)
        self.handed: list[tuple[LinkName, int, int]] = []
        self.lives = 0
        super().__init__(overlay, routing, rng)

    def start(self, name: str) -> None:
        super().start(name)
        self.lives += 1
        self.brokers[name] = Broker(
            name,
            self.routing,
            neighbours=self.overlay[name],
            rng=random.Random(f"{name}{self.lives}"),
            new_index=ScanIndex,
            scot=self.scot.neighbours(name) if self.scot else None,
            home=Home(),
            advisories=True,
        )

    def ask(self, client: str, asked: Asked) -> None:
        self._say(client, asked)

    def _apply(self, name: str, effects: list[Effect]) -> None:
        rest: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Deliver):
                for client in effect.to:
                    self.got[client].append(effect.publish.publication)
            if isinstance(effect, Send) and isinstance(effect.message, Handed):
                self.handed += (
                    (effect.link, effect.message.consumer, each.position)
                    for each in effect.message.events
                )
            of_clients = (
                isinstance(effect, Send)
                and isinstance(effect.message, ServiceMessage)
                and effect.link not in self.overlay
            )
            soft = isinstance(effect, SetTimer) and effect.background  # nobody opens soft links
            if not (of_clients or soft or isinstance(effect, Keep | SessionNews)):
                rest.append(effect)
        super()._apply(name, rest)
        tokens = [effect.token for effect in effects if isinstance(effect, Keep)]
        if any(tokens):
            kept = self.brokers[name].handle(Kept(max(tokens)), "", self.now)
            self._apply(name, kept)

    def pass_time(self, seconds: float) -> None:
        """Let time pass: fire the timers that come due, and run everything that they cause."""
        end_s = self.now + seconds
        while due := [(at, key) for key, at in self.timers.items() if at <= end_s]:
            at, key = min(due)
            del self.timers[key]
            self.now = max(self.now, at)
            self._apply(key[0], self.brokers[key[0]].handle(Timer(key[1]), "", self.now))
            self.run()
        self.now = end_s

    @property
    def is_quiet(self) -> bool:
        return not any(key == ADVISORY_TIMER for _, key in self.timers)


def made(routing: str, rng: random.Random) -> Homes:
    if routing in ON_SCOTS:
        overlay: Graph | Scot = scot(
            random_tree("abc"[: rng.randint(1, 3)], rng), rng.randint(1, 2)
        )
    else:
        overlay = random_tree(names(rng.randint(2, 5)), rng)
    network = Homes(overlay, routing, rng)
    settle(network)
    return network


class Script:
    """Random actions of the owners `c0` and `c1` on their sessions, which the script counts."""

    def __init__(self, network: Homes, rng: random.Random) -> None:
        self.network, self.rng = network, rng
        self.done: Counter[str] = Counter()
        self.open: set[str] = set()
        self.attached: dict[str, list[int]] = defaultdict(list)
        self._last = 0

    def _next(self) -> int:
        self._last += 1
        return self._last

    def step(self) -> None:
        owner = self.rng.choice("01")
        getattr(
            self, self.rng.choice(("begin", "end", "attach", "detach", "answer") + ("go",) * 6)
        )(f"c{owner}", f"s{owner}")

    def begin(self, client: str, session: str) -> None:
        if session in self.open:
            return
        self.open.add(session)
        self.done["created"] += 1
        options: dict[str, float | int | str] = {
            "max_events": self.rng.choice((2, 4)),
            "policy": self.rng.choice(("drop_oldest", "drop_oldest", "refuse", "block")),
            "max_deliveries": self.rng.choice((1, 2)),
            "max_age_s": self.rng.choice((0.0, 2.0)),
        }
        ask = self.network.ask
        ask(client, OpenSession(token=self._next(), session=session, options=options))
        ask(client, AddFilter(token=self._next(), session=session, filter="x > 2"))

    def end(self, client: str, session: str) -> None:
        if session in self.open and self.rng.random() < 0.3:
            self.open.discard(session)
            self.done["closed"] += 1
            self.attached.pop(session, None)
            self.network.ask(client, CloseSession(token=self._next(), session=session))

    def attach(self, client: str, session: str) -> None:
        if session in self.open:
            consumer = self._next()
            self.attached[session].append(consumer)
            self.done["attached"] += 1
            attach = Attach(token=self._next(), session=session, consumer=consumer, window=2)
            self.network.ask(client, attach)

    def detach(self, client: str, session: str) -> None:
        if self.attached[session]:
            consumer = self.attached[session].pop()
            self.done["detached"] += 1
            self.network.ask(client, Detach(token=self._next(), consumer=consumer))

    def answer(self, client: str, session: str) -> None:
        mine = [each for each in self.network.handed if each[0] == client]
        if mine:
            self.network.handed.remove(chosen := self.rng.choice(mine))
            _, consumer, position = chosen
            token = self._next()
            self.network.ask(
                client,
                Reject(token=token, consumer=consumer, position=position)
                if self.rng.random() < 0.7
                else Acknowledge(token=token, consumer=consumer, positions=(position,)),
            )

    def go(self, client: str, session: str) -> None:
        self.network.publish("p", x=self.rng.randrange(8))


def told_kinds(publications: list[Publication]) -> Counter[tuple[object, str]]:
    """Return how often each kind of thing happened at each broker, as the advisory events say."""
    found: Counter[tuple[object, str]] = Counter()
    for each in publications:
        [topic] = each.topics
        found[each.attributes["broker"], topic.removeprefix(PREFIX)] += each.attributes["count"]
    return found


def counted_kinds(network: Homes) -> Counter[tuple[object, str]]:
    return Counter(
        {
            (name, key.removeprefix("session_").replace("_", "-")): count
            for name, broker in network.brokers.items()
            for key, count in broker.counters.items()
            if key.startswith("session_")
        }
    )


@pytest.mark.long
@pytest.mark.parametrize("routing", ROUTINGS)
def test_all_that_happens_to_sessions_is_told_to_those_who_name_it(routing: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        rng = random.Random(f"{routing}{seed}")
        network = made(routing, rng)
        for client in ("p", "c0", "c1", "ops", "all"):
            network.connect(client, rng.choice(sorted(network.overlay)))
        network.advertise("p", "x >= 0")
        for filter in NAMING:
            network.subscribe("ops", filter)
        for filter in ORDINARY:
            network.subscribe("all", filter)
        network.run()
        network.pass_time(3.0)
        script = Script(network, rng)
        for _ in range(80):
            script.step()
            network.run()
            network.pass_time(rng.choice((0.0, 0.0, 0.1, 1.5)))
        for _ in range(20):  # events expire, and wait for their consumers, for a while
            network.pass_time(3 * INTERVAL_S)
            if network.is_quiet:
                break
        assert network.is_quiet

        told = told_kinds(network.got["ops"])
        assert told == counted_kinds(network)
        by_kind: Counter[str] = Counter()
        for (_, kind), count in told.items():
            by_kind[kind] += count
        assert {kind: by_kind[kind] for kind in script.done} == script.done
        seen += by_kind

        ids = [each.id for each in network.got["ops"]]
        assert len(ids) == len(set(ids))
        assert not any(claims_reserved(each) for each in network.got["all"])
        wanted = [each for each in network.got["all"] if "x" in each.attributes]
        assert len(wanted) == len({each.id for each in wanted}) == network._seqs["p"]
        assert_rarely(network.got["ops"])
    assert seen.keys() >= KINDS


def assert_rarely(publications: list[Publication]) -> None:
    """Check that one kind about one session is told at most once in the interval."""
    last_us: dict[tuple[object, ...], int] = {}
    for each in sorted(publications, key=lambda each: each.time_us):
        about = "number" in each.attributes
        key = (each.publisher, each.attributes["session"], each.topics, about)
        assert each.time_us - last_us.get(key, -(10**9)) >= INTERVAL_S * 1e6 - 1
        last_us[key] = each.time_us


@pytest.mark.parametrize("policy", ["drop_oldest", "refuse", "block"])
def test_a_session_that_overflows_with_advisory_events_does_not_feed_itself(policy: str) -> None:
    network = Homes({"a": []}, "acyclic", random.Random(1))
    for client in ("c", "p", "ops"):
        network.connect(client, "a")
    network.subscribe("ops", NAMING[0])
    options = {"max_events": 2, "policy": policy, "max_age_s": 40.0}
    network.ask("c", OpenSession(token=1, session="s", options=options))
    network.ask("c", AddFilter(token=2, session="s", filter=f"{NAMING[0]} OR x > 0"))
    network.run()
    network.pass_time(5.0)
    for _ in range(2):
        for x in range(1, 6):
            network.publish("p", x=x)
        network.run()
        network.pass_time(5 * INTERVAL_S)
    told = len(network.got["ops"])
    assert told > 1, "what ordinary events caused was not told"
    network.pass_time(30.0)
    assert len(network.got["ops"]) == told
    network.pass_time(60.0)  # all that waited is too old now
    kinds = told_kinds(network.got["ops"][told:])
    expired = sum(each.attributes["count"] for each in network.got["ops"][told:])
    assert kinds == ({("a", "expired"): expired} if expired else {})
    assert network.is_quiet


def test_clients_neither_advertise_reserved_topics_nor_publish_under_them() -> None:
    network = Homes({"a": ["b"], "b": ["a"]}, "acyclic", random.Random(1))
    network.run()
    for client in ("p", "q", "ops"):
        network.connect(client, "a" if client == "ops" else "b")
    network.subscribe("ops", "topic LIKE '$reefcast/%' OR x = 1")
    network.advertise("p", "topic = '$reefcast/session/full'")
    network.advertise("p", "x > 0")
    network.run()
    [(client, refused)] = network.refused
    assert client == "p"
    assert "begin with '$reefcast/' are for what brokers say" in refused.reason
    network.publish("q", ("$reefcast/session/full",), x=1)
    network.publish("q", ("orders",), x=1)
    network.publish("q", topic="$reefcast/session/full", x=1)
    network.publish("q", topic="$reefcast/session/full")
    network.publish("q", x=1)
    network.run()
    assert [each[0] for each in network.refused] == ["p", "q"]
    assert isinstance(network.refused[1][1], Refused)
    assert network.refused[1][1].publication == ("q", 1)
    assert [each.seq for each in network.got["ops"]] == [2, 5]


def test_a_broker_that_begins_anew_tells_under_a_new_name() -> None:
    network = Homes({"a": []}, "acyclic", random.Random(1))
    lives = []
    for life in range(2):
        if life:
            network.kill("a")
            network.start("a")
        for client in ("c", "ops"):
            network.connect(client, "a")
        network._numbers.clear()
        network.subscribe("ops", NAMING[0])
        network.run()
        network.ask("c", OpenSession(token=1, session="s"))
        network.run()
        network.pass_time(1.0)
        lives.append(network.got["ops"][-1])
    assert [each.seq for each in lives] == [1, 1]
    assert lives[0].publisher != lives[1].publisher


def test_a_client_that_comes_back_names_only_what_it_says_then() -> None:
    network = Homes({"a": []}, "acyclic", random.Random(1))
    network.connect("c", "a")
    for filter in (NAMING[0], "TRUE"):
        network.connect("ops", "a")
        network._numbers.clear()
        assert network.subscribe("ops", filter) == 1
        network.run()
        network.ask("c", OpenSession(token=1, session=filter))
        network.run()
        network.pass_time(1.0)
        network.disconnect("ops")
        network.run()
    assert [each.attributes["session"] for each in network.got["ops"]] == [NAMING[0]]


def test_a_subscription_that_is_taken_back_names_nothing_any_more() -> None:
    network = Homes({"a": []}, "acyclic", random.Random(1))
    for client in ("c", "p", "ops"):
        network.connect(client, "a")
    number = network.subscribe("ops", NAMING[0])
    network.run()
    assert network.brokers["a"].reserve.naming == {"ops": {number}}
    network.unsubscribe("ops", number)
    network.run()
    assert network.brokers["a"].reserve.naming == {}, "its publications are plain again"


@pytest.mark.parametrize("routing", ROUTINGS)
def test_after_a_restart_of_the_home_others_hear_of_it_again(routing: str) -> None:
    tree = random_tree(names(3), random.Random(1))
    network = Homes(scot(tree, 2) if routing in ON_SCOTS else tree, routing, random.Random(1))
    settle(network)
    first, *_, last = sorted(network.overlay)
    for client, broker in (("ops", last), ("c", first)):
        network.connect(client, broker)
    network.subscribe("ops", NAMING[0])
    network.run()
    network.pass_time(3.0)
    network.kill(first)
    for other in network.overlay[first]:
        network.give_up(first, other)
    network.run()
    network.start(first)
    for other in network.overlay[first]:
        network.link_up(first, other)
    network.connect("c", first)
    network.run()
    network.pass_time(3.0)
    network.ask("c", OpenSession(token=1, session="s"))
    network.run()
    network.pass_time(1.0)
    [told] = network.got["ops"]
    assert (told.seq, told.attributes["session"]) == (1, "s")
