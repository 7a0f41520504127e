"""`[[storage]]` of a network file: what it may contain."""

from __future__ import annotations

from typing import Any

import pytest

from reefcast.errors import ConfigurationError
from reefcast.network.file import NetworkFile, dump_network, read_network
from reefcast.network.sections import BrokerEntry, StorageEntry
from reefcast.network.storages import storage_named


def network(*storages: StorageEntry) -> NetworkFile:
    brokers = [BrokerEntry("b1", "127.0.0.1:7301")]
    return NetworkFile(broker=brokers, storage=list(storages)).validate()


def entry(name: str = "s", **others: Any) -> StorageEntry:
    given = {"broker": "b1", "topics": ["fx"], "directory": f"history/{name}", **others}
    return StorageEntry(name=name, **given)


def test_all_that_it_says_comes_back() -> None:
    written = network(
        entry(
            topics=["fx", "orders/#", "a 'b'"],
            index={"price": "number", "by hand": "boolean"},
            lifetime_s=3600.5,
            most=1000,
            seal_after_s=0.0,
            forget=True,
            joining=["fx"],
        ),
        entry("other"),
    )
    assert read_network(dump_network(written)) == written
    assert written.storage[0].complete == ["orders/#", "a 'b'"]
    assert storage_named("other", written.storage) is written.storage[1]
    with pytest.raises(ConfigurationError, match="no storage named 'x'; the file has s, other"):
        storage_named("x", written.storage)
    with pytest.raises(ConfigurationError, match="no storage named 'x'; the file has none"):
        storage_named("x", [])


@pytest.mark.parametrize(
    ("storages", "says"),
    [
        ([entry("")], "storage name '' is empty or given twice"),
        ([entry(), entry(directory="other")], "'s' is empty or given twice"),
        ([entry(broker="b9")], "storage s: there is no broker named 'b9'; the file has b1"),
        ([entry(), entry("t", directory="./history/s/")], "t: directory = .* is that of storage s"),
        ([entry(directory="")], "storage s: directory = '' is empty; give each"),
        ([entry(topics=[])], "storage s has no topics"),
        ([entry(topics=["a/#/b"])], "s, topic 'a/#/b': # must be the whole last level"),
        ([entry(topics=["fx", "fx"])], "storage s: 'fx' comes twice in topics"),
        ([entry(joining=["fx", "fx"])], "storage s: 'fx' comes twice in joining"),
        ([entry(joining=["gx"])], "joining has 'gx', which is none of its topics"),
        ([entry(index={"n": "float"})], "'n' = 'float' is none of number, string, boolean"),
        ([entry(lifetime_s=0.0)], "storage s: lifetime_s = 0.0 must be a number above 0"),
        ([entry(lifetime_s=float("nan"))], "lifetime_s = nan must be a number above 0"),
        ([entry(most=-1)], "storage s: most = -1 must be a number above 0"),
        ([entry(seal_after_s=-1.0)], "seal_after_s = -1.0 must be a number, 0 or more"),
    ],
)
def test_what_cannot_be_is_said(storages: list[StorageEntry], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        network(*storages)


def test_a_key_that_there_is_not() -> None:
    text = dump_network(network(entry())) + 'topic = "fx"\n'
    with pytest.raises(
        ConfigurationError, match=r"\[\[storage\]\] has no key 'topic'; it has name"
    ):
        read_network(text)
