"""A question about the past and its session, fed with frames."""

from __future__ import annotations

import pytest

from reefcast.client.history import History
from reefcast.client.session import Session
from reefcast.client.settings import complete
from reefcast.errors import RefusedError
from reefcast.history.asking import question_about
from reefcast.history.messages import CLIENT_CODEC, Find, Found
from reefcast.model import wire
from reefcast.model.wire import FrameKind, Role
from reefcast.protocol.client_ids import Identity
from reefcast.protocol.frames import FrameReader


def finds(session: Session) -> int:
    """Return how many `Find` messages are about to be written."""
    frames = FrameReader().feed(session.outbox.drain())
    controls = (
        CLIENT_CODEC.decode_control(body) for kind, body in frames if kind == FrameKind.CONTROL
    )
    return sum(isinstance(message, Find) for message in controls)


async def test_a_question_that_failed_is_not_asked_again_after_a_reconnect() -> None:
    settings, nothing = complete({}), lambda: None
    session = Session(Identity("c"), "key", settings, nothing, nothing, lambda then: None)
    hello = wire.hello(Role.BROKER, "b", "net", "session")
    session.established(hello)
    history = History(session, question_about("topic = 't'"), 1.0)
    history.start()
    assert finds(session) == 1
    found = wire.encode(FrameKind.CONTROL, Found(number=1, parts=(), missing=("t",)))
    session.on_frames(FrameReader().feed(found))
    with pytest.raises(RefusedError, match="nobody stores"):
        await history.next_batch()
    session.lost()
    session.established(hello)
    assert finds(session) == 0
    with pytest.raises(RefusedError, match="nobody stores"):
        await history.next_batch()
