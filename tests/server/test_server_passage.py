"""Publications that pass a broker by compiled calls, against the readable path of another
broker."""

from __future__ import annotations

from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from passage_dialects import (
    BEYOND,
    AdvisoryDialect,
    Dialect,
    MeshDialect,
    ScotDialect,
    ScotMeshDialect,
    TidDialect,
)
from passage_twins import Clock, Twins, clock, control, in_pieces

from inner_loop import examples
from reefcast.matching.passage.desk import Desk
from reefcast.matching.passage.layout import (
    F_SEQ,
    F_TOPICS,
    K_ENTRY_ROOM,
    K_FRAME_ROOM,
    K_TOUCHED_ROOM,
    K_WANTED_BELOW,
)
from reefcast.model import wire
from reefcast.model.messages import (
    FIRST_HOP,
    Advertise,
    ControlMessage,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind
from reefcast.network.sections import TraceSection
from reefcast.server.looks.watching import ALL
from reefcast.traces.files import id_hash

PROBED: tuple[dict[str, Any], ...] = (
    {},
    {"a": 1},
    {"a": 5, "s": "x"},
    {"a": -1, "b": 7},
    {"s": "y", "b": 0},
    {"a": 2, "b": 2, "s": "é"},
)
HAPPENS = ("acknowledge", "answer", "break off", "come back", "move", "pass time")
FILTERS = (
    "TRUE",
    "a > 3",
    "a = 1",
    "a < 0 OR s = 'y'",
    "s = 'x' AND a >= 0",
    "s LIKE '%é%'",
    "a > b",
    "a + b * 2 > 3",
    "topic = 't'",
    "b IS NULL",
    "a <> 2 OR b < 5",
    "topic LIKE '$reefcast/%'",
    "a > 3 OR topic = '$reefcast/t'",
    "topic MATCHES '+/b' AND a > 0",
    "topic MATCHES '#'",
    "topic LIKE 't%' OR b < 5",
    "topic IN ('t', '$x', 'a/b')",
    "NOT topic = 't' AND a >= 1",
    "topic <> s",
    "topic IS NULL",
)
CLIENTS = ("p", "q", "s", "t")
NEIGHBOURS = ("b", "c", "f")
ACYCLIC = Dialect()
DIALECTS = {
    ACYCLIC: 50,
    ScotDialect("spr"): 20,
    ScotDialect("idr"): 50,
    MeshDialect("mesh", strategy="S2"): 50,
    MeshDialect("mesh", strategy="SH"): 20,
    ScotMeshDialect("idr-mesh", strategy="S1"): 50,
    TidDialect("tid-s"): 50,
    AdvisoryDialect(): 50,
}
"""The dialects, and how many scripts each is tried with."""
SUBSCRIBERS = ("s", "t", "p")
PUBLISHERS = ("p", "q")
RESERVED = ("$reefcast/t",)
TOPICS = {
    "topics": ("t", "u"),
    "topic": ("t",),
    "levels": ("a/b",),
    "dollar": ("$x",),
    "both": ("t",),
    "reserved": RESERVED,
    "advisory": RESERVED,
}
CLAIMED = {"claimed": RESERVED[0], "both": "a/b", "attribute": "t", "number": 7}
"""The attributes with the name "topic", beside topics or without."""
POLICIES = ("block", "drop_oldest", "disconnect")

values = st.one_of(
    st.integers(-2, 6), st.sampled_from((0.5, 2**62, -1e300, True, "x", "y", "é", "", "ab" * 30))
)
attributes = st.dictionaries(st.sampled_from(("a", "b", "s", "c")), values, max_size=4)


class Said:
    """What is said next: numbers go up."""

    def __init__(self, dialect: Dialect = ACYCLIC) -> None:
        self.dialect = dialect
        names = (*CLIENTS, *BEYOND)
        self.seqs = {name: count(1) for name in names}
        self.numbers = {name: count(1) for name in names}
        self.tokens = count(1)
        self.known: dict[str, list[int]] = {name: [] for name in names}

    def publication(self, who: str, event: dict[str, Any]) -> bytes:
        """Return a frame with a publication as `event` describes it."""
        how = event["how"]
        seq = max(1, next(self.seqs[who]) - (3 if how == "old" else 0))
        name = {"other": "somebody", "advisory": "$advisor:x:1"}.get(how, who)
        topics = TOPICS.get(how, ())
        given = {**event["attributes"], **({"topic": CLAIMED[how]} if how in CLAIMED else {})}
        body = wire.encode_publication(
            Publication(name, seq, 7, given, topics, b"z" * event["payload"])
        )
        if how == "null":
            body = msgspec.msgpack.encode([name, seq, 7, {"a": None}])
        elif how == "twice":
            body = body_with_pairs(name, seq, (("a", 1), ("a", 9)))
        elif how == "bad text":
            body = body_with_pairs(name, seq, (("a", 1),)) + b""
            body = body.replace(b"\xa1a", b"\xa1\xff")
        elif how == "cut off":
            body = body[:-1]
        header = FIRST_HOP
        if who in BEYOND:
            header = self.dialect.header(who, event["hops"], event["way"])
        publish = Publish(Publication(name, seq, 0, {}), header, body, how == "again")
        return wire.encode_publish(publish)

    def subscribe(self, who: str, filter: str, order_s: float) -> bytes:
        number = self._next(who)
        message: ControlMessage | None = Subscribe(
            (who, number), filter, next(self.tokens), order_s
        )
        if who in BEYOND:
            message = self.dialect.subscribe(who, number, filter, next(self.tokens))
        return b"" if message is None else control(message)

    def advertise(self, who: str, filter: str) -> bytes:
        number = self._next(who)
        message: ControlMessage | None = Advertise((who, number), filter, next(self.tokens))
        if who in BEYOND:
            message = self.dialect.advertise(who, number, filter, next(self.tokens))
        return b"" if message is None else control(message)

    def _next(self, who: str) -> int:
        number = next(self.numbers[who])
        self.known[who].append(number)
        return number

    def take_back(self, who: str, which: int) -> bytes:
        """Withdraw a subscription or an advertisement; there may be none of that kind."""
        if not self.known[who]:
            return b""
        number = self.known[who].pop(which % len(self.known[who]))
        kind = Unsubscribe if which % 2 else Unadvertise
        teller = self.dialect if who in BEYOND else ACYCLIC
        return control(teller.take_back(kind, who, number, next(self.tokens)))


def body_with_pairs(name: str, seq: int, pairs: tuple[tuple[str, Any], ...]) -> bytes:
    """Return a body with these attributes, in this order, even if one is there twice."""
    encode = msgspec.msgpack.encode
    inner = b"".join(encode(key) + encode(value) for key, value in pairs)
    return b"\x94" + encode(name) + encode(seq) + encode(7) + bytes([0x80 + len(pairs)]) + inner


HOWS = ("plain",) * 9 + ("topic",) * 3 + ("levels", "levels", "dollar", "both", "attribute")
HOWS += ("number", "topics", "old", "again", "claimed")
RARE = ("reserved", "advisory", "other", "null", "bad text", "cut off", "twice")


def events(hows: tuple[str, ...]) -> SearchStrategy[list[dict[str, Any]]]:
    event = st.fixed_dictionaries(
        {
            "how": st.sampled_from(hows),
            "attributes": attributes,
            "payload": st.sampled_from((0, 0, 3, 300, 70_000)),
            "hops": st.sampled_from((1, 1, 1, 126, 127, 1000)),
            "way": st.sampled_from((0, 0, 0, 1, 2, 3, 5)),
        }
    )
    return st.lists(event, min_size=1, max_size=8)


FROM_BEYOND = (*HOWS, "reserved", "advisory", "advisory")
publishing = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(PUBLISHERS), events(HOWS)),
    st.tuples(st.just("publish"), st.sampled_from(tuple(BEYOND)), events(FROM_BEYOND)),
)
steps = st.one_of(
    publishing,
    publishing,
    st.tuples(st.just("publish"), st.sampled_from(PUBLISHERS), events(HOWS + RARE)),
    st.tuples(
        st.just("subscribe"),
        st.sampled_from((*SUBSCRIBERS, *BEYOND)),
        st.sampled_from(FILTERS),
        st.sampled_from((0.0, 0.0, 0.0, 1.0)),
    ),
    st.tuples(
        st.just("advertise"),
        st.sampled_from((*PUBLISHERS, *BEYOND)),
        st.sampled_from(("TRUE", *FILTERS[:4], "topic = 't' OR a > 1", "topic MATCHES '+/b'")),
    ),
    st.tuples(st.just("news"), st.just(""), st.integers(0, 7)),
    st.tuples(st.just("take_back"), st.sampled_from((*CLIENTS, *BEYOND)), st.integers(0, 9)),
)
said = st.tuples(
    st.just("say"),
    st.lists(steps, min_size=1, max_size=4),
    st.lists(st.integers(0, 99), max_size=3),
)
happens = st.one_of(
    st.tuples(st.just("acknowledge"), st.sampled_from(SUBSCRIBERS + NEIGHBOURS), st.integers(0, 5)),
    st.tuples(st.just("answer"), st.sampled_from(NEIGHBOURS)),
    st.tuples(st.just("pause"), st.sampled_from(SUBSCRIBERS), st.integers(1, 3)),
    st.tuples(st.just("resume"), st.sampled_from(SUBSCRIBERS)),
    st.tuples(st.just("break off"), st.sampled_from(CLIENTS + NEIGHBOURS)),
    st.tuples(st.just("come back"), st.sampled_from(CLIENTS + NEIGHBOURS)),
    st.tuples(st.just("move")),
    st.tuples(st.just("pass time"), st.sampled_from((0.003, 0.5, 1.5))),
)
BEGINNING = (
    "say",
    [
        ("subscribe", "s", "TRUE", 0.0),
        ("subscribe", "t", "a > 1", 0.0),
        ("subscribe", "t", "b IS NULL", 0.0),
        ("advertise", "p", "TRUE"),
        ("advertise", "q", "a > 0 OR s = 'x'"),
        ("advertise", "x", "TRUE"),
        ("subscribe", "x", "a > 0", 0.0),
        ("subscribe", "y", "s = 'x'", 0.0),
    ],
    [],
)
"""A start after which much of what follows is plain, and has subscribers."""
GIVEN_UP_TOGETHER = [
    BEGINNING,
    *(("break off", "p"), ("break off", "b"), ("come back", "p")),
    ("say", [("advertise", "p", "TRUE")], []),
    *(("break off", "c"), ("pass time", 1.5)),
]
"""Two links that are given up at the same time."""
PLAIN = {"how": "plain", "attributes": {}, "payload": 0, "hops": 1, "way": 0}
MATCHING = PLAIN | {"attributes": {"a": 3}}
FAILS_IN_A_MESH = [
    BEGINNING,
    ("acknowledge", "s", 0),
    (
        "say",
        [
            *[("advertise", "p", "TRUE")] * 2,
            ("news", "", 0),
            ("publish", "x", [*[PLAIN] * 4, MATCHING, *[PLAIN] * 3]),
        ],
        [],
    ),
    ("say", [("publish", "p", [PLAIN])], []),
]
"""A neighbour takes back the broker of a subscription, and then a publication matches it."""
scripts = st.builds(
    lambda known, script: [BEGINNING, *script] if known else script,
    st.sampled_from((True, True, False)),
    st.lists(st.one_of(said, said, happens), min_size=1, max_size=12),
)


def open_twins(
    loop: Clock,
    policy: str = "block",
    limit: int = 1000,
    dialect: Dialect = ACYCLIC,
    trace: TraceSection | None = None,
) -> Twins:
    limits = {"queue_policy": policy, "queue_limit": limit, "credit": 64, "session_s": 1000.0}
    limits |= {"link_high": limit, "link_buffer": limit, "link_patience_s": 1.0}
    network = dialect.network(**limits)
    network.trace = trace or network.trace
    twins = Twins(network, dialect.me, loop)
    for name in CLIENTS:
        twins.do("client", name)
    for name in dialect.neighbours:
        twins.do("broker", name)
        twins.do("say", name, dialect.greeting(name))
    twins.answer_all()
    for name in dialect.soft:
        twins.do("soft", name)
    return twins


def tell(twins: Twins, script: list[Any], words: Said | None = None) -> None:
    """Run a script on both brokers, and compare them after each step."""
    words = words or Said()
    dialect = words.dialect
    for what, *how in script:
        who = dialect.name(how[0]) if how and isinstance(how[0], str) else ""
        if what == "say":
            by_client: dict[str, bytes] = {}
            for step in how[0]:
                add_words(words, by_client, step)
            for teller, data in by_client.items():
                for piece in in_pieces(data, how[1]):
                    twins.do("say", teller, piece)
            if how == [*BEGINNING[1:]]:
                twins.answer_all()
        elif what == "come back":
            come_back(twins, who, dialect)
        elif what == "pass time":
            twins.pass_time(*how)
        elif what == "move":
            twins.do("move", *dialect.moves)
        else:
            twins.do(what.replace(" ", "_"), who, *how[1:])
        twins.compare()


def come_back(twins: Twins, who: str, dialect: Dialect) -> None:
    """Bring back everybody whose connection is gone."""
    if not all(told.talks[who].line.closed for told in twins.both):
        return
    if who in dialect.soft:
        twins.do("soft", who)
    elif who in CLIENTS:
        twins.do("client", who)
    else:
        twins.do("broker", who)
        twins.do("say", who, dialect.greeting(who))


def add_words(words: Said, by_client: dict[str, bytes], step: Any) -> None:
    what, who, *how = step
    if what == "news":
        says, data = words.dialect.news(how[0], words.known, next(words.tokens))
    else:
        says, data = words.dialect.name(BEYOND.get(who, who)), b""
    if what == "publish":
        data = b"".join(words.publication(who, event) for event in how[0])
    elif what != "news":
        data = getattr(words, what)(who, *how)
    by_client[says] = by_client.get(says, b"") + data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trace")


def sampled(folder: Path, sample: float) -> TraceSection | None:
    return TraceSection("sampled", str(folder), sample) if sample else None


def plain(number: int, **attributes: Any) -> list[dict[str, Any]]:
    return [{"how": "plain", "attributes": attributes, "payload": 0, "hops": 1, "way": 0}] * number


PROBES = [
    ("publish", who, [event for a in PROBED for event in plain(1, **a)])
    for who in (*PUBLISHERS, *BEYOND)
]
TAKEN_BACK = [("take_back", who, which) for which in (5, 3, 1) for who in ("y", "x", "p")]
changes = st.one_of(
    steps.filter(lambda step: step[0] != "publish"),
    steps.filter(lambda step: step[0] != "publish"),
    happens.filter(lambda step: step[0] not in ("pause", "resume")),
)


@pytest.mark.parametrize("dialect", DIALECTS, ids=repr)
def test_no_course_is_out_of_date(dialect: Dialect) -> None:
    """After each change, whatever it is, publications of many kinds come from everywhere."""
    probe = ("say", PROBES, [])

    @settings(max_examples=examples(DIALECTS[dialect] // 2), deadline=None)
    @example([*[("subscribe", who, "TRUE", 0.0) for who in "xy"], *TAKEN_BACK])
    @given(st.lists(changes, min_size=1, max_size=10))
    def holds(happenings: list[Any]) -> None:
        with clock() as loop:
            twins = open_twins(loop, "drop_oldest", dialect=dialect)
            words = Said(dialect)
            tell(twins, [BEGINNING, probe], words)
            for what in happenings:
                said = what if what[0] in HAPPENS else ("say", [what], [])
                tell(twins, [said, probe], words)
                for name in (*SUBSCRIBERS, *dialect.neighbours):
                    twins.do("acknowledge", name, 0)
            twins.end()

    holds()


@pytest.mark.parametrize("dialect", DIALECTS, ids=repr)
def test_both_ways_write_the_same(dialect: Dialect, folder: Path) -> None:
    """Frames, counters, and the rows of a trace, under every routing that has a compiled path."""

    @settings(max_examples=examples(DIALECTS[dialect]), deadline=None)
    @example(GIVEN_UP_TOGETHER, "block", 3, 0.4)
    @example(FAILS_IN_A_MESH, "block", 3, 0.4)
    @given(
        scripts,
        st.sampled_from(POLICIES),
        st.sampled_from((3, 1000)),
        st.sampled_from((0.0, 0.0, 0.4)),
    )
    def same(script: list[Any], policy: str, limit: int, sample: float) -> None:
        with clock() as loop:
            twins = open_twins(loop, policy, limit, dialect, sampled(folder, sample))
            tell(twins, script, Said(dialect))
            twins.end()

    same()


def test_many_subscriptions_of_a_client_match() -> None:
    """Their numbers are in ascending order, however the index finds them."""
    kinds = ("a > {}", "a <> {}", "b >= {}", "s = 'x' AND b > {}", "c IS NULL AND a > {}")
    filters = [kinds[i % 7 % 5].format(-(i * 37 % 101)) for i in range(240)]
    wanted = [("subscribe", who, filter, 0.0) for who in "st" for filter in filters]
    events = [event for a in range(4) for event in plain(1, a=a, b=a, s="xy"[a % 2])]
    with clock() as loop:
        twins = open_twins(loop)
        tell(twins, [BEGINNING, ("say", wanted, []), ("say", [("publish", "p", events)], [])])
        twins.end()


def got(twins: Twins, who: str) -> int:
    """Return how many deliveries the broker with the compiled path made to a client."""
    return sum(kind == FrameKind.DELIVER for kind, _ in twins.both[1].talks[who].heard)


def test_advisory_events_are_for_those_who_name_them_on_both_ways() -> None:
    """They come from a neighbour, also where no filter looks at topics; and a client that names
    them gets nothing that only looks like one."""
    words = Said(AdvisoryDialect())

    def publish(*hows: str) -> tuple[Any, ...]:
        told = [{**event, "how": how} for how in hows for event in plain(1, a=5)]
        return ("say", [("publish", "x", told)], [])

    with clock() as loop:
        twins = open_twins(loop, dialect=words.dialect)
        tell(twins, [BEGINNING, publish("plain", "plain", "advisory", "plain")], words)
        assert (got(twins, "s"), got(twins, "t")) == (3, 3)
        naming = [("subscribe", "q", "topic LIKE '$reefcast/%' OR a < 0", 0.0)]
        tell(twins, [("say", naming, [])], words)
        tell(twins, [publish("advisory", "claimed", "plain", "reserved", "claimed")], words)
        assert (got(twins, "s"), got(twins, "q")) == (7, 1)
        tell(twins, [("say", [("publish", "p", plain(3, a=-1))], [])], words)
        assert (got(twins, "s"), got(twins, "q")) == (10, 4)
        twins.end()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("before", [("break off", "s"), ("pause", "s", 1)])
def test_a_queue_that_gets_too_full_within_one_read(policy: str, before: tuple[Any, ...]) -> None:
    """This may end the client's session; what comes behind it is then for nobody."""
    burst = ("say", [("publish", "p", plain(8, a=1))], [])
    with clock() as loop:
        twins = open_twins(loop, policy, 3)
        tell(twins, [BEGINNING, before, burst, ("come back", "s"), burst, ("resume", "s"), burst])
        twins.end()


@pytest.mark.parametrize("dialect", DIALECTS, ids=repr)
def test_what_is_plain_makes_no_objects(dialect: Dialect) -> None:
    """The readable path is not called for publications from a client and from a neighbour."""
    with clock() as loop, mock.patch.object(ScotDialect, "tau", 1000.0):
        twins = open_twins(loop, dialect=dialect)
        words = Said(dialect)
        # Headers are learned; a mesh may choose its strategy.
        first = [("publish", who, plain(1, a=5, s="x")) for who in ("p", "x")]
        tell(twins, [BEGINNING, ("say", first, [])], words)
        driver = twins.both[1].node.host.driver
        asked = mock.Mock(side_effect=driver._publications)
        with mock.patch.object(driver, "_publications", asked):
            many = [("publish", who, plain(100, a=5, s="x")) for who in ("p", "q", "x")]
            tell(twins, [("say", many, [])], words)
            assert not asked.called
            odd = [{**event, "how": "again"} for event in plain(1)]
            mixed = plain(2, a=1) + odd + plain(2, a=1) + odd + plain(2, a=1)
            tell(twins, [("say", [("publish", "p", mixed)], [])], words)
            assert [len(call.args[0]) for call in asked.call_args_list] == [1, 1]
        twins.end()


def test_objects_are_made_of_what_a_trace_samples(folder: Path) -> None:
    """Nothing else becomes an object."""
    with clock() as loop:
        twins = open_twins(loop, trace=sampled(folder, 0.1))
        words = Said()
        tell(twins, [BEGINNING], words)
        driver, trace = twins.both[1].node.host.driver, twins.both[1].node.host.journal.trace
        asked = mock.Mock(side_effect=driver._publications)
        with mock.patch.object(driver, "_publications", asked):
            many = [("publish", who, plain(100, a=5, s="x")) for who in ("p", "x")]
            tell(twins, [("say", many, [])], words)
        made = [publish.publication.id for call in asked.call_args_list for publish in call.args[0]]
        assert trace is not None and all(map(trace._recorder.wants, made))
        assert len(made) == sum(id_hash((who, n)) < 2**32 // 10 for who in "px" for n in range(101))
        twins.end()


@pytest.mark.parametrize("how", ["null", "bad text", "cut off"])
def test_what_is_no_publication_ends_the_connection(how: str) -> None:
    """What came before it in the same read counts."""
    with clock() as loop:
        twins = open_twins(loop)
        read = [*plain(2, a=1), {**plain(1, a=1)[0], "how": how}, *plain(1, a=1)]
        tell(twins, [BEGINNING, ("say", [("publish", "p", read)], [])])
        for told in twins.both:
            assert told.talks["p"].heard[-1][0] == wire.FrameKind.CLOSE
            assert told.seen()["counters"]["published"] == 2
        twins.end()


def test_more_than_there_is_room_for() -> None:
    """What is written at once is bounded; the rest follows."""
    with clock() as loop:
        twins = open_twins(loop)
        words = Said()
        tell(twins, [BEGINNING], words)
        desk = twins.both[1].node.host.passage.desk
        burst = ("say", [("publish", "p", plain(20, a=5))], [])
        for word, room in ((K_FRAME_ROOM, 300), (K_ENTRY_ROOM, 7), (K_TOUCHED_ROOM, 5)):
            before, desk.words[word] = desk.words[word], room
            tell(twins, [burst], words)
            desk.words[word] = before
        desk._enlarge_run(3)
        desk._enlarge_out(8)
        tell(twins, [burst], words)
        twins.end()


bodies = st.builds(
    lambda value, changes: changed(msgspec.msgpack.encode(value), changes),
    st.one_of(
        st.tuples(
            st.text(max_size=3),
            st.integers(-(2**63), 2**64 - 1),
            st.one_of(st.integers(-5, 5), st.floats(), st.none()),
            st.dictionaries(
                st.one_of(st.text(max_size=4), st.integers(0, 3)),
                st.one_of(values, st.text(), st.floats(), st.none(), st.binary(max_size=2)),
                max_size=18,
            ),
        ),
        st.tuples(
            st.just("p"),
            st.integers(0, 300),
            st.just(1),
            attributes,
            st.lists(st.text(max_size=40), max_size=17),
            st.one_of(st.binary(max_size=300), st.text(max_size=3)),
        ),
    ),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2),
)


def changed(body: bytes, changes: list[tuple[int, int]]) -> bytes:
    """Return the body with some bytes replaced."""
    found = bytearray(body)
    for place, byte in changes:
        found[place % len(found)] = byte
    return bytes(found)


@settings(max_examples=500, deadline=None)
@given(bodies)
def test_what_is_plain_is_a_publication(body: bytes) -> None:
    """Whatever the bytes are, Python can read what the compiled path takes for plain."""
    data = wire.encode_parts(wire.FrameKind.PUBLISH, (0,), body)
    desk = the_desk()
    assert desk.cut(data, 0, 0) == 1
    if desk.is_plain(0):
        publication = wire.decode_publication(body)
        assert desk._publications[F_SEQ] == publication.seq
        assert desk._publications[F_TOPICS] == len(publication.topics)
    else:
        note("not plain")


@given(st.builds(Publication, st.text(), st.integers(0, 2**63 - 1), st.just(0), attributes))
@settings(deadline=None)
def test_what_clients_publish_is_plain(publication: Publication) -> None:
    body = wire.encode_publication(publication)
    data = wire.encode_publish(Publish(publication, body=body))
    desk = the_desk()
    assert desk.cut(data + data[:-1], 0, 0) == 1
    assert desk.is_plain(0)


@given(st.text(), st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 10**6)))
@settings(deadline=None)
def test_the_hash_of_an_id_in_bytes(publisher: str, seq: int) -> None:
    """It is the same for kernels and for writers of rows."""
    publish = Publish(Publication(publisher, seq, 0, {}))
    data = wire.encode_publish(
        msgspec.structs.replace(publish, body=wire.encode_publication(publish.publication))
    )
    desk, hashed = the_desk(), id_hash((publisher, seq))
    for wanted_below in (0, hashed, hashed + 1, 2**32):
        desk.words[K_WANTED_BELOW] = wanted_below
        assert desk.cut(data, 0, 0) == 1
        assert desk.is_plain(0) == (hashed >= wanted_below)
    desk.words[K_WANTED_BELOW] = 0


@cache
def the_desk() -> Desk:
    return Desk()


@pytest.mark.parametrize("dialect", DIALECTS, ids=repr)
def test_who_watches_sees_the_same_and_changes_nothing(dialect: Dialect) -> None:
    """Publications that are watched for take the readable path, in their place among the others."""

    @settings(max_examples=examples(max(5, DIALECTS[dialect] // 20)), deadline=None)
    @given(scripts, st.sampled_from((ALL, ALL // 2, ALL // 8)))
    def same(script: list[Any], below: int) -> None:
        with clock() as loop:
            twins = open_twins(loop, "drop_oldest", dialect=dialect)
            twins.do("watch", below)
            tell(twins, script, Said(dialect))
            twins.end()

    same()
