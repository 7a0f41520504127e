"""How brokers learn their MOMs: each tells its primary neighbours which brokers it knows.

A broker tells a neighbour U which brokers are on its own side within Delta - 1 hops, whenever that
has changed; U then knows them within Delta. Primary links form a tree, so that what is told comes
from one side only, and telling ends.

While links move, and brokers die meanwhile, what two neighbours tell may not fit together: each
says that a broker is behind it, the one by the tree before and the other by the one after. Then a
broker takes the *nearest known*: who is a neighbour is one, and others are where the path is
shortest; all that are told stay in the MOM. What a neighbour is told follows from what all others
told, and not from what it told itself: so it is never told of a broker that is known from it alone,
and telling ends even while links form a cycle, as nothing is told beyond Delta.

A broker that restarts tells what it knows in parts, as it relearns. Until it has said `Synced`,
what it told in its former life holds beside that, like the rows that came from it (`tables`): so
the anchors of these rows stay in the MOM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reefcast.errors import ConfigurationError, ProtocolError
from reefcast.model.messages import LinkName, Send
from reefcast.routing.mesh.maps import Neighbourhood
from reefcast.routing.mesh.messages import Vicinity

Known = tuple[tuple[LinkName, LinkName], ...]


class VicinityTable:
    """What the primary neighbours of broker `me` have told, and the MOM that follows from it."""

    def __init__(self, me: LinkName, delta: int) -> None:
        self.me = me
        self.delta = delta
        self.mom = Neighbourhood(me, {})
        self._told: dict[LinkName, dict[LinkName, LinkName]] = {}
        self._unconfirmed: dict[LinkName, dict[LinkName, LinkName]] = {}
        self._said: dict[LinkName, Known] = {}

    def continues(self, old: VicinityTable, links: Iterable[LinkName]) -> None:
        """Copy from `old` what these primary neighbours told of themselves, and were told."""
        for link in links:
            self._told[link] = dict(old._told[link])
            if link in old._unconfirmed:
                self._unconfirmed[link] = dict(old._unconfirmed[link])
        self._changed()

    def takes_over(self, old: VicinityTable, links: Iterable[LinkName]) -> list[Send]:
        """Take the place of `old`: what it told these neighbours counts as told by this one."""
        self._said |= {link: old._said[link] for link in links if link in old._said}
        return self._changed()

    def again(self, link: LinkName) -> list[Send]:
        """Tell this neighbour again what has not reached it."""
        self._said.pop(link, None)
        return self._changed()

    def up(self, link: LinkName) -> list[Send]:
        """Add a primary neighbour without memory of us."""
        self._unconfirmed.setdefault(link, {}).update(self._told.get(link, {}))
        self._told[link] = {}
        self._said.pop(link, None)
        return self._changed()

    def synced(self, link: LinkName) -> list[Send]:
        """Drop what the neighbour has not told anew."""
        return self._changed() if self._unconfirmed.pop(link, None) else []

    def down(self, link: LinkName) -> list[Send]:
        """Remove a neighbour that is gone, and all behind it."""
        for known in (self._told, self._unconfirmed, self._said):
            known.pop(link, None)
        return self._changed()

    def handle(self, vicinity: Vicinity, link: LinkName) -> list[Send]:
        """Handle what a neighbour tells. Raises `ProtocolError`, changing nothing, for what is no
        tree behind `link`."""
        told = dict(vicinity.brokers)
        self._check(told, link)
        self._told[link] = told
        return self._changed()

    def _check(self, told: dict[LinkName, LinkName], link: LinkName) -> None:
        try:
            if self.me in told:
                raise ConfigurationError(f"{self.me!r} itself is in it")
            heard = Neighbourhood(link, told)
        except ConfigurationError as error:
            raise ProtocolError(
                f"neighbour {link!r} sent a vicinity that is no tree: {error}"
            ) from None
        if any(heard.distance(broker) >= self.delta for broker in told):
            raise ProtocolError(
                f"neighbour {link!r} told of brokers {self.delta} hops from it; "
                "give all brokers the same delta"
            )

    def _changed(self) -> list[Send]:
        known = {link: self._unconfirmed.get(link, {}) | told for link, told in self._told.items()}
        self.mom = self._nearest(known)
        fits = len(self.mom.closer) == len(known) + sum(map(len, known.values()))
        sends = []
        for link in known:
            mom = self.mom if fits else self._nearest({x: known[x] for x in known if x != link})
            to_tell = self._known_to(link, mom)
            if self._said.get(link) != to_tell:
                self._said[link] = to_tell
                sends.append(Send(link, Vicinity(brokers=to_tell)))
        return sends

    def _nearest(self, known: Mapping[LinkName, Mapping[LinkName, LinkName]]) -> Neighbourhood:
        """Return the MOM that follows from what these neighbours know. Where they contradict each
        other, what was told in this life goes first, then what the nearest one told."""
        claims = sorted(
            (broker not in self._told[link], _hops(link, broker, closer), link, broker)
            for link, closer in known.items()
            for broker in closer
        )
        closer = dict.fromkeys(self._told, self.me)
        for _, _, link, broker in claims:
            closer.setdefault(broker, known[link][broker])
        return Neighbourhood(self.me, closer)

    def _known_to(self, link: LinkName, mom: Neighbourhood) -> Known:
        """Return what to tell this neighbour."""
        return tuple(
            (broker, mom.closer[broker])
            for broker in mom.brokers
            if mom.distance(broker) < self.delta and mom.branch(broker) != link
        )


def _hops(link: LinkName, broker: LinkName, closer: Mapping[LinkName, LinkName]) -> int:
    """Return the hops from a broker to the neighbour `link`, behind which it is."""
    hops = 0
    while broker != link:
        broker, hops = closer[broker], hops + 1
    return hops
