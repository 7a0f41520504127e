"""The network file: what it says, and the sentences with which nonsense is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from reefcast.errors import ConfigurationError
from reefcast.overlay.network_file import dump_network, load_network, read_network

GOOD = """
[network]
name = "office"
[trace]
level = "full"
[[broker]]
name = "b1"
listen = "127.0.0.1:7301"
[[broker]]
name = "b2"
listen = "[::1]:7302"
[[link]]
between = ["b2", "b1"]
latency_ms = 2.5
"""


def test_a_good_file_is_read() -> None:
    network = read_network(GOOD)
    assert network.network.name == "office"
    assert network.network.routing == "acyclic"
    assert network.names == ["b1", "b2"]
    assert network.neighbours("b1") == ["b2"]
    assert network.address("b2") == ("::1", 7302)
    assert network.link[0].latency_ms == 2.5


def test_what_is_dumped_reads_the_same() -> None:
    network = read_network(GOOD)
    assert read_network(dump_network(network)) == network


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "b2"', 'name = "b1"', "given twice"),
        ('name = "b2"', 'name = "b/2"', "holds a '/'"),
        ("127.0.0.1:7301", "0.0.0.0:7301", "insecure = true"),
        ("127.0.0.1:7301", "127.0.0.1", "not host:port"),
        ("127.0.0.1:7301", "[::1]:7302", "same listen address"),
        ('"b2", "b1"', '"b2", "b9"', "no broker named 'b9'"),
        ('between = ["b2", "b1"]', 'between = ["b1", "b1"]', "no link to itself"),
        ('level = "full"', 'level = "loud"', "none of off"),
        ('level = "full"', 'level = "full"\nsample = 2', "between 0 and 1"),
        ("latency_ms = 2.5", "latency_ms = -1", "must be above 0"),
        ("latency_ms = 2.5", "latenzy_ms = 1", "latenzy_ms"),
        ('name = "office"', 'name = "office"\nrouting = 3', "routing"),
        ("[[link]]", "[limits]\nqueue_policy = 'wish'\n[[link]]", "none of block"),
        ("[[link]]", "[limits]\ncredit = 0\n[[link]]", "credit = 0 must be above 0"),
        ("[[link]]", "[[link", "cannot be read"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigurationError, match=says):
        read_network(GOOD.replace(old, new, 1))


def test_a_cycle_needs_a_routing_that_can() -> None:
    third = '\n[[broker]]\nname = "b3"\nlisten = "127.0.0.1:7303"\n'
    links = '[[link]]\nbetween = ["b1", "b3"]\n[[link]]\nbetween = ["b2", "b3"]\n'
    with pytest.raises(ConfigurationError, match="needs a tree"):
        read_network(GOOD + third + links)
    flooding = GOOD.replace('name = "office"', 'name = "office"\nrouting = "flooding"')
    assert read_network(flooding + third + links).neighbours("b3") == ["b1", "b2"]
    with pytest.raises(ConfigurationError, match="not connected"):
        read_network(GOOD + third)


def test_others_may_reach_it_only_when_said(tmp_path: Path) -> None:
    open_to_all = GOOD.replace("127.0.0.1", "0.0.0.0").replace(
        'name = "office"', 'name = "office"\ninsecure = true'
    )
    assert read_network(open_to_all).address("b1") == ("0.0.0.0", 7301)


def test_errors_name_the_file_and_the_broker(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    with pytest.raises(ConfigurationError, match=r"net\.toml: No such file"):
        load_network(file)
    file.write_text(GOOD.replace("[[broker]]", "[[brokers]]"))
    with pytest.raises(ConfigurationError, match=r"net\.toml: .*broker"):
        load_network(file)
    with pytest.raises(ConfigurationError, match="the file has b1, b2"):
        read_network(GOOD).entry("b9")
