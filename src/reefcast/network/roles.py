"""The roles of a network file as what they grant."""

from __future__ import annotations

from collections.abc import Iterable

from reefcast.errors import ConfigurationError, FilterSyntaxError
from reefcast.model.grants import Grants, Right, Template, UserGrant
from reefcast.network.sections import RoleEntry


def grants_of(roles: Iterable[RoleEntry]) -> Grants:
    """Return what these roles grant. Raises `ConfigurationError`, which names the role, for a
    filter that cannot be parsed, a right that there is not, and a name that is empty or given
    twice."""
    found: dict[str, UserGrant] = {}
    for role in roles:
        if not role.name or role.name in found:
            raise ConfigurationError(
                f"role name {role.name!r} is empty or given twice; names must be unique"
            )
        found[role.name] = UserGrant(
            name=role.name,
            publish=_template(role, "publish", role.publish),
            subscribe=_template(role, "subscribe", role.subscribe),
            rights=frozenset(_right(role, name) for name in role.rights),
        )
    return Grants(found.values())


def _template(role: RoleEntry, key: str, text: str | None) -> Template | None:
    if text is None:
        return None
    try:
        return Template(text)
    except FilterSyntaxError as error:
        raise ConfigurationError(f"{key} of role {role.name!r}: {error}") from error


def _right(role: RoleEntry, name: str) -> Right:
    try:
        return Right(name)
    except ValueError:
        known = ", ".join(right.value for right in Right)
        raise ConfigurationError(
            f"right {name!r} of role {role.name!r} is none of {known}"
        ) from None
