"""What a CONNECT says of the client, as a broker needs it."""

from __future__ import annotations

import math

from reefcast.mqtt.packets import MQTT_5, Connect
from reefcast.mqtt.reasons import MqttError, Reason
from reefcast.protocol.proofs import Answer, Method
from reefcast.timing import MACHINE

PATIENCE = 1.5
"""How many keep-alive intervals a client may be silent."""
MOST_ID_CHARS = 180


def client_id_of(packet: Connect, version: int) -> str:
    """Return the client identifier, or one that is assigned now. Raises `MqttError` for a client
    that cannot be served."""
    if packet.properties.authentication_method is not None:
        raise MqttError(
            Reason.BAD_AUTHENTICATION_METHOD,
            "this broker knows no enhanced authentication: show a user name and a password, a "
            "token as the password without a user name, or a certificate",
        )
    if not packet.client_id and version < MQTT_5 and not packet.clean_start:
        raise MqttError(
            Reason.CLIENT_IDENTIFIER_NOT_VALID,
            "a client that wants its session kept needs a client identifier",
        )
    if len(packet.client_id) > MOST_ID_CHARS:
        raise MqttError(
            Reason.CLIENT_IDENTIFIER_NOT_VALID,
            f"a client identifier has at most {MOST_ID_CHARS} characters here",
        )
    return packet.client_id or f"auto-{MACHINE.get().token(8)}"


def shown_in(packet: Connect) -> Answer:
    """Return what a CONNECT shows: a user name and a password, a token as the password alone, or
    nothing."""
    if packet.password is None:
        return Answer(Method.NOTHING)
    try:
        secret = packet.password.decode()
    except UnicodeDecodeError:
        raise MqttError(
            Reason.BAD_USER_NAME_OR_PASSWORD, "the password is no text in UTF-8"
        ) from None
    if packet.user_name:
        return Answer(Method.PASSWORD, packet.user_name, secret)
    return Answer(Method.TOKEN, secret=secret)


def refusal_of(packet: Connect) -> Reason:
    """Return why a client is refused that did not prove who it is."""
    if packet.user_name is None and packet.password is None:
        return Reason.NOT_AUTHORIZED
    return Reason.BAD_USER_NAME_OR_PASSWORD


def may_last(packet: Connect, version: int) -> bool:
    """Return whether the client's session may outlive the connection."""
    if version < MQTT_5:
        return not packet.clean_start
    return bool(packet.properties.session_expiry_interval) or not packet.clean_start


def silence_s(packet: Connect, server_keep_alive_s: int) -> float:
    """Return how long the client may be silent (MQTT-3.1.2-22)."""
    keep_alive = server_keep_alive_s or packet.keep_alive
    return PATIENCE * keep_alive if keep_alive else math.inf
