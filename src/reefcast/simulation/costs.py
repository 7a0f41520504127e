"""The costs of messages for a broker's CPU. All figures are seconds, unless the name says
otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType

from reefcast.errors import ConfigurationError
from reefcast.history.messages import MESSAGES as HISTORY
from reefcast.model.messages import (
    Advertise,
    Deliver,
    Effect,
    LinkDown,
    LinkUp,
    MoveLink,
    PeerMessage,
    Publish,
    Refused,
    Relearned,
    Settled,
    Subscribe,
    Synced,
    Timer,
    Unadvertise,
    Unsubscribe,
)
from reefcast.routing.router import Decision
from reefcast.simulation.signs import SoftDown, SoftGone, SoftUp


@dataclass(frozen=True, slots=True)
class CostModel:
    """Service times of a broker.

    A publication costs `publication_s + copy_s * c` for `c` copies made, for brokers and local
    clients; where it is matched, `matched_row_s * m + table_row_s * r` for `m` matching rows and
    `r` rows in the PRT; and for the choice of next hops, `link_check_s` for each link whose load
    was looked up and `search_row_s` for each row searched for its trees
    (`routing.router.Decision`). Every other input has a fixed cost, plus `copy_s` for each message
    that it causes; a delivery to `n` clients is `n` messages. A subscription costs also
    `advertisement_row_s` for each row of the broker's SRT or CLT, `subscription_row_s` for each row
    of its PRT. A subscription that comes or goes costs `comparison_s` for each comparison of two
    filters, where covering is looked for and something counts them (`Setup.comparisons`). A message
    that brings several subscriptions costs what these cost.

    The defaults are those of this project's own broker on one core of the machine that the other
    figures in docs/explanation/performance.md come from: 4.5 us for a publication that goes to one
    neighbour, sockets and all; with 80 000 subscriptions and covering "active" 250 us for one more
    (175 of them for parsing its text), 22 us for a withdrawn one; and 9 us for each that takes its
    place, which counts as `copy_s` here, as the neighbour pays thirty times that."""

    publication_s: float = 3.5e-6
    matched_row_s: float = 5e-8
    table_row_s: float = 0.0
    copy_s: float = 1e-6
    link_check_s: float = 5e-7
    search_row_s: float = 5e-7
    advertisement_row_s: float = 0.0
    subscription_row_s: float = 0.0
    comparison_s: float = 0.0
    advertise_s: float = 2.5e-4
    unadvertise_s: float = 2.2e-5
    subscribe_s: float = 2.5e-4
    unsubscribe_s: float = 2.2e-5
    answer_s: float = 2e-6
    """Settled, Refused, Synced and Relearned, and messages about history."""
    link_s: float = 1e-4
    """A link that came up or went."""
    timer_s: float = 2e-6

    def matching_s(self, decision: Decision, rows: int) -> float:
        """Return the time in the matching engine, with `rows` in the PRT."""
        if decision.matched is None:
            return 0.0
        return self.matched_row_s * decision.matched + self.table_row_s * rows

    def choice_s(self, decision: Decision) -> float:
        """Return the time for choosing next hops beyond the match."""
        return self.link_check_s * decision.checked + self.search_row_s * decision.searched

    def validate(self) -> CostModel:
        """Return the model itself. Raises `ConfigurationError` for a cost that is negative or no
        number."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not (value >= 0 and math.isfinite(value)):
                raise ConfigurationError(
                    f"cost {field.name} = {value} is not a number of seconds from 0 upward"
                )
        return self

    def fixed(self, messages: Iterable[type[PeerMessage]] = ()) -> dict[type, float]:
        """Return the fixed part of the cost of each input, by its class, including a routing's own
        messages."""
        shared: dict[type, float] = {
            Publish: self.publication_s,
            Advertise: self.advertise_s,
            Unadvertise: self.unadvertise_s,
            Subscribe: self.subscribe_s,
            Unsubscribe: self.unsubscribe_s,
            Settled: self.answer_s,
            Refused: self.answer_s,
            Synced: self.answer_s,
            Relearned: self.answer_s,
            LinkUp: self.link_s,
            LinkDown: self.link_s,
            Timer: self.timer_s,
            MoveLink: self.timer_s,
            SoftUp: self.link_s,
            SoftDown: self.link_s,
            SoftGone: self.link_s,
        }
        shared |= dict.fromkeys(HISTORY, self.answer_s)
        return shared | {message: shared[message.costs_like] for message in messages}


PRESETS = MappingProxyType(
    {
        # One process of this project's live broker.
        "measured": CostModel(),
        # A broker on the Java virtual machine with a Rete engine and 10 000 subscriptions: 200 to
        # 740 publications a second, as measured for PADRES.
        "padres": CostModel(
            publication_s=2e-4,
            matched_row_s=2e-6,
            table_row_s=1e-7,
            copy_s=5e-5,
            link_check_s=5e-5,
            search_row_s=2e-6,
            advertise_s=2e-3,
            unadvertise_s=2e-3,
            subscribe_s=2e-3,
            unsubscribe_s=2e-3,
            answer_s=5e-5,
            timer_s=5e-5,
        ),
        # Nothing costs anything: shows the links alone.
        "free": CostModel(**{field.name: 0.0 for field in fields(CostModel)}),
    }
)


def preset(name: str) -> CostModel:
    """Return the cost model of this name. Raises `ConfigurationError` if there is none."""
    if name not in PRESETS:
        raise ConfigurationError(
            f"there is no cost preset {name!r}; choose one of {', '.join(sorted(PRESETS))}"
        )
    return PRESETS[name]


def copies_of(effects: Sequence[Effect]) -> int:
    """Return how many messages these effects are, counting a delivery once for each client."""
    copies = 0
    for effect in effects:
        copies += len(effect.to) if type(effect) is Deliver else 1
    return copies
