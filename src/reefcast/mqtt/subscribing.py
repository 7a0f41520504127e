"""What an MQTT subscription asks of Reefcast: a filter.

A topic filter `plant/+/oven` asks for `topic MATCHES 'plant/+/oven'`. A condition on the content
may stand beside it, in the filter language (docs/reference/filter-language.md):

- in the user property `filter` of the SUBSCRIBE (5.0), for all topic filters of this packet;
- before the topic filter, for clients that have no user properties:
  `$filter/<condition>/<topic filter>`, in a shared subscription
  `$share/<group>/$filter/<condition>/<topic filter>`. The condition is percent-encoded (RFC 3986,
  section 2.1) as UTF-8; `/`, `+`, `#` and `%` must be (`%2F`, `%2B`, `%23`, `%25`).

The event must meet it: `topic MATCHES '<topic filter>' AND (<condition>)`. Two subscriptions of a
session are the same if their whole texts are, with `$share` and `$filter` (MQTT-3.8.4-3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from urllib.parse import unquote_to_bytes

import msgspec

from reefcast.errors import FilterSyntaxError, LimitError
from reefcast.model.effort import FilterLimits, admit_filter
from reefcast.model.expression import literal_to_sql
from reefcast.model.filters import TOPIC, parse_filter
from reefcast.model.language import MAX_LENGTH
from reefcast.model.reserved import RESERVED
from reefcast.mqtt.fields import shown
from reefcast.mqtt.reasons import MqttError, Reason
from reefcast.mqtt.topics import SHARE, is_shared, parse_topic_filter

FILTER = "$filter/"
PROPERTY = "filter"
"""The user property with a condition."""
SYS = "$SYS"
MOST_CHARS = 400
"""The most characters of what is wrong with a condition; a reason string may have few."""
_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


class Origin(Enum):
    """Who publishes what a subscription is about: clients, the broker itself under `$SYS`, or
    brokers under `$reefcast` (advisory events)."""

    CLIENTS = "clients"
    SYS = "$SYS"
    ADVISORIES = "$reefcast"


class MqttSubscription(msgspec.Struct, frozen=True):
    """A subscription. `text`: its whole topic filter, which tells it from others; `group`: who
    share it, "" for a subscription of one client; `pattern`: what topics must match; `condition`:
    what else must hold, if anything; `filter`: both together."""

    text: str
    group: str
    pattern: str
    condition: str | None
    filter: str
    origin: Origin


def subscription_of(
    text: str, user_properties: Iterable[tuple[str, str]], limits: FilterLimits
) -> MqttSubscription:
    """Return what a topic filter of a SUBSCRIBE asks for. `user_properties`: those of the packet.

    Raises `MqttError` with the reason for the SUBACK, and a sentence that says what is wrong and
    where: 0x8F for the topic filter or its condition, 0x97 for a condition that exceeds the limits,
    0x83 for a condition that is given twice."""
    plain, encoded = _without_condition(text)
    parsed = parse_topic_filter(plain)
    conditions = [value for name, value in user_properties if name == PROPERTY]
    if encoded is not None:
        conditions.append(_percent_decoded(text, encoded))
    if len(conditions) > 1:
        raise MqttError(
            Reason.IMPLEMENTATION_SPECIFIC_ERROR,
            f"{shown(text)} has {len(conditions)} conditions: give one, as the user property "
            f"'{PROPERTY}' or after {FILTER}; join several with AND",
        )
    origin = _origin_of(parsed.pattern)
    if conditions and origin is Origin.SYS:
        raise _invalid(text, "what is below $SYS has no attributes; leave the condition out")
    condition = conditions[0] if conditions else None
    filter = _filter_of(text, parsed.pattern, condition, limits)
    return MqttSubscription(text, parsed.share_name, parsed.pattern, condition, filter, origin)


def has_condition(text: str) -> bool:
    """Return whether the text of a topic filter contains its condition."""
    pattern = text.split("/", 2)[-1] if is_shared(text) else text
    return pattern.startswith(FILTER)


def _without_condition(text: str) -> tuple[str, str | None]:
    """Split off the condition, which is still encoded; None if there is none."""
    share, pattern = "", text
    if is_shared(text):
        end = text.find("/", len(SHARE)) + 1
        share, pattern = text[:end], text[end:]
    if not pattern.startswith(FILTER):
        return text, None
    encoded, _, rest = pattern[len(FILTER) :].partition("/")
    if not rest:
        raise _invalid(text, "no topic filter follows the condition; encode its / as %2F")
    if is_shared(rest):
        raise _invalid(text, f"write {SHARE}<group>/{FILTER}<condition>/<topic filter>")
    if rest.startswith(FILTER):
        raise _invalid(text, "it has two conditions; join them with AND")
    return share + rest, encoded


def _percent_decoded(text: str, encoded: str) -> str:
    for wildcard in "+#":
        if wildcard in encoded:
            raise _invalid(
                text, f"its condition contains {wildcard}; encode it as %{ord(wildcard):X}"
            )
    broken = _BROKEN_ESCAPE.search(encoded)
    if broken is not None:
        raise _invalid(
            text,
            f"two hexadecimal digits must follow the % at character {broken.start() + 1} of its "
            "condition; a % itself is encoded as %25",
        )
    raw = unquote_to_bytes(encoded)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _invalid(
            text, f"its condition is not UTF-8: {error.reason} at byte {error.start}"
        ) from None


def _filter_of(text: str, pattern: str, condition: str | None, limits: FilterLimits) -> str:
    filter = f"{TOPIC} MATCHES {literal_to_sql(pattern)}"
    if condition is not None:
        _check(condition, limits)  # by itself: it must not end early and go on as something else
        filter = f"{filter} AND ({condition})"
    if len(filter) > MAX_LENGTH:
        raise _invalid(text, f"its filter has {len(filter)} characters, and may have {MAX_LENGTH}")
    _check(filter, limits)  # the whole is nested deeper; the broker finds it parsed
    return filter


def _check(filter: str, limits: FilterLimits) -> None:
    """Check a filter; a wrong one is shown where it is wrong, in one line."""
    try:
        read = admit_filter(filter, limits)
        parse_filter(filter)  # at once, if `read` is there
        del read
    except LimitError as error:
        raise MqttError(Reason.QUOTA_EXCEEDED, str(error)) from error
    except FilterSyntaxError as error:
        what, *shown_line = str(error).splitlines()
        if len(what) > MOST_CHARS:  # it quotes a long text
            what = f"{what[:MOST_CHARS]}..."
        place = f" (in {shown_line[0].strip()!r})" if filter.strip() else ""
        raise MqttError(
            Reason.TOPIC_FILTER_INVALID, f"the condition is wrong at {what}{place}"
        ) from error


def _origin_of(pattern: str) -> Origin:
    if pattern.startswith(RESERVED):
        return Origin.ADVISORIES
    first, _, _ = pattern.partition("/")
    return Origin.SYS if first == SYS else Origin.CLIENTS


def _invalid(text: str, why: str) -> MqttError:
    return MqttError(
        Reason.TOPIC_FILTER_INVALID, f"the topic filter {shown(text)} is invalid: {why}"
    )
