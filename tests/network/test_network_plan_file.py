"""Plans of storages as files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.network.plan_file import PlannedStorage, dump_plan, load_plan

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)


@given(st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=3, unique=True), min_size=1))
def test_a_plan_reads_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, kept: dict[str, list[str]]
) -> None:
    storages = tuple(PlannedStorage(broker, tuple(topics)) for broker, topics in kept.items())
    file = tmp_path_factory.mktemp("plan") / "plan.toml"
    file.write_text(dump_plan(storages, ["made by hand"]), encoding="utf-8", newline="")
    assert load_plan(file, kept) == storages


STORAGE = '[[storage]]\nbroker = "b1"\ntopics = ["x"]\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a plan of storages"),
        ("[[storage]\n", "not a plan of storages"),
        (STORAGE.replace("topics", "topic"), "not a plan of storages"),
        (STORAGE.replace("b1", "b9"), "'b9': there is no such broker"),
        (STORAGE + STORAGE, "the plan has another storage there"),
        (STORAGE.replace('["x"]', '["x", "x"]'), "a topic comes twice"),
    ],
)
def test_plans_that_cannot_be(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=says):
        load_plan(file, ["b1", "b2"])
