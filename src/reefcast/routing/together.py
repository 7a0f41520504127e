"""Confirmations of consecutive publications in one message."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from msgspec.structs import replace

from reefcast.model.messages import MOST_MORE, Confirmed, Send


def together(answers: Iterable[Send]) -> list[Send]:
    """Return messages with the answers as one (`Confirmed.more`) that go to one link, one behind
    the other, and say the same of consecutive publications of one publisher."""
    found: list[Send] = []
    for _, run in groupby(enumerate(answers), _run_of):
        sends = [send for _, send in run]
        first = sends[0]
        if len(sends) > 1:
            sends = [Send(first.link, replace(first.message, more=len(sends) - 1))]
        found += sends
    return found


def _run_of(numbered: tuple[int, Send]) -> tuple[object, ...]:
    """Return what is the same for messages of which `together` makes one."""
    at, send = numbered
    message = send.message
    if not isinstance(message, Confirmed) or message.more:
        return (at,)
    said = (message.publisher, message.attempt, message.kept, message.refused)
    return (send.link, *said, message.seq - at, at // MOST_MORE)
