"""Topic names and topic filters (MQTT 5.0, sections 4.7 and 4.8.2; MQTT 3.1.1, section 4.7).

Whether a name matches a filter is what MATCHES asks: `model.patterns.is_topic_match`."""

from __future__ import annotations

from typing import NamedTuple

from reefcast.model.patterns import check_topic_pattern
from reefcast.mqtt.fields import shown
from reefcast.mqtt.reasons import MqttError, Reason

SHARE = "$share/"


class TopicFilter(NamedTuple):
    """A topic filter. `share_name` is the name of the group that shares the subscription, "" if
    none does; `pattern` is what topics must match."""

    share_name: str
    pattern: str


def check_topic_name(name: str, what: str = "the topic name") -> None:
    """Raise `MqttError` with 0x90 if nothing can be published under `name` (MQTT-3.3.2-2,
    MQTT-4.7.3-1). `what` begins the sentence."""
    if not name:
        raise MqttError(Reason.TOPIC_NAME_INVALID, f"{what} is empty; it needs a character")
    for wildcard in "+#":
        if wildcard in name:
            raise MqttError(
                Reason.TOPIC_NAME_INVALID,
                f"{what} {shown(name)} contains the wildcard {wildcard} at its character "
                f"{name.index(wildcard)}; only topic filters may",
            )


def is_shared(text: str) -> bool:
    return text.startswith(SHARE)


def parse_topic_filter(text: str) -> TopicFilter:
    """Return the parts of a topic filter. Raises `MqttError` with 0x8F if a wildcard is out of
    place (MQTT-4.7.1-1, MQTT-4.7.1-2), or a part is empty (MQTT-4.7.3-1, MQTT-4.8.2-1 and -2)."""
    share_name, pattern = "", text
    if is_shared(text):
        share_name, separator, pattern = text[len(SHARE) :].partition("/")
        if not share_name or "+" in share_name or "#" in share_name:
            raise _invalid(text, f"the share name {shown(share_name)} is empty or has a wildcard")
        if not separator or not pattern:
            raise _invalid(text, "no topic filter follows the share name")
    try:
        check_topic_pattern(pattern)
    except ValueError as error:
        raise _invalid(text, str(error)) from None
    return TopicFilter(share_name, pattern)


def _invalid(text: str, why: str) -> MqttError:
    return MqttError(
        Reason.TOPIC_FILTER_INVALID, f"the topic filter {shown(text)} is invalid: {why}"
    )
