"""URLs, options, pauses, events: the small parts."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys

import pytest

import reefcast
from reefcast.client.address import Address, parse_addresses
from reefcast.client.event import Event
from reefcast.client.settings import Backoff, Options, Settings
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


def test_no_url_at_all() -> None:
    with pytest.raises(ConfigurationError, match="no broker's URL"):
        parse_addresses([])


@pytest.mark.parametrize("name", ["Client", "Advertisement", "Subscription"])
def test_the_synchronous_twin_has_the_same_names(name: str) -> None:
    ours, twins = (
        {each for each in dir(getattr(module, name)) if not each.startswith("_")}
        for module in (reefcast, reefcast.sync)
    )
    only_there = {"next"} if name == "Subscription" else set()  # anext and asyncio.timeout here
    assert (ours - twins, twins - ours) == (set(), only_there)


def test_options_and_settings_are_the_same() -> None:
    assert {field.name for field in dataclasses.fields(Settings)} == set(Options.__annotations__)


def test_options_say_the_defaults_of_the_settings() -> None:
    said = Options.__doc__ or ""
    for field in dataclasses.fields(Settings):
        if isinstance(field.default, (int, float)) and field.default:
            assert f"({field.default:g})" in said.partition(f"`{field.name}`")[2], field.name


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


def test_pauses_double_up_to_the_longest_and_are_spread() -> None:
    backoff = Backoff(1.0, 5.0, random.Random(1))
    pauses = [backoff.pause_s() for _ in range(6)]
    for pause, full in zip(pauses, [1, 2, 4, 5, 5, 5], strict=True):
        assert full / 2 <= pause <= full
    assert pauses[-1] != pauses[-2]
    backoff.reset()
    assert backoff.pause_s() <= 1


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
