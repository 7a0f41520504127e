"""The different texts of the advertisements that came from one neighbour, and which of them a
subscription intersects.

Publishers share a few texts, or each has its own, as of a symbol or a process that nobody else
publishes about, or of a list of them. So texts stand by the strings that they demand of attributes,
and a subscription that demands strings of the same attribute is compared with those that demand one
of these, and with those that demand none.

The twin compares it with every text (`model.covering.intersects`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from reefcast.model.constraint import Kind
from reefcast.model.covering import MOST_CONSTRAINTS, intersects
from reefcast.model.filters import TOPIC, Filter, parse_filter

Keys = dict[str, tuple[str, ...]]
"""The strings one of which is demanded of an attribute, by its name."""
FEW = 4
"""Texts that are all compared: to look for those that may intersect would take as long."""


class AdvertisedTexts:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._rows: Counter[str] = Counter()
        self._keys: dict[str, Keys] = {}
        self._by_key: dict[str, dict[str, dict[str, None]]] = {}
        self._demanding: Counter[str] = Counter()  # texts that demand a string of the attribute

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __contains__(self, text: str) -> bool:
        return text in self._rows

    def add(self, filter: Filter) -> None:
        """Add the text of one more advertisement."""
        text = filter.text
        self._rows[text] += 1
        if self._rows[text] > 1:
            return
        self._keys[text] = keys = demanded(filter)
        for name, values in keys.items():
            there = self._by_key.setdefault(name, {})
            for value in values:
                there.setdefault(value, {})[text] = None
            self._demanding[name] += 1

    def remove(self, filter: Filter) -> None:
        """Remove the text of an advertisement that was added."""
        text = filter.text
        self._rows[text] -= 1
        if self._rows[text]:
            return
        del self._rows[text]
        for name, values in self._keys.pop(text).items():
            for value in values:
                del self._by_key[name][value][text]
                if not self._by_key[name][value]:
                    del self._by_key[name][value]
            self._demanding[name] -= 1
            if not self._demanding[name]:
                del self._by_key[name], self._demanding[name]

    def intersects(self, subscription: Filter) -> bool:
        """Return whether some text intersects the subscription."""
        return any(
            intersects(parse_filter(text), subscription) for text in self._candidates(subscription)
        )

    def _candidates(self, subscription: Filter) -> Iterable[str]:
        """Return the texts that may intersect it, by the attribute that leaves the fewest."""
        fewest, best = len(self._rows), ""
        keys = demanded(subscription) if len(self._rows) > FEW and self._by_key else {}
        for name, values in keys.items():
            if name in self._by_key:
                number = len(self._rows) - self._demanding[name]
                number += sum(map(len, self._demand(name, values)))
                if number < fewest:
                    fewest, best = number, name
        if not best:
            return self._rows
        found = chain.from_iterable(self._demand(best, keys[best]))
        if self._demanding[best] == len(self._rows):
            return found
        return chain(found, (text for text, keys in self._keys.items() if best not in keys))

    def _demand(self, name: str, values: Iterable[str]) -> list[dict[str, None]]:
        """Return the texts that demand one of these strings of an attribute, by string."""
        there = self._by_key[name]
        return [there[value] for value in values if value in there]


def demanded(filter: Filter) -> Keys:
    """Return the strings one of which a filter demands of an attribute, for each such attribute:
    two filters that have none in common there do not intersect. Topics are none: a publication may
    have several."""
    if len(filter.conjunctions) != 1:
        return {}
    constraints = filter.conjunctions[0].constraints
    if len(constraints) > MOST_CONSTRAINTS:
        return {}
    return {
        name: tuple(map(str, constraint.members))
        for name, constraint in constraints.items()
        if constraint.kind is Kind.STRING
        and constraint.members is not None
        and constraint.members
        and not constraint.patterns
        and name != TOPIC
    }
