"""History in scripts: clients that become storages, and questions; `clients.Asked` has their
outcomes. Only live brokers and clients have any (`wire`)."""

from __future__ import annotations

from dataclasses import dataclass

from reefcast.history.asking import Question
from reefcast.history.limits import Limits
from reefcast.simulation.clients import Scripted

PATIENCE_S = 10.0
"""How long a question waits for a storage that sends nothing, before it is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing(Scripted):
    """The client becomes a storage of `topics` (names and patterns)."""

    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Requesting(Scripted):
    """The client asks, and again after `patience_s` without an answer."""

    question: Question
    patience_s: float
