"""What a broker says of itself under `$SYS/broker/...`, in the names that MQTT brokers have in
common. Each broker serves its own: they cross no link."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from reefcast.model.patterns import is_topic_match
from reefcast.server.mqtt.serving import ServingBroker

EVERY_S = 10.0
ROOT = "$SYS/broker/"


class SystemTopics:
    """The topics of one broker. Values are texts, as in other brokers."""

    def __init__(self, node: ServingBroker) -> None:
        self._node = node
        self._told: dict[str, bytes] = {}
        self._due_s = 0.0
        self._most_clients = 0

    def is_due(self, now: float) -> bool:
        """Return whether changes are to be told now, once every `EVERY_S`."""
        if now < self._due_s:
            return False
        self._due_s = now + EVERY_S
        return True

    def values(self, topic_filter: str) -> dict[str, bytes]:
        """Return the values now of the topics that match."""
        return {
            topic: value
            for topic, value in self._all().items()
            if is_topic_match(topic, topic_filter)
        }

    def changed(self) -> Mapping[str, bytes]:
        """Return what has changed since the last time."""
        now = self._all()
        changed = {topic: value for topic, value in now.items() if self._told.get(topic) != value}
        self._told = now
        return changed

    def _all(self) -> dict[str, bytes]:
        figures = self._figures()
        return {ROOT + name: str(value).encode() for name, value in figures.items()}

    def _figures(self) -> dict[str, object]:
        node = self._node
        sessions = node.clients.sessions
        connected = sum(each.port.line is not None for each in sessions.values())
        self._most_clients = max(self._most_clients, connected)
        core, counters = node.host.core, node.host.core.counters
        return {
            "version": f"reefcast version {version('reefcast')}",
            "uptime": f"{int(node.uptime_s)} seconds",
            "clients/connected": connected,
            "clients/active": connected,
            "clients/disconnected": len(sessions) - connected,
            "clients/inactive": len(sessions) - connected,
            "clients/total": len(sessions),
            "clients/maximum": self._most_clients,
            "subscriptions/count": sum(each.subscribed for each in core.clients.values()),
            "publish/messages/received": counters["published"],
            "publish/messages/sent": counters["delivered"],
            "publish/messages/dropped": sum(each.port.dropped for each in sessions.values()),
        }
