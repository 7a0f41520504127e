"""Plans and rates as files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.storage.placement.plan_file import dump_plan, load_plan, storages_of
from reefcast.storage.placement.rates_file import load_rates

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)


@given(st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=3, unique=True), min_size=1))
def test_a_plan_reads_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, kept: dict[str, list[str]]
) -> None:
    placement = {topic: tuple(brokers) for topic, brokers in kept.items()}
    file = tmp_path_factory.mktemp("plan") / "plan.toml"
    file.write_text(dump_plan(placement, ["made by hand"]), encoding="utf-8", newline="")
    brokers = {broker for each in placement.values() for broker in each}
    found = load_plan(file, brokers)
    assert found == storages_of(placement)
    assert {(topic, each.broker) for each in found for topic in each.topics} == {
        (topic, broker) for topic, brokers in placement.items() for broker in brokers
    }


STORAGE = '[[storage]]\nbroker = "b1"\ntopics = ["x"]\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no plan of storages"),
        ("[[storage]\n", "no plan of storages"),
        (STORAGE.replace("topics", "topic"), "no plan of storages"),
        (STORAGE.replace("b1", "b9"), "'b9': there is no such broker"),
        (STORAGE + STORAGE, "it has one already"),
        (STORAGE.replace('["x"]', '["x", "x"]'), "a topic comes twice"),
    ],
)
def test_plans_that_cannot_be(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=says):
        load_plan(file, ["b1", "b2"])


def test_rates(tmp_path: Path) -> None:
    file = tmp_path / "rates.csv"
    file.write_text('broker,topic,rate_per_s\nb1,"a, b",0.5\nb1,c,2\n', encoding="utf-8")
    assert load_rates(file) == {"b1": {"a, b": 0.5, "c": 2.0}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the first line must be broker,topic,rate_per_s"),
        ("broker,topic\n", "the first line must be"),
        ("broker,topic,rate_per_s\nb1,x\n", "line 2: write broker"),
        ("broker,topic,rate_per_s\nb1,x,1\nb1,y,often\n", "line 3: write broker.*'b1,y,often'"),
        ("broker,topic,rate_per_s\nb1,x,1\nb1,x,2\n", "line 3: 'b1' and 'x' come again"),
    ],
)
def test_rates_that_cannot_be_read(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "rates.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=says):
        load_rates(file)
