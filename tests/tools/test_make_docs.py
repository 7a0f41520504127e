"""The reference pages are what the code says today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("make_docs", ROOT / "tools" / "make_docs.py")
assert spec and spec.loader
make_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_docs)


@pytest.mark.parametrize("page", sorted(make_docs.PAGES))
def test_the_page_is_current(page: str) -> None:
    committed = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert committed == make_docs.PAGES[page](), "run `make docs`"
