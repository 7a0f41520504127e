"""The memory of all clients' queues together.

A queue is limited in publications, and clients are limited in number; but publications may be
large. So the bytes that are kept for clients are limited for all of them together (`[limits]
queue_bytes`): frames that wait for a socket, and frames that were sent and not acknowledged. When
they are more, the longest queue in bytes gives way, and the next, until what is left fits. The
session knows how (`client_session`): it drops the oldest publications, down to half of what was
kept, and its client learns how many; or the client is disconnected, and learns why.

What this costs: nothing for a client that keeps up. A queue is weighed at the end of each turn in
which something came for it and nothing could be written, and all of them are once in a while."""

from __future__ import annotations

from collections.abc import Mapping

from reefcast.model.messages import LinkName
from reefcast.server.client_port import ClientPort


class QueueMemory:
    """The bytes kept for these clients, at most `most`, which may change. `total`: their sum, as of
    when each was last weighed; `gave_way`: how often a queue had to."""

    def __init__(self, most: int, ports: Mapping[LinkName, ClientPort]) -> None:
        self.total = 0
        self.gave_way = 0
        self.most = most
        self._ports = ports
        self._making_room = False

    def weigh(self, port: ClientPort) -> None:
        """Take note of one queue that has grown."""
        held = port.held_bytes
        self.total += held - port.weight
        port.weight = held
        if self.total > self.most:
            self.weigh_all()

    def weigh_all(self) -> None:
        """Take note of all queues, and make room if need be."""
        if self._making_room:  # what gives way may be flushed meanwhile
            return
        self._making_room = True
        try:
            self._sum_up()
            while self.total > self.most and self._ports:
                longest = max(self._ports.values(), key=lambda port: port.weight)
                before = longest.weight
                self.gave_way += 1
                longest.on_overfull()
                self._sum_up()
                if longest.weight >= before and longest in self._ports.values():
                    return  # it goes later: it is closing
        finally:
            self._making_room = False

    def _sum_up(self) -> None:
        self.total = 0
        for port in self._ports.values():
            port.weight = port.held_bytes
            self.total += port.weight
