"""MQTT clients that others have written, where this machine has them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

MOSQUITTO = shutil.which("mosquitto_pub") and shutil.which("mosquitto_sub")
NODE = shutil.which("node")
MQTT_JS = Path(__file__).parents[1] / "out" / "node" / "node_modules" / "mqtt"
"""Where `make node` installs it."""
MQTT_JS_FOR_PAGES = MQTT_JS / "dist" / "mqtt.min.js"

NEEDS_MOSQUITTO = pytest.mark.skipif(
    not MOSQUITTO,
    reason="there are no mosquitto_pub and mosquitto_sub on this machine (Debian: "
    "mosquitto-clients), and MQTT is tried with them",
)
NEEDS_MQTT_JS = pytest.mark.skipif(
    not (NODE and MQTT_JS.exists()),
    reason="there is no MQTT.js in out/node (`make node`), or no Node, and MQTT is tried with them",
)
