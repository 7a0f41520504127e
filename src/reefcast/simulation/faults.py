"""Faults of a simulated run, planned before it starts.

All times are seconds since the start of the run; `links=()` means every link, and a link is named
by its two ends, in any order: both directions are meant. Because faults are known in advance,
nothing that was computed ever has to be undone: a link computes the departure of a message through
all changes of its bandwidth, and a broker computes no service beyond the next intervention.

Effects on messages - `Crash`: the broker's machine is lost, with its state, its queues and all that
is on its links, in both directions; what reaches it while it is down, or was meant for it before it
came back, is lost (reason "link_lost"), as it is live.
- `Cut`: a soft link is gone at once; what was under way on it is sent another way, by the brokers.
- `Move`: none is lost.
- `Partition`: nothing leaves the links, and what is on the wire is sent again afterwards; brokers
  notice only a delay, as live brokers do whose connection comes back.
- `Drop`: publications vanish between two brokers (reason "fault"), and control messages to which
  there is no answer; what is to be answered is never lost, for nobody would ask again. Real links
  never do that: it is there to show that the checkers see it, and what gossip repairs.
- `Delay`, `Reorder`: later arrivals; the order on one link is kept, between links it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields

from reefcast.errors import ConfigurationError
from reefcast.network.sections import LimitsSection
from reefcast.overlay.topology import Edge

LINK_PATIENCE_S = LimitsSection().link_patience_s


@dataclass(frozen=True, slots=True)
class Crash:
    """`restart_s`: when it comes back, inf for never. A neighbour gives the link up if that takes
    longer than `link_patience_s` (as `[limits]` of the network file says, unless it is given)."""

    broker: str
    at_s: float
    restart_s: float = math.inf
    link_patience_s: float = LINK_PATIENCE_S


@dataclass(frozen=True, slots=True)
class Partition:
    links: tuple[Edge, ...]
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class BandwidthChange:
    links: tuple[Edge, ...]
    at_s: float
    bandwidth_mbit_per_s: float


@dataclass(frozen=True, slots=True)
class Cut:
    """Soft links between these brokers fail, if there are any at that time."""

    links: tuple[Edge, ...]
    at_s: float


@dataclass(frozen=True, slots=True)
class Move:
    """An operator's wish, no fault: the broker should replace its link to `old` by one to `new`.
    The routing does that in its own time, or refuses (routing `mesh`: see `routing.mesh.move`)."""

    broker: str
    old: str
    new: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A fault that lasts for a time, on some links or, if none is named, on all."""

    links: tuple[Edge, ...] = ()
    from_s: float = 0.0
    to_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Drop(Spell):
    """`share`: probability for each publication and link; `control`: for each control message that
    nobody answers (`PeerMessage.settles`)."""

    share: float
    control: float = 0.0


@dataclass(frozen=True, slots=True)
class Delay(Spell):
    """`extra_s` on top of the latency of every message."""

    extra_s: float


@dataclass(frozen=True, slots=True)
class Reorder(Spell):
    """`share`: probability for each message to take up to `up_to_s` longer, and to hold up all that
    comes behind it on its link."""

    share: float
    up_to_s: float


LinkFault = Partition | BandwidthChange | Drop | Delay | Reorder
Fault = Crash | Cut | Move | LinkFault

KINDS: dict[str, type[Fault]] = {
    "crash": Crash,
    "cut": Cut,
    "move": Move,
    "partition": Partition,
    "bandwidth": BandwidthChange,
    "drop": Drop,
    "delay": Delay,
    "reorder": Reorder,
}


def touches(fault: LinkFault, edge: Edge) -> bool:
    """Return whether the fault affects the link between these two, in either order."""
    return not fault.links or edge in fault.links or edge[::-1] in fault.links


def check_faults(faults: Sequence[Fault], brokers: Sequence[str], edges: Sequence[Edge]) -> None:
    """Raise `ConfigurationError` for a fault that makes no sense, and name it."""
    known = {*edges, *(edge[::-1] for edge in edges)}
    for fault in faults:
        if isinstance(fault, Crash):
            objection = _crash_objection(fault, brokers, faults)
        elif isinstance(fault, Cut):
            objection = _cut_objection(fault, brokers)
        elif isinstance(fault, Move):
            objection = _move_objection(fault, brokers)
        else:
            objection = _link_objection(fault, known)
        if objection:
            raise ConfigurationError(f"fault {fault_text(fault)!r}: {objection}")


def _crash_objection(crash: Crash, brokers: Sequence[str], faults: Sequence[Fault]) -> str:
    if crash.broker not in brokers:
        return f"there is no broker named {crash.broker!r}"
    if not 0 < crash.at_s < crash.restart_s or crash.link_patience_s <= 0:
        return "a broker crashes after the start, restarts after that, and patience is above 0"
    for other in faults:
        if not isinstance(other, Crash) or other is crash or other.broker != crash.broker:
            continue
        if crash.at_s <= other.at_s <= crash.restart_s:
            return "it is down already when it crashes again"
    return ""


def _cut_objection(cut: Cut, brokers: Sequence[str]) -> str:
    strangers = [broker for link in cut.links for broker in link if broker not in brokers]
    if strangers:
        return f"there is no broker named {strangers[0]!r}"
    return "" if cut.at_s > 0 else "a link is cut after the start"


def _move_objection(move: Move, brokers: Sequence[str]) -> str:
    strangers = [x for x in (move.broker, move.old, move.new) if x not in brokers]
    if strangers:
        return f"there is no broker named {strangers[0]!r}"
    return "" if move.at_s > 0 else "a link is moved after the start"


def _link_objection(fault: LinkFault, known: set[Edge]) -> str:
    for link in fault.links:
        if link not in known:
            return f"there is no link {link[0]}/{link[1]}"
    for name in ("share", "control", "extra_s", "up_to_s", "from_s", "at_s"):
        if getattr(fault, name, 0.0) < 0:
            return f"{name} is negative"
    if max(getattr(fault, "share", 0.0), getattr(fault, "control", 0.0)) > 1:
        return "a share is at most 1"
    if isinstance(fault, BandwidthChange):
        return (
            "" if fault.bandwidth_mbit_per_s > 0 else "bandwidth must be above 0; use a partition"
        )
    if not fault.from_s < fault.to_s:
        return "it ends before it starts"
    if isinstance(fault, Partition) and math.isinf(fault.to_s):
        return "a partition must end; use a crash for what never comes back"
    return ""


def fault_text(fault: Fault) -> str:
    """Return the text that `parse_fault` reads as this fault."""
    kind = next(name for name, type_ in KINDS.items() if isinstance(fault, type_))
    given = [f for f in fields(fault) if getattr(fault, f.name) != f.default]
    return f"{kind}:" + ",".join(f"{f.name}={_value_text(getattr(fault, f.name))}" for f in given)


def fault_mark(fault: Fault) -> dict[str, str | float | None]:
    """Return what a report says of a fault: `what` happened, `from_s`, and `to_s`, which is None
    for what never ends, and equal to `from_s` for what happens at one time."""
    from_s = fault.from_s if isinstance(fault, Spell | Partition) else fault.at_s
    to_s = fault.restart_s if isinstance(fault, Crash) else getattr(fault, "to_s", from_s)
    if isinstance(fault, BandwidthChange):
        to_s = math.inf
    return {"what": _what(fault), "from_s": from_s, "to_s": None if math.isinf(to_s) else to_s}


def _what(fault: Fault) -> str:
    if isinstance(fault, Crash):
        return f"{fault.broker} is down"
    if isinstance(fault, Move):
        return f"{fault.broker} moves from {fault.old} to {fault.new}"
    links = ", ".join(" – ".join(link) for link in fault.links) or "every link"
    return f"{fault_text(fault).partition(':')[0]} on {links}"


def _value_text(value: str | float | tuple[Edge, ...]) -> str:
    if isinstance(value, tuple):
        return "+".join("/".join(link) for link in value)
    return value if isinstance(value, str) else f"{value:g}"


def parse_fault(text: str, link_patience_s: float = LINK_PATIENCE_S) -> Fault:
    """Parse a fault such as `crash:broker=b03,at_s=5,restart_s=7` or
    `partition:links=b01/b02+b02/b03,from_s=5,to_s=8`. Raises `ConfigurationError`.
    `link_patience_s`: for a crash that does not give its own."""
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        raise ConfigurationError(
            f"fault {text!r}: {kind!r} is none of {', '.join(KINDS)}; an example is "
            "crash:broker=b03,at_s=5,restart_s=7"
        )
    known = {field.name: field for field in fields(KINDS[kind])}
    values: dict[str, object] = {"link_patience_s": link_patience_s} if kind == "crash" else {}
    for part in filter(None, rest.split(",")):
        name, _, value = part.partition("=")
        if name not in known:
            raise ConfigurationError(
                f"fault {text!r}: {kind} has no {name!r}; it has {', '.join(known)}"
            )
        values[name] = _parse_value(text, name, value)
    missing = [n for n, f in known.items() if f.default is MISSING and n not in values]
    if missing:
        raise ConfigurationError(f"fault {text!r}: {', '.join(missing)} must be given")
    return KINDS[kind](**values)  # type: ignore[arg-type]  # as `_parse_value` read each field


def _parse_value(text: str, name: str, value: str) -> object:
    if name in ("broker", "old", "new"):
        return value
    if name == "links":
        ends = [tuple(link.split("/")) for link in value.split("+")]
        if any(len(pair) != 2 for pair in ends):
            raise ConfigurationError(
                f"fault {text!r}: links are written b01/b02, several as b01/b02+b02/b03"
            )
        return tuple(ends)
    try:
        return float(value)
    except ValueError as error:
        raise ConfigurationError(f"fault {text!r}: {name}={value!r} is not a number") from error
