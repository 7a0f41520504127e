"""`reefcast outbox`, and `publish --outbox`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from reefcast.cli.main import group
from reefcast.client.outbox_file import OutboxFile
from reefcast.model import wire
from reefcast.model.publication import Publication
from reefcast.protocol.client_ids import Identity


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    file = OutboxFile(tmp_path / "orders.outbox", Identity("shop-1", "s"))
    events = [Publication("shop-1", seq, seq * 1_000_000, {"total": seq}) for seq in (1, 2, 3)]
    frames = [wire.encode_published(wire.encode_publication(event)) for event in events]
    file.commit(1, frames, [2])
    file.close()
    return file.path


def test_what_waits_is_shown(outbox: Path) -> None:
    result = CliRunner().invoke(group, ["outbox", str(outbox)])
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "shop-1 has published 3, of which 2 events wait",
        "1970-01-01T00:00:01.000Z  shop-1#1  total=1",
        "1970-01-01T00:00:03.000Z  shop-1#3  total=3",
    ]
    found = json.loads(CliRunner().invoke(group, ["outbox", str(outbox), "--json"]).output)
    assert found == {
        "publisher": "shop-1",
        "last_seq": 3,
        "waiting": [
            {"seq": 1, "time": "1970-01-01T00:00:01.000Z"},
            {"seq": 3, "time": "1970-01-01T00:00:03.000Z"},
        ],
    }
