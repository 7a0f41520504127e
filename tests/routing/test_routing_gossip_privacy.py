"""Privacy: what a node says about a topic depends on that topic only, and names no other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from gossip_network import OverlayNetwork, names
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.routing.gossip.messages import MESSAGES, TopicMessage
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.streams import NodeId
from reefcast.routing.gossip.views import Weights

SEEDS = st.integers(0, 2**32)
RULES = st.sampled_from(("witness", "greedy"))
NODES = names(14)
Said = list[tuple[NodeId, NodeId, TopicMessage]]
"""Sender, receiver, message."""


class Life:
    """The life of one topic's overlay, step by step from its beginning. `seed` determines all of
    it."""

    def __init__(
        self, topic: str, seed: int, rule: str, weights: dict[NodeId, Weights] | None = None
    ) -> None:
        self._rng = random.Random(f"{seed} {topic}")
        self.interested = self._rng.sample(NODES, self._rng.randint(4, len(NODES)))
        options = msgspec.convert({"seed": 1, "rule": rule}, GossipOptions)
        contacts = self.interested[:2]
        self.network = OverlayNetwork(self._rng, contacts, options, topic, weights=weights)

    def happen(self) -> None:
        network, rng = self.network, self._rng
        live = sorted(network.overlays)
        absent = [node for node in self.interested if node not in live]
        what = rng.random()
        if absent and what < 0.5:
            network.join(rng.choice(absent))
        elif what < 0.6 and len(live) > 4:
            network.crash(rng.choice(live))
        elif what < 0.7 and len(live) > 4:
            network.leave(rng.choice(live))
        elif what < 0.8 and len(live) > 1:
            network.break_up(*rng.sample(live, 2))
        else:
            network.round()
        for _ in range(rng.randrange(40)):
            network.step()


def said_about(topic: str, topics: Sequence[str], seed: int, rule: str) -> Said:
    """Return what is said about a topic while the same nodes are in all these topics, and learn of
    each other through each of them."""
    weights: dict[NodeId, Weights] = {}
    lives = {name: Life(name, seed, rule, weights) for name in topics}
    steps = [name for name in topics for _ in range(40)]
    random.Random(seed).shuffle(steps)
    for name in steps:
        lives[name].happen()
    return lives[topic].network.sent


@given(SEEDS, RULES)
@settings(max_examples=25)
def test_what_is_said_about_a_topic_does_not_depend_on_other_topics(seed: int, rule: str) -> None:
    """Nodes join, leave and crash, and connections break. The messages about the topic arrive in
    the same order in both networks."""
    alone = said_about("a", ["a"], seed, rule)
    among_others = said_about("a", ["c", "a", "b"], seed, rule)
    assert alone == among_others
    assert len(alone) > 10


def words_of(value: Any) -> Iterator[str]:
    """Yield all strings in it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from words_of(key)
            yield from words_of(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from words_of(inner)


@given(SEEDS)
@settings(max_examples=10)
def test_no_message_names_another_topic(seed: int) -> None:
    """A message contains only its kind, its fields, its topic, and nodes that are or were in this
    topic."""
    fields = {field for kind in MESSAGES for field in kind.__struct_fields__}
    kinds = {str(kind.__struct_config__.tag) for kind in MESSAGES}
    life = Life("a", seed, "witness")
    others = {node for node in NODES if node not in life.interested}
    for sender, receiver, message in said_about("a", ["c", "a", "b"], seed, "witness"):
        words = set(words_of(msgspec.to_builtins(message)))
        assert words <= {*fields, *kinds, "type", "a", "", *NODES}
        assert not others & {*words, sender, receiver}


def test_different_topics_draw_different_numbers() -> None:
    """Otherwise the walks of a node would reveal that it is in both topics."""
    said = {
        topic: [x.nonce for _, _, x in said_about(topic, ["a", "b"], 5, "witness") if draws(x)]
        for topic in ("a", "b")
    }
    assert not set(said["a"]) & set(said["b"])


def draws(message: TopicMessage) -> bool:
    return hasattr(message, "nonce")
