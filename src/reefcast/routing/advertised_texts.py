"""The different texts of the advertisements that came from one neighbour, and which of them a
subscription intersects.

Publishers share a few texts, or each has its own, as of a symbol or a process that nobody else
publishes about. So texts stand by the strings that they demand of attributes, and a subscription
that demands a string of the same attribute is compared with those that demand this one, and with
those that demand none.

The twin compares it with every text (`model.covering.intersects`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from reefcast.model.constraint import Kind
from reefcast.model.covering import MOST_CONSTRAINTS, intersects
from reefcast.model.filters import TOPIC, Filter, parse_filter

Keys = dict[str, str]
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
        for name, value in keys.items():
            self._by_key.setdefault(name, {}).setdefault(value, {})[text] = None
            self._demanding[name] += 1

    def remove(self, filter: Filter) -> None:
        """Remove the text of an advertisement that was added."""
        text = filter.text
        self._rows[text] -= 1
        if self._rows[text]:
            return
        del self._rows[text]
        for name, value in self._keys.pop(text).items():
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

    def _candidates(self, subscription: Filter) -> Iterator[str]:
        """Yield the texts that may intersect it, by the attribute that leaves the fewest."""
        fewest, best = len(self._rows), None
        keys = demanded(subscription) if len(self._rows) > FEW and self._by_key else {}
        for name, value in keys.items():
            if name not in self._by_key:
                continue
            there = self._by_key[name].get(value, {})
            number = len(there) + len(self._rows) - self._demanding[name]
            if number < fewest:
                fewest, best = number, (name, there)
        if best is None:
            yield from self._rows
            return
        name, there = best
        yield from there
        if fewest > len(there):
            yield from (text for text, keys in self._keys.items() if name not in keys)


def demanded(filter: Filter) -> Keys:
    """Return the strings that a filter demands of attributes: two filters that demand different
    ones of the same attribute do not intersect. Topics are none: a publication may have several."""
    if len(filter.conjunctions) != 1:
        return {}
    constraints = filter.conjunctions[0].constraints
    if len(constraints) > MOST_CONSTRAINTS:
        return {}
    return {
        name: str(constraint.members[0])
        for name, constraint in constraints.items()
        if constraint.kind is Kind.STRING
        and constraint.members is not None
        and len(constraint.members) == 1
        and not constraint.patterns
        and name != TOPIC
    }
