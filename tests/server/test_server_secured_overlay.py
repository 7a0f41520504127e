"""A whole network with [security], as processes: brokers, a storage, users, operators."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import reefcast
from live_networks import PATIENCE_S, url_of
from reefcast.errors import RefusedError
from reefcast.network.file import dump_network, load_network
from reefcast.network.sections import StorageEntry
from reefcast.security.credentials import PASSWORD_FILE, USER
from reefcast.server.supervisor import Overlay, overlay_status
from secured import PASSWORD, secured


async def test_brokers_storages_and_operators_prove_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network file has all that its own processes need; users have the environment."""
    network = secured(tmp_path, 2)
    network.storage = [
        StorageEntry(name="s1", broker="b1", topics=["fx"], directory=str(tmp_path / "s1"))
    ]
    file = tmp_path / "net.toml"
    file.write_text(dump_network(network.validate()))
    async with Overlay(load_network(file), file=file) as overlay:
        assert overlay.network == network and "key" in dump_network(network)
        (tmp_path / "password").write_text(PASSWORD + "\n")
        with pytest.raises(RefusedError, match="nothing is shown"):
            await reefcast.connect(url_of(network, "b2"))
        monkeypatch.setenv(USER, "anna")
        monkeypatch.setenv(PASSWORD_FILE, str(tmp_path / "password"))
        async with reefcast.connect(url_of(network, "b2")) as client:
            await client.publish(x=1, topics=["fx"], confirm=False)
            await client.flush()
            found: list[reefcast.Event] = []
            while not found:
                found = [event async for event in client.history("topic = 'fx'")]
            assert [event["x"] for event in found] == [1]
        answers = await overlay_status(network)
        assert all(answers.values())
        monkeypatch.setenv(USER, "nina")
        with pytest.raises(RefusedError, match="the user or the password is wrong"):
            await overlay_status(network)
        # Its brokers follow what the file says of who comes in.
        monkeypatch.delenv(USER)
        monkeypatch.delenv(PASSWORD_FILE)
        assert network.security is not None
        network.security.anonymous = ["guest"]
        file.write_text(dump_network(network))
        async with asyncio.timeout(PATIENCE_S):
            while not await gets_in(url_of(network, "b2")):  # noqa: ASYNC110 (nobody says)
                await asyncio.sleep(0.1)
    said = [
        json.loads(line)
        for name in network.names
        for line in (tmp_path / "audit" / f"{name}.jsonl").read_text().splitlines()
    ]
    connected = {(line["role"], line["user"]) for line in said if line["event"] == "connected"}
    assert connected == {
        *(("broker", "b1"), ("broker", "b2"), ("client", "$network"), ("client", "anna")),
        *(("admin", "$network"), ("admin", "anna"), ("client", "anonymous")),
    }


async def gets_in(url: str) -> bool:
    """Return whether a client that shows nothing is let in."""
    try:
        await (await reefcast.connect(url)).close()
    except RefusedError:
        return False
    return True
