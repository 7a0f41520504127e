"""The parameters of gossip: the keys of `[routing]` in the network file."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import chain
from typing import Annotated, Literal

import msgspec

from reefcast.errors import ConfigurationError
from reefcast.routing.gossip.streams import NodeId
from reefcast.routing.router import RoutingOptions

Rounds = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class GossipOptions(RoutingOptions, frozen=True):
    """Options of gossip.

    - `contacts`: brokers through which others join topics. Each topic has two of them, chosen by
      its name; they learn who is interested in it.
    - `topics`: the contacts of single topics, by their names, in place of those.
    - `fanout`: to how many neighbours in a topic a node forwards a publication (0: all).
    - `repair`: compare with a neighbour every round what arrived in the last 10 rounds, so that
      nothing stays lost.
    - `kept_rounds`: for how many rounds publications are kept, for repair and for neighbours that
      were out of reach; at most 64 MB for all topics together.
    - `round_s`: seconds between two walks of a node in a topic.
    - `ttl`: the steps of a walk.
    - `rule`: which neighbours a node drops for better ones: "witness" those that another node has,
      "greedy" any.
    - `quarantine_rounds`: for how long a node that could not be reached is not accepted as a
      neighbour.
    - `wave_rounds`: rounds between two waves, by which the contacts of a topic check that all
      members can be reached.
    - `seed`: the seed of all random choices; the same at all brokers.
    """

    contacts: tuple[NodeId, ...] = ()
    topics: dict[str, tuple[NodeId, ...]] = {}  # noqa: RUF012 - msgspec copies defaults
    fanout: Annotated[int, msgspec.Meta(ge=0)] = 0
    repair: bool = False
    kept_rounds: Rounds = 60
    round_s: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    ttl: Annotated[int, msgspec.Meta(ge=1, le=32)] = 5
    rule: Literal["witness", "greedy"] = "witness"
    quarantine_rounds: Rounds = 20
    wave_rounds: Rounds = 10
    seed: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] = 0

    def check_brokers(self, names: Collection[NodeId], is_broker: Callable[[NodeId], bool]) -> None:
        if not self.contacts and not self.topics:
            raise ConfigurationError(
                "brokers of routing 'gossip' meet through contacts: name some of them, as in "
                f'contacts = ["{next(iter(names))}"] in [routing]'
            )
        for contact in (*self.contacts, *chain.from_iterable(self.topics.values())):
            if not is_broker(contact):
                raise ConfigurationError(
                    f"contact {contact!r} is none of the brokers, which are {', '.join(names)}"
                )
