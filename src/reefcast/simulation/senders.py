"""What the links of a broker, or of a machine, share: one transmitter that sends one message at a
time.

A sender is a FIFO server over all links that share it: a message waits for those that were queued
on any of them before, and is then sent at the rate of its own link. Queues stay those of the links:
`Link.queue_len` counts what waits on that link alone.

Faults that would change when messages behind another one leave (what a crash or a cut takes off a
queue, what a partition or a change of bandwidth holds up) are refused where links share a sender.
Faults of the wire (`Drop`, `Delay`, `Reorder`) touch no transmitter, and are as on any link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from reefcast.errors import ConfigurationError
from reefcast.simulation.faults import BandwidthChange, Crash, Cut, Fault, Partition, fault_text

Sharing = Literal["link", "broker", "machine"]
"""The links that share a sender: none (each has its own), those of a broker, or of a machine."""


class Sender:
    """A transmitter; `free_at`: when all that was queued is sent."""

    __slots__ = ("free_at",)

    def __init__(self) -> None:
        self.free_at = 0.0


class Senders:
    """The senders of one network, each a `kind`, made when the first of their links is."""

    def __init__(self, sharing: Sharing, machines: Mapping[str, str], kind: type[Sender]) -> None:
        self._sharing, self._machines, self._new = sharing, machines, kind
        self._shared: dict[str, Sender] = {}

    def of(self, broker: str) -> Sender:
        """Return the sender of a new link from this broker."""
        if self._sharing == "link":
            return self._new()
        owner = broker if self._sharing == "broker" else self._machines[broker]
        if owner not in self._shared:
            self._shared[owner] = self._new()
        return self._shared[owner]


def check_senders(
    sharing: str, machines: Mapping[str, str], brokers: Sequence[str], faults: Sequence[Fault]
) -> None:
    """Raise `ConfigurationError` for senders that cannot be simulated."""
    if sharing not in get_args(Sharing):
        raise ConfigurationError(
            f"there is no sender {sharing!r}; choose one of {', '.join(get_args(Sharing))}"
        )
    _check_machines(sharing, machines, brokers)
    if sharing == "link":
        return
    for fault in faults:
        if isinstance(fault, Crash | Cut | Partition | BandwidthChange):
            raise ConfigurationError(
                f"fault {fault_text(fault)!r}: where links share a sender, it would change when "
                "the messages behind it leave on other links, which is not simulated; take "
                'sender = "link"'
            )


def _check_machines(sharing: str, machines: Mapping[str, str], brokers: Sequence[str]) -> None:
    if sharing != "machine":
        if machines:
            raise ConfigurationError('brokers have machines, but only sender = "machine" uses them')
        return
    for broker in brokers:
        if broker not in machines:
            raise ConfigurationError(
                f'broker {broker} has no machine; with sender = "machine" each needs one'
            )
    for broker in machines:
        if broker not in brokers:
            raise ConfigurationError(f"a machine is for {broker}, but there is no such broker")
