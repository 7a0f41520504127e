"""What operators wish of a running broker as a whole, beside what they wish of its core."""

from __future__ import annotations

import msgspec

from reefcast.model.messages import Wish


class Apply(msgspec.Struct, frozen=True, tag="apply"):
    """An operator's wish: the broker is to read its network file again. `fingerprint`: that of the
    file which the operator has (`network.changes`); `dry`: the broker only says what it would
    do."""

    fingerprint: str
    dry: bool


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """An operator's wish: the broker is to hand its clients to other brokers, and to take no new
    ones. `on`: False: it is to take clients again."""

    on: bool


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """An operator's wish: the broker's process is to end in order; `again`: so that whatever
    watches it starts it again, and else for good: it was taken out of the network."""

    again: bool


OperatorWish = Wish | Apply | Drain | Stop
"""What operators may wish of a running broker."""
