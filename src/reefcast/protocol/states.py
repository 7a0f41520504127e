"""The states of one end of a connection, and the steps between them."""

from __future__ import annotations

from enum import Enum, auto

from reefcast.protocol.transitions import follow


class State(Enum):
    """WAITING: for the other end's hello. GREETING: the hello is here, and this end has not decided
    yet whether to admit the other end: it may ask for PROOF first. OPEN: both ends know what the
    other is. CLOSING: this end has sent CLOSE, and discards what still comes. CLOSED: nothing is
    sent or received any more."""

    WAITING = auto()
    GREETING = auto()
    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


class Step(Enum):
    """HELLO: the other end's hello has come. ADMIT: the other end is admitted. CLOSE: this end
    sends CLOSE. PEER_CLOSED: the other end did. LOSE: the connection is gone."""

    HELLO = auto()
    ADMIT = auto()
    CLOSE = auto()
    PEER_CLOSED = auto()
    LOSE = auto()


NEXT = {
    (State.WAITING, Step.HELLO): State.GREETING,
    (State.WAITING, Step.CLOSE): State.CLOSING,
    (State.WAITING, Step.PEER_CLOSED): State.CLOSED,
    (State.GREETING, Step.ADMIT): State.OPEN,
    (State.GREETING, Step.CLOSE): State.CLOSING,
    (State.GREETING, Step.PEER_CLOSED): State.CLOSED,
    (State.OPEN, Step.CLOSE): State.CLOSING,
    (State.OPEN, Step.PEER_CLOSED): State.CLOSED,
    **{(state, Step.LOSE): State.CLOSED for state in State},
}


def after(state: State, step: Step) -> State:
    """Return the next state of a link; raises `InternalError` for a step that cannot be taken."""
    return follow(NEXT, "a link", state, step)
