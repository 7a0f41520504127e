"""Which normative statements of MQTT a test shows: its parameter `version` has their numbers in its
id, and docs/mqtt-statements.toml names the test by it."""

from __future__ import annotations

import itertools

import pytest

from reefcast.mqtt.packets import MQTT_3_1_1, MQTT_5

_NAMES = {MQTT_5: "5.0", MQTT_3_1_1: "3.1.1"}
_topics = itertools.count(1)


def shows(five: str = "", three: str = "") -> pytest.MarkDecorator:
    """Run a test for the versions of which it shows statements, given as '3.1.0-2 4.8.0-1'."""
    cases = [
        pytest.param(version, id=f"{_NAMES[version]}:{','.join(statements.split())}")
        for version, statements in ((MQTT_5, five), (MQTT_3_1_1, three))
        if statements
    ]
    return pytest.mark.parametrize("version", cases)


def fresh(name: str = "t") -> str:
    """Return a topic level, or a client identifier, that no other test has."""
    return f"{name}{next(_topics)}"
