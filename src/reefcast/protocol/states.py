"""The states of one end of a connection, and what leads from one to the next."""

from __future__ import annotations

from enum import Enum, auto

from reefcast.protocol.transitions import follow


class State(Enum):
    """WAITING: for the other end's hello. GREETING: it is here, and this end has not decided yet
    what becomes of it: it may ask for PROOF first. OPEN: both know what the other is. LEAVING: this
    end has said goodbye, and what still comes is thrown away. CLOSED: nothing comes or goes any
    more."""

    WAITING = auto()
    GREETING = auto()
    OPEN = auto()
    LEAVING = auto()
    CLOSED = auto()


class Step(Enum):
    """HELLO: it has come. ADMIT: the other end is let in. LEAVE: this end says goodbye. FAREWELL:
    the other end did. LOSE: the connection is gone."""

    HELLO = auto()
    ADMIT = auto()
    LEAVE = auto()
    FAREWELL = auto()
    LOSE = auto()


NEXT = {
    (State.WAITING, Step.HELLO): State.GREETING,
    (State.WAITING, Step.LEAVE): State.LEAVING,
    (State.WAITING, Step.FAREWELL): State.CLOSED,
    (State.GREETING, Step.ADMIT): State.OPEN,
    (State.GREETING, Step.LEAVE): State.LEAVING,
    (State.GREETING, Step.FAREWELL): State.CLOSED,
    (State.OPEN, Step.LEAVE): State.LEAVING,
    (State.OPEN, Step.FAREWELL): State.CLOSED,
    **{(state, Step.LOSE): State.CLOSED for state in State},
}


def after(state: State, step: Step) -> State:
    """Return the next state of a link; raises `InternalError` for a step that cannot be taken."""
    return follow(NEXT, "a link", state, step)
