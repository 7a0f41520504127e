"""Pages that quote limits of a network file give the defaults that the code has."""

from __future__ import annotations

import re

import msgspec
import pytest

from documentation import written_pages
from reefcast.network.sections import LimitsSection

DEFAULTS = {
    field.name: float(field.default)
    for field in msgspec.structs.fields(LimitsSection)
    if isinstance(field.default, int | float)
}
QUOTED = re.compile(r"`(\w+)` \((\d[\d ]*)\b")
SAID = [
    (page.name, key, float(value.replace(" ", "")))
    for page in written_pages()
    for key, value in QUOTED.findall(page.text)
    if key in DEFAULTS
]


def test_there_are_some() -> None:
    assert len(SAID) > 8


@pytest.mark.parametrize(("page", "key", "value"), SAID)
def test_a_quoted_default(page: str, key: str, value: float) -> None:
    assert DEFAULTS[key] == value
