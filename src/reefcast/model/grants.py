"""What users may publish, see and do: *permissions are filters*.

Rules
-----
- A role has a filter of what its users may publish, one of what they may see, and rights of
  administration. A user with several roles has the OR of their filters, and all of their rights.
- `${user}` and `${claims.x}` in these filters are values of the user, put into the tree of the
  expression (`parameters`). Where a value is missing, or of no use, the role's filter matches
  nothing, and `Grant.missing` says why.
- A subscription is narrowed: what enters the network is its filter AND the grant (`narrowed`). It
  stays as it is where the grant covers it, so that most rows are what users wrote.
- A publication lies within a grant if it does under each of its topics: who may publish under one
  topic must not reach those who listen to another. A subscriber gets a publication if one of its
  topics satisfies both his filter and the grant, as with any filter.
- Advisory events (`reserved`) are seen by who has the right `status`, whatever else he may see.
- Replies to a client's own requests are for this client: its *inbox*, an address that is its own
  (`protocol.replies`), lies within every grant to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec

from reefcast.errors import FilterSyntaxError, LocalError, ProtocolError
from reefcast.model.covering import covers, intersects, may_hold
from reefcast.model.expression import And, Expression, Literal, Or, literal_to_sql, to_sql
from reefcast.model.filters import TOPIC, Filter, filter_of, is_plain, parse_filter
from reefcast.model.language import parse_with_parameters
from reefcast.model.messages import is_advisory
from reefcast.model.parameters import CLAIMS, USER, claim, parameters_of, substituted
from reefcast.model.publication import Publication, Value
from reefcast.model.reserved import RESERVED, names_reserved
from reefcast.model.subjects import Subject

NOTHING = Filter("FALSE", Literal(False))
REPLY_FOR = "reply.for"
"""The attribute of a reply that says for which client it is."""
ADVISORIES = Filter(f"{TOPIC} LIKE '{RESERVED}%'")
NO_ADVISORIES = parse_filter(f"{TOPIC} IS NULL OR {TOPIC} NOT LIKE '{RESERVED}%'")


class Right(StrEnum):
    """A right of administration. STATUS: ask brokers for their status, list the durable sessions of
    others, subscribe to advisory events. MOVE: move links. PLACE: be a storage. DRAIN: have a
    broker hand its clients to others; dispose of what is kept for others: a broker's custody for a
    neighbour, and durable sessions of other users. APPLY: have brokers read their network file
    again."""

    STATUS = "status"
    MOVE = "move"
    PLACE = "place"
    DRAIN = "drain"
    APPLY = "apply"


class Template:
    """The filter of a role, whose text may have parameters. Raises `FilterSyntaxError`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._expression = parse_with_parameters(text)
        self.parameters = parameters_of(self._expression)
        self._filter = None if self.parameters else parse_filter(text)

    def of(self, subject: Subject) -> Filter:
        """Return the filter for a user. Raises `LocalError` if a value is missing."""
        if self._filter is not None:
            return self._filter
        values = {name: _value_of(subject, name) for name in self.parameters}
        try:
            return parse_filter(to_sql(substituted(self._expression, values)))
        except FilterSyntaxError as error:
            said = str(error).splitlines()[0]
            raise LocalError(f"with the values of user {subject.user!r}: {said}") from error


def _value_of(subject: Subject, name: str) -> Any:
    return subject.user if name == USER else claim(subject.claims, name.removeprefix(CLAIMS))


class UserGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What a `[[role]]` grants. `publish`, `subscribe`: None: nothing."""

    name: str
    publish: Template | None = None
    subscribe: Template | None = None
    rights: frozenset[Right] = frozenset()


class Grant:
    """What one user may do. `publish`, `subscribe`: filters of what he may publish and see;
    `missing`: sentences about roles that grant nothing, or less, for want of a value."""

    def __init__(
        self,
        user: str,
        publish: Filter,
        subscribe: Filter,
        rights: frozenset[Right],
        missing: Sequence[str] = (),
    ) -> None:
        self.user = user
        self.publish = publish
        self.subscribe = subscribe
        self.rights = rights
        self.missing = missing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grant) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @cached_property
    def _identity(self) -> tuple[object, ...]:
        return (self.user, self.publish, self.subscribe, self.rights)

    # --- seeing -----------------------------------------------------------------------------------

    @cached_property
    def _with_advisories(self) -> Filter:
        return either([self.subscribe, ADVISORIES])

    @property
    def sees_advisories(self) -> bool:
        return Right.STATUS in self.rights

    def visible(self, filter: Filter) -> Filter:
        """Return what he may see of what this filter asks for: the grant, and where the filter
        names advisory events, these too if he may see them, and else without them. Raises
        `FilterSyntaxError` if that is too long."""
        if not names_reserved(filter):
            return self.subscribe
        if self.sees_advisories:
            return self._with_advisories
        return both(self.subscribe, NO_ADVISORIES)

    def narrowed(self, filter: Filter, inbox: str = "") -> Filter:
        """Return the filter of a subscription, or of a question, as far as he may see. `inbox`: the
        client's address for replies. Raises `LocalError` if he may see nothing at all, or the two
        together are too long or too deep for a filter."""
        if inbox and covers(inbox_filter(inbox), filter):
            return filter
        granted = self.subscribe
        try:
            granted = self.visible(filter)
            if granted.conjunctions:
                return both(granted, filter)
        except FilterSyntaxError as error:
            said = str(error).splitlines()[0]
            raise LocalError(
                f"together with what user {self.user!r} may see ({granted.text}), this is no "
                f"filter any more: {said}"
            ) from error
        raise LocalError(self._nothing("see"))

    def sees(self, publication: Publication, inbox: str = "") -> bool:
        """Return whether he may see a publication that waits for him."""
        if is_advisory(publication.id):
            return self.sees_advisories
        addressed = bool(inbox) and publication.attributes.get(REPLY_FOR) == inbox
        return addressed or self.subscribe.matches(publication)

    # --- publishing -------------------------------------------------------------------------------

    def objection(self, publication: Publication) -> str | None:
        """Return why he must not publish this; None if he may."""
        if self._may_publish(publication):
            return None
        return f"it lies outside {self._what_he_may}"

    def objection_to_advertising(self, filter: Filter) -> str | None:
        """Return why he must not advertise this: he could never publish any of it."""
        if intersects(self.publish, filter):
            return None
        return f"all of the advertisement {filter.text!r} lies outside {self._what_he_may}"

    def objection_to_key(self, values: Mapping[str, Value]) -> str | None:
        """Return why he must not clear the key of retained values that these values make."""
        if may_hold(self.publish, values):
            return None
        key = " and ".join(f"{name} {value!r}" for name, value in values.items())
        return f"{key} lies outside {self._what_he_may}"

    def _may_publish(self, publication: Publication) -> bool:
        granted = self.publish
        if len(publication.topics) < 2 or not granted.looks_at_topics():
            return granted.matches(publication)
        attributes = publication.attributes
        return all(granted.holds(attributes, (topic,)) for topic in publication.topics)

    @property
    def _what_he_may(self) -> str:
        if not self.publish.conjunctions:
            return f"what user {self.user!r} may publish: {self._nothing('publish')}"
        return f"what user {self.user!r} may publish: {self.publish.text}"

    def _nothing(self, verb: str) -> str:
        return "; ".join((f"user {self.user!r} may {verb} nothing", *self.missing))


class Grants:
    """All roles of a network."""

    def __init__(self, roles: Iterable[UserGrant] = ()) -> None:
        self._roles = {role.name: role for role in roles}

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._roles)

    def of(self, subject: Subject | None) -> Grant | None:
        """Return what a user may do; None for somebody who may do everything. Without roles
        everybody may."""
        if subject is None or not self._roles:
            return None
        missing: list[str] = []
        publish: list[Filter] = []
        subscribe: list[Filter] = []
        for role in self._granted(subject.granted):
            for template, found in ((role.publish, publish), (role.subscribe, subscribe)):
                if template is None:
                    continue
                try:
                    found.append(template.of(subject))
                except LocalError as error:
                    missing.append(
                        f"role {role.name!r} grants nothing by {template.text!r}: {error}"
                    )
        missing += (
            f"there is no role {name!r}" for name in subject.granted if name not in self._roles
        )
        rights = self.rights_of(subject.granted)
        return Grant(subject.user, either(publish), either(subscribe), rights, missing)

    def rights_of(self, granted: Iterable[str]) -> frozenset[Right]:
        """Return the rights of a user with these roles."""
        return frozenset(right for role in self._granted(granted) for right in role.rights)

    def _granted(self, names: Iterable[str]) -> list[UserGrant]:
        return [self._roles[name] for name in dict.fromkeys(names) if name in self._roles]


NO_GRANTS = Grants()


def required(granted: Iterable[Right], right: Right, user: str) -> None:
    """Raise `ProtocolError`, with a sentence for the user, unless he has a right."""
    if right not in granted:
        raise ProtocolError(f"user {user!r} has no right to {right.value!r} here")


def inbox_filter(address: str) -> Filter:
    """Return the filter of replies to a client with this address."""
    return parse_filter(f"{REPLY_FOR} = {literal_to_sql(address)}")


def either(filters: Sequence[Filter]) -> Filter:
    """Return one filter that matches what any of these matches."""
    found: list[Filter] = []
    for filter in dict.fromkeys(filters):
        if not any(covers(other, filter) for other in found):
            found = [other for other in found if not covers(filter, other)]
            found.append(filter)
    if len(found) < 2:
        return found[0] if found and found[0].conjunctions else NOTHING
    terms = tuple(term for each in found for term in _terms(each.expression, Or))
    return filter_of(Or(terms))


def both(a: Filter, b: Filter) -> Filter:
    """Return one filter that matches what both match: one of the two where the other covers it.
    Raises `FilterSyntaxError` if it would be too long or too deep."""
    if covers(a, b):
        return b
    if covers(b, a):
        return a
    if is_plain(a) and is_plain(b):
        return parse_filter(f"{a.text} AND {b.text}")  # so that it is plain, too
    terms = (*_terms(a.expression, And), *_terms(b.expression, And))
    return filter_of(And(terms))


def _terms(expression: Expression, kind: type[And | Or]) -> tuple[Expression, ...]:
    return expression.terms if isinstance(expression, kind) else (expression,)
