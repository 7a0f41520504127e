"""As much of MQTT 3.1.1 as the baseline needs: connect, subscribe, publish with QoS 0."""

from __future__ import annotations

from reefcast.mqtt.encoding import encode
from reefcast.mqtt.packets import MQTT_3_1_1, Connect, Publish, Subscribe, TopicRequest

TOPIC = "e"
CONNACK_BYTES, SUBACK_BYTES = 4, 5


def connect(client_id: str) -> bytes:
    """Return CONNECT with a clean session and no keep-alive."""
    return encode(Connect(client_id), MQTT_3_1_1)


def subscribe() -> bytes:
    """Return SUBSCRIBE to the one topic of the measurement."""
    return encode(Subscribe(1, (TopicRequest(TOPIC),)), MQTT_3_1_1)


def publish(payload: bytes) -> bytes:
    """Return PUBLISH with QoS 0."""
    return encode(Publish(TOPIC, payload), MQTT_3_1_1)
