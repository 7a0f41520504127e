"""Following publications through a network, hop by hop: all brokers are asked what they have seen
of those that match a filter, and what they say of one publication becomes its *way*."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from reefcast.errors import ReefcastError
from reefcast.model.looks import Sightings
from reefcast.server.view.network import NetworkView

MOST_WAYS, MOST_SIGHTINGS = 500, 200
"""Publications that are remembered, and sightings of each."""
OF_EVENT = ("publisher", "seq", "published_us", "topics", "attributes", "payload", "size", "cut")
"""What every broker says alike of a publication."""
Told = dict[str, Any]


class Update(NamedTuple):
    """What is new. `ways`: publications with all of their sightings so far, in the order of hops
    and times: {`id`, the fields of `OF_EVENT`, `sightings`: a list of what each broker saw}.
    `share`: the part of the publications that every broker looks at (0 to 1); `missed`: sightings
    that were forgotten before they were asked for; `silent`: why a broker tells nothing."""

    ways: list[Told]
    share: float
    missed: int
    silent: dict[str, str]


class Following:
    """The ways of the publications that match `filter`, from the first `update` on."""

    def __init__(self, view: NetworkView, filter: str) -> None:
        self._view = view
        self._filter = filter
        self._after: dict[str, tuple[str, int]] = {}
        self._ways: OrderedDict[str, Told] = OrderedDict()

    async def update(self) -> Update:
        """Ask all brokers; return what is new since the last time."""
        overview = await self._view.overview()
        lives = {each["broker"]: each.get("session", "") for each in overview["brokers"]}
        asked = {}
        for name, life in lives.items():
            known, after = self._after.get(name, ("", 0))
            asked[name] = Sightings(self._filter, after if known == life else 0)
        answers = await self._view.look_each(asked)
        changed: dict[str, Told] = {}
        share, missed, silent = 1.0, 0, {}
        for name, answer in answers.items():
            if isinstance(answer, ReefcastError):
                silent[name] = str(answer)
                self._after.pop(name, None)
                continue
            share, missed = min(share, answer["share"]), missed + answer["missed"]
            self._after[name] = (lives[name], answer["last"])
            for seen in answer["seen"]:
                way = self._add(name, seen)
                changed[way["id"]] = way
        return Update(list(changed.values()), share, missed, silent)

    def _add(self, broker: str, seen: Told) -> Told:
        """Add a sighting to its way; return the way."""
        id = f"{seen['publisher']}#{seen['seq']}"
        way = self._ways.get(id)
        if way is None:
            event = {name: seen[name] for name in OF_EVENT}
            way = self._ways[id] = {"id": id, **event, "sightings": []}
            if len(self._ways) > MOST_WAYS:
                self._ways.popitem(last=False)
        sightings = way["sightings"]
        own = {name: value for name, value in seen.items() if name not in OF_EVENT}
        sightings.append({"broker": broker, **own})
        sightings.sort(key=lambda each: (each["hops"], each["at_us"]))
        del sightings[MOST_SIGHTINGS:]
        return way
