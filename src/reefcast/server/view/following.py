"""Following publications through a network, hop by hop: all brokers are asked what they have seen
of those that match a filter, and what they say of one publication becomes its *path*."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from reefcast.model.looks import MOST_SEEN, Sightings
from reefcast.server.view.network import NetworkView
from reefcast.traces.files import MOST_HASH, id_hash

MOST_WAYS, MOST_SIGHTINGS = 500, 200
"""Publications that are remembered, and sightings of each."""
OF_EVENT = ("publisher", "seq", "published_us", "topics", "attributes", "payload", "size", "cut")
"""What every broker says alike of a publication."""
Told = dict[str, Any]


class Update(NamedTuple):
    """What is new. `paths`: publications with all of their sightings so far, in the order of hops
    and times: {`id`, the fields of `OF_EVENT`, `sightings`: a list of what each broker saw}.
    `share`: the part of the publications that every broker looks at (0 to 1); `missed`: sightings
    that were forgotten before they were asked for; `silent`: why a broker tells nothing, also one
    that is down; `more`: some broker has more to tell already."""

    paths: list[Told]
    share: float
    missed: int
    silent: dict[str, str]
    more: bool


class Following:
    """The paths of the publications that match `filter`, from the first `update` on."""

    def __init__(self, view: NetworkView, filter: str) -> None:
        self._view = view
        self._filter = filter
        self._after: dict[str, tuple[str, int]] = {}
        self._paths: OrderedDict[str, Told] = OrderedDict()

    async def update(self) -> Update:
        """Ask all brokers; return what is new since the last time."""
        overview = await self._view.overview()
        lives = {each["broker"]: each["session"] for each in overview["brokers"] if each["up"]}
        asked = {}
        for name, life in lives.items():
            known, after = self._after.get(name, ("", 0))
            asked[name] = Sightings(self._filter, after if known == life else 0)
        answers = await self._view.look_each(asked)
        changed: dict[str, Told] = {}
        silent = {each["broker"]: each["why"] for each in overview["brokers"] if not each["up"]}
        silent |= {name: str(why) for name, why in answers.items() if isinstance(why, Exception)}
        told = {name: told for name, told in answers.items() if not isinstance(told, Exception)}
        share = min((answer["share"] for answer in told.values()), default=1.0)
        for name, answer in told.items():
            self._after[name] = (lives[name], answer["last"])
            for seen in answer["seen"]:
                path = self._add(name, seen, share)
                if path is not None:
                    changed[path["id"]] = path
        missed = sum(answer["missed"] for answer in told.values())
        more = any(len(answer["seen"]) == MOST_SEEN for answer in told.values())
        return Update(list(changed.values()), share, missed, silent, more)

    def _add(self, broker: str, seen: Told, share: float) -> Told | None:
        """Add a sighting to its path; return that. None if it is there already (a broker that was
        started again since the overview tells from the beginning twice), and for a publication
        outside of `share`, of which only some brokers would tell."""
        id = f"{seen['publisher']}#{seen['seq']}"
        path = self._paths.get(id)
        if path is None:
            if id_hash((seen["publisher"], seen["seq"])) > share * MOST_HASH:
                return None
            event = {name: seen[name] for name in OF_EVENT}
            path = self._paths[id] = {"id": id, **event, "sightings": []}
            if len(self._paths) > MOST_WAYS:
                self._paths.popitem(last=False)
        sightings = path["sightings"]
        own = {name: value for name, value in seen.items() if name not in OF_EVENT}
        sighting = {"broker": broker, **own}
        if sighting in sightings:
            return None
        sightings.append(sighting)
        sightings.sort(key=lambda each: (each["hops"], each["at_us"]))
        del sightings[MOST_SIGHTINGS:]
        return path
