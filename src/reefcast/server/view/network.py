"""The whole network, as all brokers tell it: who is up, what they do, and the links between them.

Rules
-----
- All brokers are asked at once, at most every `FRESH_S` seconds, however many look; and only while
  somebody looks. One that is slow delays nobody: after `PATIENCE_S` the others are shown without
  it.
- A broker that does not answer is *down*, with the reason. What it told before is forgotten.
- Rates are those of its counters between two answers of the same life of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from reefcast.errors import ConfigurationError, LocalError, ReefcastError
from reefcast.history.table import StorageTable
from reefcast.model.looks import MOST_LINES, AnyLook, Page, Summary
from reefcast.model.messages import Wish
from reefcast.network.file import NetworkFile
from reefcast.server.storages import answered
from reefcast.server.view.asking import Asker
from reefcast.timing import now_us

FRESH_S, PATIENCE_S = 0.9, 0.4
SLOW_S = 2.0
"""Seconds without an answer after which a broker that still has a question counts as down."""
Told = dict[str, Any]


class _Seen:
    """What one broker said last: `told`, None if it is down, and then `why`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: Told | None = None
        self.why = "it has not answered yet"
        self.rates: Told = {}
        self.at_s = 0.0
        self.asking: asyncio.Task[None] | None = None
        self.asked_s = 0.0

    def heard(self, told: Told, now: float) -> None:
        """Keep an answer, and work out the rates since the last one."""
        before, took_s = self.told, now - self.at_s
        if before is None or before["session"] != told["session"]:
            self.rates = {}
        elif took_s > 0:
            counts, past = told["counts"], before["counts"]
            self.rates = {
                name: round(max(0, count - past[name]) / took_s, 1)
                for name, count in counts.items()
                if name in past
            }
        self.told, self.why, self.at_s = told, "", now

    def lost(self, why: str) -> None:
        """Note that it does not answer."""
        self.told, self.why, self.rates = None, why, {}

    def line(self) -> Told:
        """Return its line of the overview, without its links."""
        if self.told is None:
            return {"broker": self.name, "up": False, "why": self.why}
        own = {name: value for name, value in self.told.items() if name != "links"}
        return {**own, "broker": self.name, "up": True, "rates": self.rates}


class NetworkView:
    """What the brokers of `network` say; `askers`: asks each of them, by name."""

    def __init__(self, network: NetworkFile, askers: Mapping[str, Asker]) -> None:
        self.network = network
        self._askers = askers
        self._seen = {name: _Seen(name) for name in askers}
        self._fresh: Told = {}
        self._fresh_until_s = 0.0
        self._turn = asyncio.Lock()
        self._number = 0

    @property
    def names(self) -> list[str]:
        """The names of the brokers."""
        return list(self._askers)

    async def close(self) -> None:
        """End all connections."""
        tasks = [seen.asking for seen in self._seen.values() if seen.asking is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(asker.close() for asker in self._askers.values()))

    # --- one broker -------------------------------------------------------------------------------

    def asker(self, broker: str) -> Asker:
        """Return what asks this broker. Raises `ConfigurationError` if there is none."""
        try:
            return self._askers[broker]
        except KeyError:
            raise ConfigurationError(f"there is no broker named {broker!r}") from None

    async def look(self, broker: str, look: AnyLook) -> Told:
        """Return what one broker shows. Raises `PeerError` if it does not answer, and `LocalError`
        if it refuses, or there is none."""
        return await self.asker(broker).look(look)

    async def wish(self, broker: str, wish: Wish) -> Told:
        """Have one broker do something. Raises as `look` does."""
        return await self.asker(broker).wish(wish)

    async def look_each(self, looks: Mapping[str, AnyLook]) -> dict[str, Told | ReefcastError]:
        """Return what each broker shows that is up by the last overview, or why it does not;
        `looks`: what each is asked."""

        async def ask(name: str) -> Told | ReefcastError:
            try:
                return await self.look(name, looks[name])
            except ReefcastError as error:
                return error

        up = [name for name in looks if self._seen[name].told is not None]
        return dict(zip(up, await asyncio.gather(*map(ask, up)), strict=True))

    # --- all brokers ------------------------------------------------------------------------------

    async def overview(self) -> Told:
        """Return all brokers (those that are down with `why`), and all links (`links_of`)."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            if loop.time() >= self._fresh_until_s:
                await self._ask_all()
                self._fresh_until_s = loop.time() + FRESH_S
                self._number += 1
                self._fresh = self._composed()
            return self._fresh

    async def _ask_all(self) -> None:
        loop, tasks = asyncio.get_running_loop(), []
        for seen in self._seen.values():
            if seen.asking is None:
                seen.asked_s = loop.time()
                seen.asking = loop.create_task(self._ask(seen))
            elif loop.time() - seen.asked_s > SLOW_S:
                seen.lost(f"it has not answered for {loop.time() - seen.asked_s:.0f} s")
            tasks.append(seen.asking)
        await asyncio.wait(tasks, timeout=PATIENCE_S)

    async def _ask(self, seen: _Seen) -> None:
        try:
            told = await self._askers[seen.name].look(Summary())
            seen.heard(told, asyncio.get_running_loop().time())
        except ReefcastError as error:
            seen.lost(str(error))
        finally:
            seen.asking = None

    def _composed(self) -> Told:
        told = {name: seen.told for name, seen in self._seen.items()}
        return {
            "number": self._number,
            "network": self.network.network.name,
            "routing": self.network.network.routing,
            "time_us": now_us(),
            "brokers": [seen.line() for seen in self._seen.values()],
            "links": links_of(self.network, told),
        }

    async def page(self, asked: Page) -> Told:
        """Return a page of all brokers together: lines have a column `broker` in front, and those
        of subscriptions `per_s`, deliveries a second, in place of `share`. `silent`: why a broker
        tells nothing. Raises `LocalError` for what lies too deep: brokers are asked for all lines
        before it."""
        depth = asked.skip + asked.most
        if depth > MOST_LINES:
            raise LocalError(
                f"of all brokers together the first {MOST_LINES} lines can be shown: choose one "
                "broker, or search"
            )
        await self.overview()
        each = msgspec.structs.replace(asked, skip=0, most=depth)
        answers = await self.look_each(dict.fromkeys(self._askers, each))
        rates = {name: seen.rates.get("delivered", 0.0) for name, seen in self._seen.items()}
        return {**merged(asked, answers, rates), "silent": _silent(answers)}

    async def storages(self) -> list[Told]:
        """Return the storages of the network file: for what each answers, as its broker tells, and
        for what it should and does not."""
        rows: dict[str, frozenset[tuple[str, str]] | None] = {}
        for entry in self.network.storage:
            if entry.broker not in rows:
                rows[entry.broker] = await self._storage_rows(entry.broker)
        found = []
        for entry in self.network.storage:
            known = rows[entry.broker]
            answers = answered(entry, known or frozenset())
            unknown = [topic for topic in entry.topics if topic not in answers]
            found.append(
                {
                    "storage": entry.name,
                    "broker": entry.broker,
                    "broker_up": known is not None,
                    "topics": list(entry.topics),
                    "answers": sorted(answers),
                    "joins": [topic for topic in unknown if topic in entry.joining],
                    "silent": [topic for topic in unknown if topic not in entry.joining],
                }
            )
        return found

    async def _storage_rows(self, broker: str) -> frozenset[tuple[str, str]] | None:
        found: set[tuple[str, str]] = set()
        skip, total = 0, 1
        try:
            while skip < total:
                asked = Page("table", StorageTable.name, skip=skip, most=MOST_LINES)
                page = await self.look(broker, asked)
                topic, name = (page["columns"].index(column) for column in ("topic", "name"))
                found |= {(line[topic], line[name]) for line in page["lines"] if line[name]}
                skip, total = skip + MOST_LINES, page["total"]
        except LocalError:
            return frozenset()  # a broker that knows no storage has no such table
        except ReefcastError:
            return None
        return frozenset(found)


def merged(
    asked: Page, answers: Mapping[str, Told | ReefcastError], rates: Mapping[str, float]
) -> Told:
    """Return one page of the pages that brokers gave. `rates`: deliveries a second, by broker."""
    columns: list[str] = []
    lines: list[list[Any]] = []
    total = 0
    for name, page in answers.items():
        if isinstance(page, ReefcastError):
            continue
        total += page["total"]
        columns = ["broker", *page["columns"]]
        lines += [[name, *line] for line in page["lines"]]
    if asked.kind == "subscriptions" and columns:
        at = columns.index("share")
        columns[at] = "per_s"
        lines = [
            [*line[:at], round(line[at] * rates[line[0]], 2), *line[at + 1 :]] for line in lines
        ]
    if columns:
        wanted = [columns.index(name) for name in _order(asked)]
        lines.sort(key=lambda line: [line[at] for at in wanted], reverse=asked.descending)
    end = asked.skip + asked.most
    return {"columns": columns, "lines": lines[asked.skip : end], "total": total}


def _order(asked: Page) -> tuple[str, ...]:
    """Return by which columns lines are sorted, as brokers do."""
    if asked.kind == "clients" and asked.order in ("", "queue_len"):
        return ("slow", "queue_len")
    firsts = {"sessions": "events", "subscriptions": "per_s"}
    return (asked.order or firsts.get(asked.kind, "broker"),)


def _silent(answers: Mapping[str, Told | ReefcastError]) -> dict[str, str]:
    return {name: str(error) for name, error in answers.items() if isinstance(error, ReefcastError)}


def links_of(network: NetworkFile, told: Mapping[str, Told | None]) -> list[Told]:
    """Return all links that brokers have, and those of the network file at a broker that is down:
    `between`: two names; `kind`: as the brokers call it; `up`: whether both ends say so, or one if
    the other is not asked; `ends`: what each end says, None if it is down."""
    ends: dict[tuple[str, str], dict[str, Told]] = {}
    for name, broker in told.items():
        for link in () if broker is None else broker["links"]:
            ends.setdefault(_pair(name, link["link"]), {})[name] = link
    for entry in network.link:
        a, b = entry.between
        if told.get(a) is None or told.get(b) is None:
            ends.setdefault(_pair(a, b), {})
    return [
        {
            "between": list(pair),
            "kind": next((end["kind"] for end in said.values()), ""),
            "up": bool(said)
            and all(end["state"] == "up" for end in said.values())
            and not any(name in told and told[name] is None for name in pair),
            "ends": [said.get(name) for name in pair],
        }
        for pair, said in sorted(ends.items())
    ]


def _pair(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)
