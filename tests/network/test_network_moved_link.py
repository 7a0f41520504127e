"""A network file after the move of one link: nothing else has changed."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from reefcast.errors import ConfigurationError
from reefcast.network.file import load_network
from reefcast.network.moved_link import with_moved_link, write_moved_link

TEXT = """\
# The network of the harbour
[[broker]]
name = "a"   # at the pier
[[broker]]
name = "b"

[[broker]]
name = "c"

[[link]]  # the long one
between = [ "a",   "b" ] # not encrypted
latency_s = 0.01

[[link]]
between = [
  "b",  # the hub
  "c",
]
"""


@pytest.mark.parametrize(
    ("move", "before", "then"),
    [
        (("a", "b", "c"), '[ "a",   "b" ] # not', '[ "a",   "c" ] # not'),
        (("b", "a", "c"), '[ "a",   "b" ] # not', '[ "c",   "b" ] # not'),
        (("c", "b", "a"), '"b",  # the hub', '"a",  # the hub'),
        (("b", "c", "a"), '"c",\n]', '"a",\n]'),
    ],
)
def test_one_name_is_another(move: tuple[str, str, str], before: str, then: str) -> None:
    assert TEXT.count(before) == 1
    assert with_moved_link(TEXT, *move) == TEXT.replace(before, then)


def test_links_in_one_line() -> None:
    text = 'link = [{between = ["a", "b"]}, {between=["b","c"]}] # both\n'
    assert with_moved_link(text, "c", "b", "a") == text.replace('["b","c"]', '["a","c"]')


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "net.toml"
    file.write_text(TEXT)
    file.chmod(0o640)
    return file


def test_the_file_is_changed_and_stays_what_it_is(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "by another name.toml"
    link.symlink_to(file)
    write_moved_link(link, "a", "b", "c")
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert load_network(link).neighbours("c") == ["a", "b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [link.name, file.name]


@pytest.mark.parametrize(
    ("move", "reason"),
    [
        (("a", "c", "b"), r"no \[\[link\]\] between a and c"),
        (("a", "b", "a"), "no link to itself"),
        (("b", "a", "d"), "no broker named 'd'"),
    ],
)
def test_a_file_that_would_be_wrong_is_left_alone(
    file: Path, move: tuple[str, str, str], reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        write_moved_link(file, *move)
    assert file.read_text() == TEXT
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_somebody_broke_meanwhile_is_left_alone(file: Path) -> None:
    file.write_text("[[link]\n")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        write_moved_link(file, "a", "b", "c")
    assert file.read_text() == "[[link]\n"
