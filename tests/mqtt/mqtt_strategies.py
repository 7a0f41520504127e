"""Strategies for packets of MQTT that the standard allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from reefcast.mqtt import reasons
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    TopicRequest,
    Unsuback,
    Unsubscribe,
    Will,
)
from reefcast.mqtt.properties import BY_PACKET, NO_PROPERTIES, WILL, Properties
from reefcast.mqtt.reasons import Reason

VERSIONS = (MQTT_3_1_1, MQTT_5)
characters = st.characters(exclude_characters="\0", exclude_categories=("Cs",))
texts = st.text(characters, max_size=20) | st.sampled_from(
    ("", "a", "\ufeffa", "\x01\x7f\ufffe", "\U0001f600", "é" * 65)
)
binaries = st.binary(max_size=20)
payloads = st.binary(max_size=40) | st.sampled_from((122, 123, 16_379, 16_380)).map(bytes)
topic_names = st.text(
    st.characters(exclude_characters="\0+#", exclude_categories=("Cs",)), min_size=1, max_size=20
) | st.sampled_from(("a", "a/b", "/", "$SYS/x", "/a//b", "t" * 64, "t" * 65))
topic_filters = topic_names | st.sampled_from(("#", "+", "a/+/b", "a/#", "$share/g/a/+", "+/#"))
packet_ids = st.integers(1, 65_535) | st.sampled_from((1, 255, 256, 65_535))
twos = st.integers(0, 65_535)
fours = st.integers(0, (1 << 32) - 1)
qualities = st.integers(0, 2)
flags = st.booleans()
variables = st.integers(1, (1 << 28) - 1) | st.sampled_from(
    (1, 127, 128, 16_383, 16_384, 2_097_152)
)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "payload_format_indicator": st.integers(0, 1),
    "response_topic": topic_names,
    "correlation_data": binaries,
    "authentication_data": binaries,
    "subscription_identifiers": st.lists(variables, max_size=3).map(tuple),
    "user_properties": st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    "server_keep_alive": twos,
    "topic_alias_maximum": twos,
    "topic_alias": packet_ids,
    "receive_maximum": packet_ids,
    "maximum_packet_size": st.integers(1, (1 << 32) - 1),
    "maximum_qos": st.integers(0, 1),
} | dict.fromkeys(
    (
        "message_expiry_interval",
        "session_expiry_interval",
        "will_delay_interval",
    ),
    fours,
)
"""The values of properties; texts if they are not here, and flags if so named."""


def _value(field: str, place: str) -> st.SearchStrategy[Any]:
    if field == "subscription_identifiers" and place == "SUBSCRIBE":
        return variables.map(lambda number: (number,))
    if field.endswith(("_available", "_information")) and field != "response_information":
        return flags
    return VALUES.get(field, texts)


def properties(place: str, version: int) -> st.SearchStrategy[Properties]:
    """Properties of a packet or will, none in 3.1.1."""
    if version == MQTT_3_1_1:
        return st.just(NO_PROPERTIES)
    values = {each.field: _value(each.field, place) for each in BY_PACKET[place].values()}
    some = st.fixed_dictionaries({}, optional=values).map(lambda found: Properties(**found))
    return st.just(NO_PROPERTIES) | some.map(_with_method)


def _with_method(made: Properties) -> Properties:
    if made.authentication_data is None or made.authentication_method is not None:
        return made
    return _replaced(made, authentication_method="m")


def _replaced(made: Any, **changes: Any) -> Any:
    fields = {field: getattr(made, field) for field in made.__struct_fields__}
    return type(made)(**fields | changes)


def wills(version: int) -> st.SearchStrategy[Will]:
    return st.builds(
        Will, topic_names, binaries, qualities, flags, properties=properties(WILL, version)
    )


@st.composite
def connects(draw: Callable[..., Any], version: int) -> Connect:
    user_name = draw(st.none() | texts)
    may_have_password = version == MQTT_5 or user_name is not None
    clean_start = draw(flags)
    client_id = draw(texts)
    if version == MQTT_3_1_1 and not clean_start:
        client_id = client_id or "c"
    return Connect(
        client_id,
        clean_start,
        draw(twos),
        draw(st.none() | wills(version)),
        user_name,
        draw(st.none() | binaries) if may_have_password else None,
        draw(properties("CONNECT", version)),
    )


def connacks(version: int) -> st.SearchStrategy[Connack]:
    known = reasons.CONNACK_REASONS if version == MQTT_5 else reasons.CONNACK_OF_RETURN_CODE
    refused = [reason for reason in known.values() if reason]
    kept = properties("CONNACK", version)
    return st.builds(Connack, flags, st.just(Reason.SUCCESS), kept) | st.builds(
        Connack, st.just(False), st.sampled_from(refused), kept
    )


@st.composite
def publishes(draw: Callable[..., Any], version: int) -> Publish:
    qos = draw(qualities)
    kept = draw(properties("PUBLISH", version))
    has_alias = kept.topic_alias is not None
    return Publish(
        draw(topic_names | st.just("")) if has_alias else draw(topic_names),
        draw(payloads),
        qos,
        draw(flags),
        draw(flags) if qos else False,
        draw(packet_ids) if qos else 0,
        kept,
    )


def acknowledgements(version: int) -> st.SearchStrategy[Packet]:
    kinds = {
        Puback: reasons.PUBACK_REASONS,
        Pubrec: reasons.PUBACK_REASONS,
        Pubrel: reasons.PUBREL_REASONS,
        Pubcomp: reasons.PUBREL_REASONS,
    }
    return st.one_of(
        st.builds(
            kind,
            packet_ids,
            st.sampled_from(list(known.values())) if version == MQTT_5 else st.just(Reason.SUCCESS),
            properties(kind.type.name, version),
        )
        for kind, known in kinds.items()
    )


@st.composite
def requests(draw: Callable[..., Any], version: int) -> TopicRequest:
    topic_filter, qos = draw(topic_filters), draw(qualities)
    if version == MQTT_3_1_1:
        return TopicRequest(topic_filter, qos)
    no_local = draw(flags) and not topic_filter.startswith("$share/")
    return TopicRequest(topic_filter, qos, no_local, draw(flags), draw(qualities))


def subscribes(version: int) -> st.SearchStrategy[Packet]:
    several = st.lists(requests(version), min_size=1, max_size=4).map(tuple)
    return st.builds(Subscribe, packet_ids, several, properties("SUBSCRIBE", version))


def subacks(version: int) -> st.SearchStrategy[Packet]:
    known = reasons.SUBACK_REASONS if version == MQTT_5 else reasons.SUBACK_OF_RETURN_CODE
    several = st.lists(st.sampled_from(list(known.values())), min_size=1, max_size=4).map(tuple)
    return st.builds(Suback, packet_ids, several, properties("SUBACK", version))


def unsubscribes(version: int) -> st.SearchStrategy[Packet]:
    several = st.lists(topic_filters, min_size=1, max_size=4).map(tuple)
    return st.builds(Unsubscribe, packet_ids, several, properties("UNSUBSCRIBE", version))


def unsubacks(version: int) -> st.SearchStrategy[Packet]:
    if version == MQTT_3_1_1:
        return st.builds(Unsuback, packet_ids)
    known = list(reasons.UNSUBACK_REASONS.values())
    several = st.lists(st.sampled_from(known), min_size=1, max_size=4).map(tuple)
    return st.builds(Unsuback, packet_ids, several, properties("UNSUBACK", version))


def disconnects(version: int) -> st.SearchStrategy[Packet]:
    if version == MQTT_3_1_1:
        return st.just(Disconnect())
    known = list(reasons.DISCONNECT_REASONS.values())
    return st.builds(Disconnect, st.sampled_from(known), properties("DISCONNECT", version))


def auths() -> st.SearchStrategy[Packet]:
    """AUTH packets: with a method, or in their shortest form."""
    known = list(reasons.AUTH_REASONS.values())
    kept = properties("AUTH", MQTT_5).map(
        lambda made: _replaced(made, authentication_method=made.authentication_method or "m")
    )
    return st.builds(Auth, st.sampled_from(known), kept) | st.just(Auth())


def packets(version: int) -> st.SearchStrategy[Packet]:
    """Packets of all types that the version has."""
    kinds: list[st.SearchStrategy[Any]] = [
        make(version)
        for make in (connects, connacks, publishes, publishes, acknowledgements, subscribes)
    ]
    kinds += [make(version) for make in (subacks, unsubscribes, unsubacks, disconnects)]
    kinds += [st.just(Pingreq()), st.just(Pingresp())]
    if version == MQTT_5:
        kinds.append(auths())
    return st.one_of(kinds)
