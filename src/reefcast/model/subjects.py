"""Users as roles see them."""

from __future__ import annotations

from typing import Any

import msgspec


class Subject(msgspec.Struct, frozen=True, array_like=True):
    """A user as roles see him; brokers tell each other, and write it to their disks. `proof`: how
    he was proved, in a word; `granted`: the names of his roles; `claims`: what his token says of
    him."""

    user: str
    proof: str = ""
    granted: tuple[str, ...] = ()
    claims: dict[str, Any] = msgspec.field(default_factory=dict)
