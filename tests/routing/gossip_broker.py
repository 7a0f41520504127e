"""One broker of routing `gossip`: the test plays its clients and all other brokers."""

from __future__ import annotations

from reefcast.matching.scan import ScanIndex
from reefcast.model.messages import (
    Advertise,
    CloseLink,
    Deliver,
    Effect,
    Input,
    LinkKind,
    LinkUp,
    OpenLink,
    Publish,
    Send,
    Settled,
    Subscribe,
    Timer,
)
from reefcast.model.publication import Publication
from reefcast.routing.broker import Broker
from reefcast.routing.gossip.messages import Met, TopicMessage
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.router import Gossip

CONTACT = "x"


class Alone:
    """One broker, `me`, and what it does. `c` and `d` are its clients."""

    def __init__(self, options: GossipOptions | None = None) -> None:
        options = options or GossipOptions(contacts=(CONTACT,))
        self.broker = Broker("me", "gossip", new_index=ScanIndex, options=options)
        self._number = 0
        for client in ("c", "d"):
            self.handle(client, LinkUp(LinkKind.CLIENT))

    @property
    def router(self) -> Gossip:
        assert isinstance(self.broker.router, Gossip)
        return self.broker.router

    def handle(self, link: str, *items: Input) -> list[Effect]:
        return [effect for item in items for effect in self.broker.handle(item, link, 0.0)]

    def up(self, *others: str) -> list[Effect]:
        return [effect for link in others for effect in self.handle(link, LinkUp(LinkKind.SOFT))]

    def round(self) -> list[Effect]:
        return self.handle("", Timer("round"))

    def number(self) -> int:
        self._number += 1
        return self._number

    def subscribe(self, filter: str, client: str = "c") -> list[Effect]:
        number = self.number()
        return self.handle(client, Subscribe((client, number), filter, number))

    def advertise(self, filter: str, client: str = "c") -> list[Effect]:
        number = self.number()
        return self.handle(client, Advertise((client, number), filter, number))

    def publish(self, *topics: str, client: str = "d", a: int = 1) -> list[Effect]:
        return self.handle(client, event(*topics, seq=self.number(), publisher=client, a=a))

    def joined(self, topic: str, *view: str) -> None:
        """Let the broker join the overlay of a topic, with these neighbours in both directions."""
        self.subscribe(f"topic = '{topic}'")
        self.up(CONTACT)
        for other in view:
            if other not in self.router.soft_links or not self.router.soft_links[other].up:
                self.up(other)
            self.handle(other, Met(topic=topic, node=other))
        self.handle(CONTACT, *(Settled(token) for token in range(1, 9)))
        assert set(self.view(topic)) == set(view)

    def view(self, topic: str) -> tuple[str, ...]:
        return self.router.memberships[topic].overlay.view


def event(*topics: str, seq: int = 1, publisher: str = "p", a: int = 1) -> Publish:
    return Publish(Publication(publisher, seq, 0, {"a": a}, topics, b""))


def said(effects: list[Effect], kind: type[TopicMessage], to: str = "") -> list[TopicMessage]:
    """Return the messages of one kind that were sent, to everybody or to one receiver."""
    return [
        effect.message
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, kind) and to in ("", effect.link)
    ]


def carried(effects: list[Effect]) -> list[tuple[str, int]]:
    """Return the publications that were sent, as (receiver, number)."""
    return [
        (effect.link, effect.message.publication.seq)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, Publish)
    ]


def handed(effects: list[Effect]) -> list[str]:
    return [client for effect in effects if isinstance(effect, Deliver) for client in effect.to]


def opened(effects: list[Effect]) -> list[str]:
    return [effect.to for effect in effects if isinstance(effect, OpenLink)]


def closed(effects: list[Effect]) -> list[str]:
    return [effect.link for effect in effects if isinstance(effect, CloseLink)]
