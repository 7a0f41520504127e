"""Principals: a granted role is allowed, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ProtocolError
from reefcast.protocol.principal import ALL_ROLES, NOBODY, Principal, UserRole


@given(st.frozensets(st.sampled_from(UserRole)), st.sampled_from(UserRole))
def test_who_has_not_a_role_is_told_which(roles: frozenset[UserRole], role: UserRole) -> None:
    principal = Principal("anna", roles, "test")
    if role in roles:
        principal.require(role)
    else:
        with pytest.raises(ProtocolError, match=f"user 'anna' is not granted the role '{role}'"):
            principal.require(role)


def test_nobody_is_granted_anything() -> None:
    assert not NOBODY.roles
    assert set(UserRole) == ALL_ROLES
