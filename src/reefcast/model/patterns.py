"""Patterns on strings: LIKE, and MATCHES with the wildcards of MQTT.

LIKE: `%` stands for any run of characters, `_` for one; the escape character, if one was given,
takes the special meaning from the `%`, `_` or escape character that follows it. Nothing else is
special, a backslash neither.

MATCHES: a pattern is a list of levels separated by `/`. `+` stands for exactly one level (which may
be empty), `#`, only at the end, for any number of levels, none too: `a/#` matches `a`. As in MQTT
a pattern that starts with a wildcard matches no topic that starts with `$`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class LikePart(NamedTuple):
    """`kind` is "%" , "_" or "" for one character that stands for itself."""

    kind: str
    character: str = ""


def like_parts(pattern: str, escape: str) -> list[LikePart]:
    """Return the parts of a LIKE pattern. Raises `ValueError` where the escape character escapes
    nothing."""
    parts = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            escaped = next(characters, "")
            if not escaped or escaped not in ("%", "_", escape):
                raise ValueError(
                    f"the escape character {escape!r} must be followed by %, _ or itself"
                )
            parts.append(LikePart("", escaped))
        elif character in "%_":
            parts.append(LikePart(character))
        else:
            parts.append(LikePart("", character))
    return parts


def check_topic_pattern(pattern: str) -> None:
    """Raise `ValueError` if a wildcard is out of place."""
    if not pattern:
        raise ValueError("a topic pattern must not be empty")
    levels = pattern.split("/")
    for number, level in enumerate(levels, start=1):
        if "#" in level and (level != "#" or number < len(levels)):
            raise ValueError(
                f"# must be the whole last level of a topic pattern; level {number} is {level!r}"
            )
        if "+" in level and level != "+":
            raise ValueError(
                f"+ must be a whole level of a topic pattern; level {number} is {level!r}"
            )


LONG = 256
"""Characters of a pattern of which no regular expression is kept: it may take a megabyte. (`re`
keeps a few hundred itself.)"""


def like_regex(pattern: str, escape: str) -> re.Pattern[str]:
    """Return the regular expression of a LIKE pattern, for `fullmatch`."""
    make = _kept_regex if len(pattern) <= LONG else _like_regex
    return make(pattern, escape)


@lru_cache(maxsize=1 << 14)
def _kept_regex(pattern: str, escape: str) -> re.Pattern[str]:
    return _like_regex(pattern, escape)


def _like_regex(pattern: str, escape: str) -> re.Pattern[str]:
    """Return the regular expression of a LIKE pattern.

    The text between two `%` is found at its first place and never looked for again (an atomic
    group), or a pattern with many `%` would take a time that is a power of the text's length.
    """
    pieces = [""]
    for part in like_parts(pattern, escape):
        if part.kind == "%":
            pieces.append("")
        else:
            pieces[-1] += "." if part.kind else re.escape(part.character)
    first, *others = pieces
    if not others:
        return re.compile(first, re.DOTALL)
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    return re.compile(f"{first}{middle}.*{others[-1]}", re.DOTALL)


def topic_regex(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a topic pattern, for `fullmatch`."""
    return _kept_topic_regex(pattern) if len(pattern) <= LONG else _topic_regex(pattern)


@lru_cache(maxsize=1 << 14)
def _kept_topic_regex(pattern: str) -> re.Pattern[str]:
    return _topic_regex(pattern)


def _topic_regex(pattern: str) -> re.Pattern[str]:
    check_topic_pattern(pattern)
    levels = pattern.split("/")
    open_end = levels[-1] == "#"
    named = levels[:-1] if open_end else levels
    text = "/".join("[^/]*" if level == "+" else re.escape(level) for level in named)
    if open_end:
        text += "(?:/.*)?" if named else ".*"
    guard = r"(?!\$)" if levels[0] in ("+", "#") else ""
    return re.compile(guard + text, re.DOTALL)


def is_like(text: str, pattern: str, escape: str) -> bool:
    return like_regex(pattern, escape).fullmatch(text) is not None


def is_topic_match(text: str, pattern: str) -> bool:
    return topic_regex(pattern).fullmatch(text) is not None


def like_prefix(pattern: str, escape: str) -> tuple[str, str]:
    """Return what every match starts with, and how the pattern continues: "" (it ends), "%" (with
    anything) or "more"."""
    parts = like_parts(pattern, escape)
    length = next((i for i, part in enumerate(parts) if part.kind), len(parts))
    rest = parts[length:]
    anything = bool(rest) and all(part.kind == "%" for part in rest)
    prefix = "".join(part.character for part in parts[:length])
    return prefix, "" if not rest else "%" if anything else "more"


def topic_prefix(pattern: str) -> tuple[str, str]:
    """Return a prefix as `like_prefix` does, but never "%": the rest always says more than a prefix
    can."""
    wildcard = re.search(r"/#|#|\+", pattern)
    return (pattern, "") if wildcard is None else (pattern[: wildcard.start()], "more")


def topic_pattern_covers(pattern: str, other: str) -> bool:
    """Return whether `pattern` matches every topic that `other` matches; exact."""
    ours, theirs = pattern.split("/"), other.split("/")
    if ours[0] in ("+", "#") and theirs[0].startswith("$"):
        return False
    if theirs == ["#"]:
        return ours in (["#"], ["+", "#"])  # every topic has a level
    for number, level in enumerate(ours):
        if level == "#":
            return True
        if number == len(theirs) or theirs[number] == "#":
            return False
        if level not in ("+", theirs[number]):
            return False
    return len(ours) == len(theirs)


def topic_patterns_meet(one: str, other: str) -> bool:
    """Return whether some topic matches both patterns; a name is a pattern without wildcards."""
    for a, b in ((one, other), (other, one)):
        if a[:1] == "$" and b[:1] in ("+", "#"):
            return False
    return _levels_meet(one.split("/"), other.split("/"))


def _levels_meet(one: list[str], other: list[str]) -> bool:
    for mine, theirs in zip(one, other, strict=False):
        if mine == "#" or theirs == "#":
            return True
        if mine != theirs and "+" not in (mine, theirs):
            return False
    longer = one if len(one) > len(other) else other
    rest = longer[min(len(one), len(other)) :]
    return not rest or rest == ["#"]


def next_prefix(prefix: str) -> str | None:
    """Return the least string after all that start with `prefix`; None if there is none."""
    for end in range(len(prefix), 0, -1):
        following = ord(prefix[end - 1]) + 1
        if following <= 0x10FFFF:
            # surrogates are no characters: a string with one could not be sent
            following = 0xE000 if 0xD800 <= following <= 0xDFFF else following
            return prefix[: end - 1] + chr(following)
    return None
