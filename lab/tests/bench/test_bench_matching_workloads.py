"""The workloads are what they say: filters as the parser makes them, selectivity, determinism."""

from __future__ import annotations

import numpy as np
import pytest

from reefcast.errors import ConfigurationError
from reefcast.model.filters import parse_filter
from reefcast_lab.bench.matching.adversarial import CASES
from reefcast_lab.bench.matching.table import BATCH, matches
from reefcast_lab.bench.matching.workloads import SELECTIVITIES, SOURCES, make


@pytest.mark.parametrize("name", SOURCES)
def test_filters_are_those_of_the_parser(name: str) -> None:
    table = make(name, 0.02, 300).table
    for row, filter in enumerate(table.filters(0, len(table))):
        parsed = parse_filter(table.text(row))
        assert (filter.conjunctions, filter.packed) == (parsed.conjunctions, parsed.packed), row


@pytest.mark.parametrize("selectivity", SELECTIVITIES)
@pytest.mark.parametrize("name", SOURCES)
def test_selectivity_is_reached(name: str, selectivity: float) -> None:
    made = make(name, selectivity, 4000)
    held = matches(made.table, made.events)
    if name == "stock symbol":
        wanted = made.table.members["symbol"][:, 0]
        symbols = np.array(made.events.columns["symbol"])
        same = np.array(made.table.vocabulary["symbol"])[wanted] == symbols[:, None]
        assert held[~same].sum() == 0
        reached, pairs = held[same].mean(), same.sum()
    else:
        reached, pairs = held.mean(), held.size
    slack = 0.25 * selectivity + 4 * np.sqrt(selectivity / pairs)
    assert abs(reached - selectivity) < slack


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_seed_makes_the_same(name: str) -> None:
    one, same, other = (make(name, 0.02, 50, seed) for seed in (1, 1, 2))
    texts = [[w.table.text(row) for row in range(50)] for w in (one, same, other)]
    assert texts[0] == texts[1] != texts[2]
    assert one.events.publications == same.events.publications != other.events.publications


def test_mixed_filters_have_three_to_seven_predicates() -> None:
    filters = list(make("stock mixed", 0.02, 500).table.filters(0, 500))
    assert {len(filter.conjunctions[0].constraints) for filter in filters} == {3, 4, 5, 6, 7}


def test_flights_have_36_attributes_and_filters_name_some() -> None:
    made = make("flights", 0.02, 500)
    assert len(made.events.columns) == 36
    assert set(made.table.attributes) <= set(made.events.columns)


def test_batches_hold_the_events_as_columns() -> None:
    events = make("stock symbol", 0.02, 10).events
    second = events.batches[1]
    assert len(events.batches) * BATCH == len(events)
    for row in (0, BATCH - 1):
        batched = {name: column[row] for name, column in second.items()}
        batched["symbol"] = batched["symbol"].as_py()
        assert batched == events.publications[BATCH + row].attributes


def test_a_workload_that_there_is_not() -> None:
    with pytest.raises(ConfigurationError, match=r"no workload 'bonds'; there are stock, "):
        make("bonds", 0.02, 10)


@pytest.mark.parametrize("name", [name for name in CASES if name != "a million strings"])
def test_worst_cases_hold_what_they_promise(name: str) -> None:
    rows = 1000
    table, events = CASES[name](np.random.default_rng(1), rows)
    found = matches(table, events).sum(axis=1)
    assert len(table) == rows
    assert (found == rows).all() if name == "identical" else 0 < found.sum() < rows * len(events)
