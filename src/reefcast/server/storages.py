"""The storages of a network that answer, and which brokers know them, as brokers report it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reefcast.history.table import StorageTable
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile
from reefcast.network.sections import StorageEntry
from reefcast.protocol.proofs import Credentials
from reefcast.routing.registry import routing_named
from reefcast.routing.router import Shape
from reefcast.server.admin import admin_connection, ask_all, asking, operator_of
from reefcast.tls.credentials import Asking
from reefcast.tls.files import NOTHING, TlsFiles

Rows = frozenset[tuple[str, str]]
"""(topic, name of the storage in the network file)."""
Known = Mapping[str, Rows | None]
"""The rows that each broker knows, by its name; None for a broker that does not answer."""


async def storages_known(
    network: NetworkFile, own: TlsFiles = NOTHING, credentials: Credentials | None = None
) -> Known:
    """Return what each broker of `network` knows of storages. `own`: see `admin.asking`;
    `credentials`: who asks, by default an operator. Raises `RefusedError` if the brokers refuse who
    asks."""
    operator = credentials is None
    tls = {name: asking(network, name, own, operator=operator) for name in network.names}
    shown = operator_of(network) if credentials is None else credentials

    async def ask(name: str) -> Rows:
        return await _rows(*network.address(name), tls[name], shown)

    return await ask_all(network, ask)


async def _rows(host: str, port: int, tls: Asking | None, shown: Credentials) -> Rows:
    """Ask one broker for its rows, some at a time."""
    found: set[tuple[str, str]] = set()
    left, seen = 1, 0
    async with admin_connection(host, port, tls, shown) as broker:
        while left:
            status = await broker.status(StatusRequest((StorageTable.name,), skip=seen))
            table = status["rows"].get(StorageTable.name)
            if table is None or "name" not in table["columns"]:  # a broker of a former version
                break
            topic, name = (table["columns"].index(column) for column in ("topic", "name"))
            found |= {(row[topic], row[name]) for row in table["rows"] if row[name]}
            left, seen = table["left_out"], seen + len(table["rows"])
    return frozenset(found)


def answered(entry: StorageEntry, rows: Rows) -> set[str]:
    """Return the topics that this storage answers for, as far as a broker knows."""
    return {topic for topic, storage in rows if storage == entry.name}


def are_known_everywhere(network: NetworkFile) -> bool:
    """Return whether all brokers know all storages; if not, only a storage's own broker knows
    it."""
    return routing_named(network.network.routing).overlay is not Shape.NONE


def unanswered(network: NetworkFile, storages: Iterable[StorageEntry], known: Known) -> list[str]:
    """Return, as sentences, what is missing before everything that these storages hold completely
    can be asked for anywhere in the network; the most important ones first."""
    brokers = known if are_known_everywhere(network) else ()
    own, elsewhere = [], []
    for entry in storages:
        own += list(_unknown_to(entry.broker, entry, known))
        for broker in brokers:
            if broker != entry.broker:
                elsewhere += list(_unknown_to(broker, entry, known))
    return list(dict.fromkeys(own + elsewhere))


def _unknown_to(broker: str, entry: StorageEntry, known: Known) -> Iterator[str]:
    rows = known[broker]
    if rows is None:
        yield f"broker {broker} does not answer"
        return
    answers = answered(entry, rows)
    about = ", ".join(topic for topic in entry.complete if topic not in answers)
    if about and broker == entry.broker:
        yield f"storage {entry.name} does not answer for {about} yet"
    elif about:
        yield f"broker {broker} does not know yet that storage {entry.name} answers for {about}"


def still_answered(
    storages: Iterable[StorageEntry], then: Iterable[StorageEntry], known: Known
) -> list[str]:
    """Return, as sentences, what some of these storages still answer for although their entries in
    `then` do not name it."""
    kept = {entry.name: entry.topics for entry in then}
    found = []
    for entry in storages:
        for broker, rows in known.items():
            extra = answered(entry, rows or frozenset()).difference(kept.get(entry.name, ()))
            if extra:
                about = ", ".join(sorted(extra))
                found.append(f"broker {broker} still knows storage {entry.name} for {about}")
    return found
