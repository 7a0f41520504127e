"""What `reefcast top` shows, from two answers of all brokers: rates, queues and what is slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Answer = dict[str, Any]
Answers = Mapping[str, Answer | None]
LOST = ("queue_full", "session_lost", "link_lost")
"""Counters of events that did not reach whom they were for."""


class Sample(NamedTuple):
    """What all brokers answered at one time, in seconds of any clock."""

    at_s: float
    answers: Answers


class BrokerFigures(NamedTuple):
    """One broker. Rates are per second since the last sample; `queue`: publications that wait for
    neighbours and clients; `lost`: since it started."""

    broker: str
    state: str
    clients: int = 0
    published_per_s: float = 0.0
    delivered_per_s: float = 0.0
    queue: int = 0
    custody: int = 0
    lost: int = 0
    memory_mb: float = 0.0


class LinkFigures(NamedTuple):
    """One direction of a link: what `broker` sends to `link`."""

    broker: str
    link: str
    state: str
    per_s: float
    queue: int
    load: float


class ClientFigures(NamedTuple):
    """A client that does not keep up, or has many events waiting."""

    broker: str
    client: str
    slow: bool
    queue: int
    dropped: int


def state_of(answer: Answer) -> str:
    """Return in a word what a broker does."""
    drain = answer["drain"]["state"]
    for word, true in (
        ("stops", answer["stopping"]),
        ("relearns", answer["relearning"]),
        ("is drained", drain == "empty"),
        ("drains", drain == "draining"),
        ("congested", answer["congested"]),
    ):
        if true:
            return word
    return "up"


def brokers(before: Sample | None, now: Sample) -> list[BrokerFigures]:
    """Return the figures of each broker, in the order of the network file."""
    return [_broker(name, answer, before, now) for name, answer in now.answers.items()]


def _broker(name: str, answer: Answer | None, before: Sample | None, now: Sample) -> BrokerFigures:
    if answer is None:
        return BrokerFigures(name, "does not answer")
    clients, counters = answer["clients"], answer["counters"]
    owed = answer["owed"].values()
    return BrokerFigures(
        name,
        state_of(answer),
        len(clients),
        _rate("published", name, before, now),
        _rate("delivered", name, before, now),
        sum(each["queue_len"] for each in (*clients, *answer["lst"].values())),
        sum(each.get("in_custody", 0) for each in owed),
        sum(counters.get(each, 0) for each in LOST),
        answer["memory_mb"],
    )


def _rate(counter: str, name: str, before: Sample | None, now: Sample) -> float:
    """Return how often a broker counted something in a second; a broker that was started again
    began at 0."""
    answer = now.answers[name]
    former = None if before is None else before.answers.get(name)
    if answer is None or before is None or former is None or now.at_s <= before.at_s:
        return 0.0
    same = former["session"] == answer["session"]
    since = former["counters"].get(counter, 0) if same else 0
    return max(0.0, float((answer["counters"].get(counter, 0) - since) / (now.at_s - before.at_s)))


def links(now: Sample) -> list[LinkFigures]:
    """Return all links, those with problems first, then the busiest."""
    found = [
        each for name, answer in now.answers.items() if answer for each in _links(name, answer)
    ]
    return sorted(found, key=lambda each: (each.state == "up", -each.queue, -each.per_s))


def _links(name: str, answer: Answer) -> Iterator[LinkFigures]:
    for link in answer["links"]:
        row = answer["lst"][link["link"]]
        load, queue = row["load"], row["queue_len"]
        yield LinkFigures(name, link["link"], link["state"], row["out_per_s"], queue, load)


def slow_clients(now: Sample) -> list[ClientFigures]:
    """Return the clients that do not keep up, or have lost events, or for which some wait; those
    with the longest queues first."""
    found = [
        ClientFigures(name, each["client"], each["slow"], each["queue_len"], each["dropped"])
        for name, answer in now.answers.items()
        if answer
        for each in answer["clients"]
        if each["slow"] or each["dropped"] or each["queue_len"]
    ]
    return sorted(found, key=lambda each: (not each.slow, -each.queue, -each.dropped))


def as_json(before: Sample | None, now: Sample) -> dict[str, Any]:
    """Return all of it as plain data."""
    return {
        "brokers": [each._asdict() for each in brokers(before, now)],
        "links": [each._asdict() for each in links(now)],
        "slow_clients": [each._asdict() for each in slow_clients(now)],
    }
