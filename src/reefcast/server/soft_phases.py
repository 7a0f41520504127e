"""The phases of one end of a soft link, and the steps between them.

A link is closed from both ends: each says DONE when everything that it sent is acknowledged. The
loss of the connection ends the link in any phase."""

from __future__ import annotations

from enum import Enum, auto

from reefcast.protocol.transitions import follow


class Phase(Enum):
    """ASKED: another broker wants the link, and the core has not answered yet. CLOSING: this end
    sends nothing more. SAID, HEARD: this end has sent DONE, or received it, and not yet the
    other."""

    ASKED = auto()
    REFUSED = auto()
    UP = auto()
    CLOSING = auto()
    SAID = auto()
    HEARD = auto()
    ENDED = auto()


class Step(Enum):
    """TAKEN: the core accepted the link. CLOSE: the core no longer wants it, or never did. SAY,
    HEAR: DONE was sent, or received."""

    TAKEN = auto()
    CLOSE = auto()
    SAY = auto()
    HEAR = auto()
    LOSE = auto()


NEXT = {
    (Phase.ASKED, Step.TAKEN): Phase.UP,
    (Phase.ASKED, Step.CLOSE): Phase.REFUSED,
    (Phase.UP, Step.CLOSE): Phase.CLOSING,
    (Phase.UP, Step.HEAR): Phase.HEARD,
    (Phase.CLOSING, Step.CLOSE): Phase.CLOSING,
    (Phase.CLOSING, Step.SAY): Phase.SAID,
    (Phase.CLOSING, Step.HEAR): Phase.HEARD,
    (Phase.SAID, Step.CLOSE): Phase.SAID,
    (Phase.SAID, Step.HEAR): Phase.ENDED,
    (Phase.HEARD, Step.CLOSE): Phase.HEARD,
    (Phase.HEARD, Step.SAY): Phase.ENDED,
    (Phase.ENDED, Step.CLOSE): Phase.ENDED,  # the core does not know of it yet
    **{(phase, Step.LOSE): Phase.ENDED for phase in Phase},
}


def after(phase: Phase, step: Step) -> Phase:
    """Return the next phase of a soft link; raises `InternalError` for a step that is not in the
    table."""
    return follow(NEXT, "a soft link", phase, step)
