"""Network files: refused with a sentence, or read."""

from __future__ import annotations

import random

import msgspec

from fuzzing import OFTEN_AND_SOAKED, changed_bytes, changed_text, changed_tree, knock
from reefcast.errors import ConfigurationError
from reefcast.network.file import dump_network, parse_network, read_network
from reefcast.network.toml_text import toml_lines

SEED = """
[network]
name = "n"
routing = "acyclic"

[routing]
covering = "lazy"

[limits]
credit = 100
queue_policy = "block"
filter_steps = 500

[sessions]
directory = "d"
fsync = "interval"
advisories = true

[retained]
max_values = 5

[[broker]]
name = "a"
listen = "127.0.0.1:7301"

[[broker]]
name = "b"
listen = "127.0.0.1:7302"
routing = {covering = "none"}

[[link]]
between = ["a", "b"]
latency_s = 0.5

[[storage]]
name = "s"
broker = "a"
topics = ["t/#", "u"]
directory = "h"
index = {price = "number"}
lifetime_s = 5.0
"""
WORDS = (
    *("[", "]", "[[", "]]", "=", '"', "'", "{", "}", "[limits]", "[[broker]]", "[[link]]", "#"),
    *("true", "inf", "nan", "-1", "0", "1e400", "1979-05-27", '"a"', "'''", '"127.0.0.1:0"'),
    *('routing = "scot"', 'routing = "mesh"', 'routing = "gossip"', 'region = "r"', "cluster = 1"),
    *('routing = "json:loads"', 'routing = "nowhere:It"', "insecure = true", 'between = ["a"]'),
    *("[" * 2000, "{a=" * 2000),
)
TREE = msgspec.toml.decode(SEED)


def made(rng: random.Random) -> bytes:
    what = rng.random()
    if what < 0.5:
        return changed_text(SEED, rng, WORDS).encode()
    if what < 0.6:
        return changed_bytes(SEED.encode(), rng)
    tree = changed_tree(TREE, rng)
    try:
        return "\n".join(toml_lines(tree)).encode()
    except (TypeError, ValueError, OverflowError, AttributeError):
        return b""


def door(data: bytes) -> None:
    """What is read is written as the same."""
    try:
        network = read_network(data)
    except ConfigurationError:
        return
    if "nan" not in (text := dump_network(network)):
        assert parse_network(text) == network


@OFTEN_AND_SOAKED
def test_network_files(count: int) -> None:
    knock(door, made, count)
