"""Rates of requests as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from reefcast.errors import ConfigurationError
from reefcast.pipeline.planning.placement.rates_file import load_rates


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
