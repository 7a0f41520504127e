"""What a home answers its clients, and when: the broker core with sessions, without a driver."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from reefcast.errors import ProtocolError
from reefcast.model.messages import (
    Advertise,
    Effect,
    Input,
    Keep,
    Kept,
    LinkKind,
    LinkUp,
    Refused,
    Relearned,
    Send,
    ServiceMessage,
    SessionNews,
    Settled,
    Subscribe,
    Synced,
    is_durable,
)
from reefcast.routing.broker import Broker
from reefcast.sessions.home import Home
from reefcast.sessions.messages import (
    MOST_TEXT_BYTES,
    Acknowledge,
    AddFilter,
    Asked,
    Attach,
    CloseSession,
    ConsumerEnded,
    Detach,
    Done,
    Failed,
    ListSessions,
    Note,
    Notes,
    OpenSession,
    ReadNotes,
    Resize,
    Sessions,
)
from reefcast.sessions.relay_messages import Nowhere, Where


class Core:
    """Broker `a` with clients `c` and `d`, and neighbour `b`, who advertises everything and has no
    session. What the broker says to clients collects in `said`; what it wants on disk waits for
    `sync`."""

    def __init__(self, most_sessions: int = 10, home: Home | None = None) -> None:
        home = home or Home()
        self._broker = Broker(
            "a", "acyclic", neighbours=("b",), home=home, rng=Random(1), most_sessions=most_sessions
        )
        self.said: list[tuple[str, ServiceMessage]] = []
        self.to_b: list[Subscribe] = []
        self.news: list[SessionNews] = []
        self._token = 0
        self._put(LinkUp(LinkKind.BROKER), "b")
        for item in (Advertise(("p", 1), "n > 0", 1), Synced(), Relearned()):
            self._put(item, "b")
        for client in "cd":
            self._put(LinkUp(LinkKind.CLIENT), client)
        self.sync()

    def _put(self, item: Input, link: str) -> None:
        self._carry_out(self._broker.handle(item, link, 0.0))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Keep):
                self._token = effect.token
            elif isinstance(effect, SessionNews):
                self.news.append(effect)
            elif isinstance(effect, Send) and isinstance(effect.message, Where):
                self._put(Nowhere(id=effect.message.id, reached=("b",)), "b")
            elif isinstance(effect, Send) and isinstance(effect.message, ServiceMessage):
                self.said.append((effect.link, effect.message))
            elif isinstance(effect, Send) and isinstance(effect.message, Subscribe):
                self.to_b.append(effect.message)

    def ask(self, *messages: Asked, client: str = "c") -> list[tuple[str, ServiceMessage]]:
        """Ask something; return what the broker says at once."""
        before = len(self.said)
        for message in messages:
            self._put(message, client)
        return self.said[before:]

    def answer(self, message: Settled | Refused) -> None:
        self._put(message, "b")

    def sync(self) -> list[tuple[str, ServiceMessage]]:
        """Sync everything; return what the broker says then."""
        before = len(self.said)
        self._put(Kept(self._token), "")
        return self.said[before:]


def opened(**options: int) -> Core:
    core = Core(**options)
    core.ask(OpenSession(token=1, session="s"))
    assert core.sync() == [("c", Done(token=1, value=1))]
    return core


def test_that_a_session_is_open_is_said_when_it_is_on_disk() -> None:
    core = Core()
    assert core.ask(OpenSession(token=1, session="s")) == []
    assert core.sync() == [("c", Done(token=1, value=1))]
    core.ask(OpenSession(token=2, session="s", options={"max_events": 7}))
    assert core.sync() == [("c", Done(token=2, value=0))]
    again = core.ask(OpenSession(token=3, session="s", options={"max_events": 7}))
    assert again == [("c", Done(token=3, value=0))]


def test_a_subscription_is_done_when_it_has_settled_and_is_on_disk() -> None:
    core = opened()
    assert core.ask(AddFilter(token=2, session="s", filter="n > 1")) == []
    assert core.ask(AddFilter(token=1, session="s", filter="n > 1"), client="d") == []
    assert core.sync() == []
    [told] = core.to_b
    assert told.filter == "n > 1" and is_durable(told.id[0])
    core.answer(Settled(told.token))
    core.sync()
    assert core.said[-2:] == [("c", Done(token=2, value=1)), ("d", Done(token=1, value=1))]
    # Who subscribes again is answered at once.
    assert core.ask(AddFilter(token=3, session="s", filter="n > 1")) == [
        ("c", Done(token=3, value=1))
    ]


def test_a_subscription_that_is_refused_is_not_kept() -> None:
    core = opened()
    core.ask(AddFilter(token=2, session="s", filter="n > 1"))
    core.answer(Refused(core.to_b[0].token, "b does not want it"))
    core.sync()
    [(client, failed)] = core.said[1:]
    assert isinstance(failed, Failed)
    assert (client, failed.token, failed.reason) == ("c", 2, "b does not want it")
    [(_, listed)] = core.ask(ListSessions(token=3))
    assert isinstance(listed, Sessions) and listed.rows[0].subscriptions == {}


@pytest.mark.parametrize("filter", ["n >", "n > 1 AND", ""])
def test_a_filter_that_is_none_is_refused_with_a_sentence(filter: str) -> None:
    core = opened()
    core.ask(AddFilter(token=2, session="s", filter=filter))
    core.sync()
    [(_, failed)] = core.said[1:]
    assert isinstance(failed, Failed) and "expected" in failed.reason
    [(_, listed)] = core.ask(ListSessions(token=3))
    assert isinstance(listed, Sessions) and listed.rows[0].subscriptions == {}


def test_there_are_at_most_so_many_sessions() -> None:
    core = opened(most_sessions=1)
    [(_, failed)] = core.ask(OpenSession(token=2, session="t"))
    assert isinstance(failed, Failed) and "1 sessions already" in failed.reason
    core.ask(CloseSession(token=3, session="s"))
    core.sync()
    core.ask(OpenSession(token=4, session="t"))
    assert core.sync() == [("c", Done(token=4, value=1))]


def test_who_waits_for_a_session_that_is_closed_hears_so() -> None:
    core = opened()
    core.ask(AddFilter(token=2, session="s", filter="n > 1"))
    core.ask(Attach(token=1, session="s", consumer=7, window=1), client="d")
    core.sync()
    core.said.clear()
    core.ask(CloseSession(token=3, session="s"))
    core.sync()
    failed = Failed(token=2, reason="the session was closed", gone=True)
    ended = [message for client, message in core.said if client == "d"]
    assert ("c", failed) in core.said and ("c", Done(token=3)) in core.said
    assert [type(message) for message in ended] == [ConsumerEnded]
    [(_, answer)] = core.ask(Resize(token=2, consumer=7, window=1), client="d")
    assert isinstance(answer, Failed) and answer.gone and "not attached" in answer.reason


def test_who_attaches_alone_ends_all_others() -> None:
    core = opened()
    for client, consumer in (("c", 1), ("c", 2), ("d", 1)):
        core.ask(Attach(token=9, session="s", consumer=consumer, window=1), client=client)
    core.sync()
    core.said.clear()
    wrong = Attach(token=2, session="s", consumer=3, window=1, filter="n >", alone=True)
    [(_, failed)] = core.ask(wrong, client="d")
    assert isinstance(failed, Failed)
    core.said.clear()
    core.ask(Attach(token=3, session="s", consumer=2, window=1, alone=True), client="d")
    core.sync()
    ended = ConsumerEnded(consumer=1, reason="another client of this session took over")
    assert core.said == [
        ("d", Done(token=3)),
        ("c", ended),
        ("c", msgspec.structs.replace(ended, consumer=2)),
        ("d", ended),
    ]
    [(_, late)] = core.ask(Acknowledge(token=4, consumer=1, positions=(1,)))
    assert isinstance(late, Failed) and late.gone
    core.ask(Attach(token=5, session="s", consumer=4, window=1))
    core.sync()
    [(_, listed)] = core.ask(ListSessions(token=6, session="s"))
    assert isinstance(listed, Sessions) and list(listed.rows[0].consumers) == ["d#2", "c#4"]


def test_notes_are_done_and_read_when_they_are_on_disk() -> None:
    core = opened()
    assert core.ask(Note(token=2, session="s", notes={"a": "1", "b": "2", "ab": "3"})) == []
    core.sync()
    core.said.clear()
    assert core.ask(Note(token=3, session="s", notes={"a": None, "b": "4"})) == []
    assert core.ask(ReadNotes(token=4, session="s"), client="d") == []
    assert core.ask(ReadNotes(token=5, session="s", prefix="a")) == []
    assert core.sync() == [
        ("c", Done(token=3)),
        ("d", Notes(token=4, notes={"b": "4", "ab": "3"})),
        ("c", Notes(token=5, notes={"ab": "3"})),
    ]
    assert core.ask(ReadNotes(token=6, session="s")) == [
        ("c", Notes(token=6, notes={"b": "4", "ab": "3"}))
    ]


def test_many_notes_are_read_in_several_messages() -> None:
    core = opened()
    notes = {f"{number}": "x" * 100_000 for number in range(7)}
    core.ask(Note(token=2, session="s", notes=notes))
    core.sync()
    told = [message for _, message in core.ask(ReadNotes(token=3, session="s"))]
    read = [each for each in told if isinstance(each, Notes)]
    assert [(len(each.notes), each.more) for each in read] == [
        (2, True),
        (2, True),
        (2, True),
        (1, False),
    ]
    assert {key: text for each in read for key, text in each.notes.items()} == notes


def test_notes_that_are_not_kept_are_refused_with_a_sentence() -> None:
    core = opened()
    for notes, sentence in (
        ({"a": "x" * (MOST_TEXT_BYTES + 1)}, "note 'a' has 2097153 bytes; it may have 2097152"),
        ({"ä" * 35_001: ""}, "the key of a note has 70002 bytes; it may have 70000"),
        ({f"{at}": "" for at in range(70_000)}, "the session has 70001 notes of"),
    ):
        [(_, failed)] = core.ask(Note(token=2, session="s", notes={"b": "", **notes}))
        assert isinstance(failed, Failed) and not failed.gone and sentence in failed.reason
    [(_, gone)] = core.ask(Note(token=3, session="t", notes={}))
    assert gone == Failed(token=3, reason="there is no session 't' in this network", gone=True)
    assert core.ask(ReadNotes(token=4, session="s")) == [("c", Notes(token=4, notes={}))]


def test_notes_of_a_consumer_that_has_left_are_not_kept() -> None:
    core = opened()
    core.ask(Attach(token=2, session="s", consumer=0, window=1))
    core.sync()
    core.ask(Note(token=3, session="s", notes={"a": "1"}, consumer=0))
    assert core.sync() == [("c", Done(token=3))]
    [(_, other)] = core.ask(Note(token=1, session="s", notes={"a": "2"}, consumer=0), client="d")
    core.ask(Detach(token=4, consumer=0))
    [(_, late)] = core.ask(Note(token=5, session="s", notes={"a": "2"}, consumer=0))
    for failed in (other, late):
        assert isinstance(failed, Failed) and failed.gone and "not attached" in failed.reason
    core.sync()
    assert core.ask(ReadNotes(token=6, session="s")) == [("c", Notes(token=6, notes={"a": "1"}))]
    [(_, listed)] = core.ask(ListSessions(token=7))
    assert isinstance(listed, Sessions) and listed.rows[0].notes == 1


def test_nobody_says_what_is_not_for_him_to_say() -> None:
    core = opened()
    with pytest.raises(ProtocolError, match="only clients do"):
        core.ask(OpenSession(token=1, session="s"), client="b")
    with pytest.raises(ProtocolError):
        core._put(Done(token=1), "c")
