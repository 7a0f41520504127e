"""The examples of write-to-a-lakehouse.md: a topic becomes tables, and their rows events again."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from live_history import live_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-to-a-lakehouse.md"
SETTLE_S = 0.5


def test_the_examples_of_the_page(spark: SparkSession, tmp_path: Path) -> None:
    to_parquet, back, delta = re.findall(
        r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    shared: dict[str, Any] = {"spark": spark}
    with live_history(tmp_path / "storage") as network:

        def run(source: str) -> None:
            text = source.replace("reefcast://127.0.0.1:7301", network.url)
            text = text.replace('"lake/', f'"{tmp_path}/lake/')
            exec(compile(text, PAGE.name, "exec"), shared)

        def stored(topic: str, count: int) -> list[tuple[Any, ...]]:
            return sorted((e["symbol"], e["price"], e.time) for e in network.wait(topic, count))

        for first in (0, 10):
            network.publish(
                "quotes", *({"symbol": "IBM", "price": 0.5 + first + n} for n in range(10))
            )
            time.sleep(SETTLE_S)  # what the query waits for, too
            run(to_parquet)
        days = list((tmp_path / "lake" / "quotes").glob("day=*"))
        assert len(days) in (1, 2)
        run(back)
        quotes = stored("quotes", 20)
        assert stored("quotes/again", 20) == quotes
        run(delta)
        assert stored("quotes/delta", 20) == quotes
        shared["append"](spark.range(1), 0)  # a batch that is repeated
        assert shared["deltalake"].DeltaTable(str(tmp_path / "lake" / "quotes_delta")).count() == 20
