"""The client's session, fed with frames."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reefcast.client.session import Session
from reefcast.client.settings import complete
from reefcast.model import wire
from reefcast.model.messages import Refused, Settled
from reefcast.model.publication import Publication
from reefcast.model.wire import Dropped, FrameKind, Role
from reefcast.protocol.client_ids import Identity
from reefcast.protocol.frames import FrameReader

NUMBERED = (
    FrameKind.CONTROL,
    FrameKind.DELIVER,
    FrameKind.DELIVER_AGAIN,
    FrameKind.DROPPED,
)


def frame_of(kind: FrameKind, n: int) -> bytes:
    if kind in (FrameKind.DELIVER, FrameKind.DELIVER_AGAIN):
        body = wire.encode_publication(Publication("p", n, 0, {}))
        return wire.encode_deliver((1,), body, again=kind is FrameKind.DELIVER_AGAIN)
    if kind is FrameKind.CONTROL:
        return wire.encode(kind, Settled(n) if n % 2 else Refused(0, "no", ("c", n)))
    if kind is FrameKind.DROPPED:
        return wire.encode(kind, Dropped(1, ()))
    return wire.encode(kind, 0)  # an acknowledgement, or credit


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from([*NUMBERED, FrameKind.ACK, FrameKind.CREDIT]), st.integers(1, 5)
            ),
            max_size=8,
        ),
        max_size=6,
    )
)
def test_it_counts_what_its_broker_counts(reads: list[list[tuple[FrameKind, int]]]) -> None:
    settings = complete({"on_dropped": lambda _: None})
    session = Session(Identity("c"), "key", settings, lambda: None, lambda: None, lambda then: None)
    expected = 0
    for read in reads:
        data = b"".join(frame_of(kind, n) for kind, n in read)
        frames = [
            (kind, wire.decode_number(payload) if kind == FrameKind.ACK else payload)
            for kind, payload in FrameReader().feed(data)
        ]
        session.on_frames(frames)
        expected += sum(kind in NUMBERED for kind, _ in read)
        assert session.taken == expected


def test_with_another_broker_it_counts_anew() -> None:
    settings, nothing = complete({}), lambda: None
    session = Session(Identity("c"), "key", settings, nothing, nothing, lambda then: None)
    for name, resumed, taken in (("a", False, 0), ("a", True, 1), ("b", False, 0)):
        hello = wire.hello(Role.BROKER, name, "net", f"session of {name}", resumed=resumed)
        session.established(hello)
        assert session.taken == taken
        ((_, said),) = FrameReader().feed(wire.encode(FrameKind.HELLO, session.hello()))
        assert wire.decode_hello(said).received == taken
        session.on_frames(FrameReader().feed(wire.encode(FrameKind.CONTROL, Settled(99))))
        session.lost()
