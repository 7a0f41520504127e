"""The phases of one end of a soft link, and what leads from one to the next.

A link is closed from both ends: each says DONE when all that it sent has been acknowledged. In
whatever phase it is, it has ended when its connection is lost.
"""

from __future__ import annotations

from enum import Enum, auto

from reefcast.protocol.transitions import follow


class Phase(Enum):
    """ASKED: another broker wants it, and the core has not said whether it takes it. CLOSING: this
    end sends nothing more. SAID, HEARD: DONE was said, or heard, and not the other one yet."""

    ASKED = auto()
    REFUSED = auto()
    UP = auto()
    CLOSING = auto()
    SAID = auto()
    HEARD = auto()
    ENDED = auto()


class Step(Enum):
    """TAKEN: by the core. CLOSE: the core wants it no more, or never did. SAY, HEAR: DONE."""

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
    (Phase.ENDED, Step.CLOSE): Phase.ENDED,  # the core has not heard of it yet
    **{(phase, Step.LOSE): Phase.ENDED for phase in Phase},
}


def after(phase: Phase, step: Step) -> Phase:
    """Return the next phase of a soft link; raises `InternalError` for a step that cannot be
    taken."""
    return follow(NEXT, "a soft link", phase, step)
