"""URLs, options, pauses, events: the small parts."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import reefcast
from reefcast.client.address import Address, parse_addresses
from reefcast.client.event import Event
from reefcast.client.settings import DEFAULTS, Options, complete
from reefcast.errors import ConfigurationError, ProtocolError


def test_urls() -> None:
    assert parse_addresses("reefcast://a:1, reefcast://[::1]:2") == (
        Address("a", 1),
        Address("::1", 2),
    )
    assert parse_addresses(["reefcast://localhost"]) == (Address("localhost", 7301),)
    assert str(Address("::1", 2)) == "reefcast://[::1]:2"


@pytest.mark.parametrize(
    "text",
    ["", "127.0.0.1:7301", "http://a:1", "reefcast://", "reefcast://a:x", "reefcast://a:1/path"],
)
def test_wrong_urls_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"reefcast://host:port|cannot be read"):
        parse_addresses(text)


def test_without_a_url_the_environment_says_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REEFCAST_URL", raising=False)
    assert parse_addresses(None) == (Address("127.0.0.1", 7301),)
    monkeypatch.setenv("REEFCAST_URL", "reefcast://a:1,reefcast://b")
    assert parse_addresses(None) == (Address("a", 1), Address("b", 7301))
    monkeypatch.setenv("REEFCAST_URL", "")  # as good as none
    assert parse_addresses(None) == (Address("127.0.0.1", 7301),)


def test_no_url_at_all() -> None:
    with pytest.raises(ConfigurationError, match="no broker URL given"):
        parse_addresses([])


@pytest.mark.parametrize(
    "name", ["Client", "Advertisement", "Subscription", "DurableSession", "OwedEvent"]
)
def test_the_synchronous_twin_has_the_same_names(name: str) -> None:
    ours, twins = (
        {each for each in dir(getattr(module, name)) if not each.startswith("_")}
        for module in (reefcast, reefcast.sync)
    )
    iterates = name in {"Subscription", "DurableSession"}
    only_there = {"next"} if iterates else set()  # anext and asyncio.timeout here
    assert (ours - twins, twins - ours) == (set(), only_there)


def test_an_option_is_written_once() -> None:
    """This covers its type, default and meaning; everything else is derived from there."""
    assert set(DEFAULTS) == set(Options.__annotations__)
    said = inspect.getdoc(Options) or ""
    for name, default in DEFAULTS.items():
        assert f"- `{name}`: " in said
        if isinstance(default, (int, float)) and default and default is not True:
            assert f"({default:g})" in said.partition(f"`{name}`")[2].partition("- `")[0], name
    assert max(map(len, said.splitlines())) <= 100
    source = Path(inspect.getsourcefile(Options) or "").read_text(encoding="utf-8")
    assert source.count("local_queue_limit: ") == 1
    assert source.count("history_patience_s") == 1


def test_what_is_not_given_has_its_default() -> None:
    assert complete({}) == DEFAULTS
    assert complete({"name": "shop"}) == {**DEFAULTS, "name": "shop"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'nmae'"):
        reefcast.connect("reefcast://127.0.0.1", nmae="shop")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"queue_policy": "dropoldest"},
        {"queue_limit": -1},
        {"local_queue_limit": 0},
        {"connect_timeout_s": -1.0},
        {"close_timeout_s": float("nan")},
        {"backoff_first_s": 0.0},
        {"backoff_first_s": 3.0},
    ],
)
def test_wrong_options_are_refused_before_anything_happens(wrong: dict) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        reefcast.connect("reefcast://127.0.0.1", **wrong)


def test_an_event_that_is_none_says_so_at_the_first_look() -> None:
    event = Event(b"\xc1nonsense")
    assert event.size_bytes == 9
    with pytest.raises(ProtocolError, match="malformed publication"):
        event["x"]


def test_the_public_face_is_whole_and_light() -> None:
    for name in reefcast.__all__:
        assert getattr(reefcast, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        reefcast.nonsense  # noqa: B018 (looking it up is the point)
    script = (
        "import sys, reefcast; print(*sorted(m for m in sys.modules if m.startswith('reefcast')))"
    )
    assert dir(reefcast) == reefcast.__all__
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == ["reefcast"]
