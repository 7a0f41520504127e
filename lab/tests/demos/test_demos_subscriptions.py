"""Generated subscriptions: reproducible, readable by our parser and by Spark, well spread."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reefcast.model.filters import parse_filter
from reefcast_lab.demos import shapes
from reefcast_lab.demos.statistics import Statistics, gather
from reefcast_lab.demos.subscriptions import CLIENTS_PER_BROKER, Wanted, generate, write_workload

BROKERS = ("b1", "b2", "b3")


def some_statistics():
    frequent = {
        "origin": (("EWR", 3), ("JFK", 2)),
        "dest": (("SFO", 5), ("O'HARE", 1)),
        "carrier": (("UA", 2), ("DL", 2)),
        "flight": (("15", 1),),
        "tailnum": (("N123UA", 1),),
        "manufacturer": (("BOEING", 1),),
        "model": (("737-800", 1),),
    }
    return Statistics({name: tuple(range(101)) for name in shapes.NUMBERS}, frequent)


@pytest.mark.parametrize("template", [template for template, _ in shapes.WEIGHTED])
def test_every_template_gives_a_filter_of_the_language(template):
    rng = random.Random(1)
    for _ in range(20):
        text, dest = template(some_statistics(), rng)
        assert parse_filter(text).text == text
        assert dest in ("SFO", "O'HARE", None)


def test_literals():
    assert shapes.text("O'HARE") == "'O''HARE'"
    assert [shapes.number(value) for value in (5, -3.0, 17.26)] == ["5", "-3", "17.3"]


def test_one_seed_gives_one_workload():
    first, again, other = (
        generate(some_statistics(), 200, BROKERS, random.Random(seed)) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_places():
    wanted = generate(some_statistics(), 500, BROKERS, random.Random(1))
    assert [each.subscription for each in wanted] == list(range(500))
    assert {each.broker for each in wanted} == set(BROKERS)
    assert all(each.client.startswith(f"{each.broker}-client-") for each in wanted)
    assert len({each.client for each in wanted}) <= CLIENTS_PER_BROKER * len(BROKERS)
    about = Counter(each.broker for each in wanted if "dest = 'SFO'" in each.filter)
    assert about.most_common(1)[0][1] > 0.8 * about.total()


def test_statistics_and_workload_from_events(tmp_path):
    events = pa.table(
        {
            "dest": ["SFO", "SFO", "LAX", None],
            "delay": [10, 20, 30, 40],
            "wind": [1.5, None, None, None],
            "snow": pa.array([None] * 4, pa.float64()),
        }
    )
    data = gather(events, ("delay", "wind", "snow"), ("dest",))
    assert data.frequent == {"dest": (("SFO", 2), ("LAX", 1))}
    assert (data.quantile("delay", 0), data.quantile("delay", 100)) == (10, 40)
    assert data.quantile("delay", 50) == 20
    assert data.quantile("wind", 50) == 1.5
    assert "snow" not in data.quantiles

    columns = {name: [7.0] for name in shapes.NUMBERS} | {"hour": [7]}
    columns |= {name: ["X1-2"] for name in shapes.STRINGS}
    path = tmp_path / "subscriptions.parquet"
    wanted = write_workload(pa.table(columns), path, 20, BROKERS, seed=3)
    stored = pq.read_table(path).sort_by("subscription").to_pylist()
    assert [Wanted(**row) for row in stored] == wanted
