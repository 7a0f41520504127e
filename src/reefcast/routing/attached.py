"""The consumers that are attached to the sessions of a broker: whose they are, and what they are
called."""

from __future__ import annotations

from reefcast.errors import LocalError
from reefcast.model.messages import LinkName
from reefcast.sessions.outcome import ConsumerName


class Attached:
    """`by_name`: the client of each consumer, and the number that this drew."""

    def __init__(self) -> None:
        self.by_name: dict[ConsumerName, tuple[LinkName, int]] = {}
        self._of_client: dict[LinkName, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self.by_name)

    def add(self, client: LinkName, number: int) -> None:
        """Note that a consumer is attached."""
        self.by_name[name_of(client, number)] = (client, number)
        self._of_client.setdefault(client, {})[number] = None

    def numbers_of(self, client: LinkName) -> list[int]:
        """Return the numbers of a client's consumers."""
        return list(self._of_client.get(client, ()))

    def name(self, client: LinkName, number: int) -> ConsumerName:
        """Return the name of a consumer. Raises `LocalError` if it is not attached."""
        name = name_of(client, number)
        if name not in self.by_name:
            raise LocalError(f"consumer {number} of client {client!r} is not attached here")
        return name

    def forget(self, name: ConsumerName) -> tuple[LinkName, int] | None:
        """Forget a consumer; return whose it was, None if it is not attached."""
        known = self.by_name.pop(name, None)
        if known is not None:
            client, number = known
            its = self._of_client[client]
            del its[number]
            if not its:
                del self._of_client[client]
        return known


def name_of(client: LinkName, number: int) -> ConsumerName:
    """Return the name that a client's consumer with this number has."""
    return f"{client}#{number}"
