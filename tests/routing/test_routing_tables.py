"""The tables of the papers."""

from __future__ import annotations

import pytest

from reefcast.matching.scan import ScanIndex
from reefcast.model.filters import TRUE
from reefcast.routing.tables import AdvertisementTable, Row, SubscriptionTable


@pytest.mark.parametrize("table", [AdvertisementTable(), SubscriptionTable(ScanIndex)])
def test_nothing_is_left_of_clients_that_came_and_went(
    table: AdvertisementTable | SubscriptionTable,
) -> None:
    for client in ("c1", "c2", "c3"):
        for number in (1, 2):
            table.add(Row((client, number), TRUE, client, local=True))
        for number in (1, 2):
            assert table.remove((client, number), client) is not None
    kept = {name: part for name, part in vars(table).items() if isinstance(part, dict)}
    assert kept and not any(kept.values())
