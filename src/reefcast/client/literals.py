"""Values as filters write them."""

from __future__ import annotations

from reefcast.errors import InvalidValueError
from reefcast.model.flat import as_sent


def literal(value: object) -> str:
    """Return a value as a filter writes it, with quotes, in the form in which `publish` sends it:
    `f"placed >= {literal(noon)} AND name = {literal(name)}"`.

    Raises `InvalidValueError` if it is not the value of one attribute."""
    from reefcast.model.expression import literal_to_sql

    sent = as_sent({"value": value})
    if "value" not in sent:
        advice = "write IS NULL" if value is None else "write a condition for each of its parts"
        raise InvalidValueError(f"{value!r} is not a value of one attribute: {advice}")
    return literal_to_sql(sent["value"])
