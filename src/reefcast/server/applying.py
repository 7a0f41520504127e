"""A broker that reads its network file again while it runs: what it takes over, and what it cannot.

Rules
-----
- What the running broker does is `node.network`. Each thing that the file says differently gets an
  outcome: *applied*, *needs a restart* (of this broker; or of all together, where brokers with and
  without the change could not work with each other), or *refused*, with the reason.
- A file that cannot be read, or contradicts itself, changes nothing.
- These are applied: users, certificates of users and roles (also without being asked, see
  `following`), the files that they are in, the broker's own certificate, `[limits]`, `[trace]`, and
  the levels of `[log]`.
- On a tree, and so on a mesh, brokers come with their links, and go if they own nothing any more:
  a drained leaf. All of that is applied, or none.
- What a client was told when it came (its credit, the limit and the policy of its queue) holds
  until it comes again. The rest of `[limits]` counts at once.
- A trace that is switched on, or gets another directory, begins there; what a former run left in
  that directory stays."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import fields, replace

from reefcast import logs
from reefcast.errors import ConfigurationError, ReefcastError
from reefcast.logs import about, part
from reefcast.network.changes import Change, changes, fingerprint
from reefcast.network.file import NetworkFile, load_network
from reefcast.network.sections import LimitsSection, LinkEntry
from reefcast.overlay.topology import is_tree
from reefcast.routing.registry import routing_named
from reefcast.routing.router import Shape
from reefcast.server.admission import most_connections
from reefcast.server.following import users_of
from reefcast.server.node import Node
from reefcast.server.tracing import describe_run, open_trace
from reefcast.traces.files import RUN_FILE, write_run

log = part("broker")

APPLIED, RESTART, REFUSED = "applied", "needs a restart", "refused"
TOGETHER = "all brokers must be stopped and started together, for they could not work with others"
_USERS = ("[security]", "[[certificate]]", "[[role]]")
_AGREED = ("credit", "queue_limit", "queue_policy")
_OF_ALL = {("[network]", "name"), ("[network]", "routing")}
_PLACES = ("region", "cluster")


SCOT = (
    "a SCOT cannot grow or shrink while it runs, for all of its clusters have the same tree: stop "
    "all brokers, and start them with the new file; durable sessions stay on their disks"
)
MOVED = (
    "only a link of a broker that comes or goes itself can come or go: on a mesh, move it "
    "(reefcast network move-link), and wait for one that moves; else stop all brokers, and start "
    "them with the new file"
)
NOT_MINE = "it does not concern this broker"
ONLY_TOGETHER = "brokers and links come and go together, and something else of it cannot be"


class Applied(NamedTuple):
    """One thing that the network file says differently. `change`: what; `why`: the reason, or what
    is still to know of it."""

    change: str
    before: Any
    after: Any
    outcome: str
    why: str = ""


class Applying:
    """Reads `file`, from which this broker was started, again. `levels`: those of its command line,
    which go before those of the file; None: the process does not log for this broker alone."""

    def __init__(self, node: Node, file: Path, levels: Sequence[str] | None = None) -> None:
        self._node = node
        self._file = file
        self._levels = levels
        self._wanted = ""

    def hang_up(self) -> None:
        """Read the file again, because the process was told so by SIGHUP; log what becomes of each
        change."""
        name = self._node.name
        try:
            found = self.apply()
        except (ReefcastError, OSError) as error:
            words = "broker %s reads its network file again, and changes nothing: %s"
            log.error(words, name, error, extra=about(broker=name, reason=str(error)))
            return
        for each in found:
            level = logging.WARNING if each.outcome == APPLIED else logging.ERROR
            words, why = "broker %s: %s: %s%s", f" ({each.why})" if each.why else ""
            shown = about(broker=name, reason=each.why)
            log.log(level, words, name, each.outcome, each.change, why, extra=shown)

    def apply(self, wanted: str = "", *, dry: bool = False) -> list[Applied]:
        """Take over what the file says by now; return what that is. `wanted`: the fingerprint that
        the file must have, "" for any; `dry`: change nothing. Raises `ConfigurationError`, and
        changes nothing, for another file, or a wrong one."""
        network, self._wanted = load_network(self._file), wanted
        if self._node.name not in network.names:
            raise ConfigurationError(f"{self._file} has no broker {self._node.name} any more")
        if wanted and fingerprint(network) != wanted:
            raise ConfigurationError(
                f"broker {self._node.name} was started from {self._file}, which does not say what "
                "the file given says: copy that there first"
            )
        found = [self._judged(each, network) for each in changes(self._running(network), network)]
        found = _all_members_or_none(found)
        return found if dry else self._carry_out(network, found)

    def _running(self, network: NetworkFile) -> NetworkFile:
        """Return the network that the broker runs, with the links that it has now, for they may
        have moved; links of others are those of the file."""
        known, me = self._node.network, self._node.name
        entries = {frozenset(each.between): each for each in (*network.link, *known.link)}
        own = [frozenset((me, each)) for each in self._node.links]
        mine = [entries.get(each) or LinkEntry(between=(me, min(each - {me}))) for each in own]
        return replace(
            known, link=[*(each for each in network.link if me not in each.between), *mine]
        )

    # --- what can be done -------------------------------------------------------------------------

    def _judged(self, change: Change, network: NetworkFile) -> Applied:
        outcome, why = self._outcome(change, network)
        return Applied(change.what, change.before, change.after, outcome, why)

    def _outcome(self, change: Change, network: NetworkFile) -> tuple[str, str]:
        title, key = change.title, change.key
        if title in _USERS:
            return self._of_users(change, network)
        if title == "[limits]":
            return APPLIED, "for clients that come from now on" if key in _AGREED else ""
        if title == "[trace]" or (
            title == "[log]" and key != "format" and self._levels is not None
        ):
            return APPLIED, ""
        if title == "[[storage]]":
            return APPLIED, "storages follow their entries by themselves"
        if title in ("[[broker]]", "[[link]]"):
            return self._of_overlay(change, network)
        if title == "[[listener]]":
            return self._of_listener(change, network)
        if title == "[admin]" and not self._has_another_door(network):
            return APPLIED, "it is not the address of this broker"
        with_tls = title == "[tls]" and self._node.network.tls.on is not network.tls.on
        return RESTART, TOGETHER if with_tls or (title, key) in _OF_ALL else ""

    def _of_users(self, change: Change, network: NetworkFile) -> tuple[str, str]:
        if change.title == "[security]" and change.key.startswith("audit"):
            return RESTART, ""
        if (self._node.network.security is None) is not (network.security is None):
            return RESTART, TOGETHER
        if self._node.network.role and not network.role:
            return RESTART, "without any [[role]] all users might do everything"
        return APPLIED, ""

    def _of_listener(self, change: Change, network: NetworkFile) -> tuple[str, str]:
        me, entries = self._node.name, (*self._node.network.listener, *network.listener)
        if any(each.broker == me and each.name == change.entry for each in entries):
            return RESTART, ""
        return APPLIED, NOT_MINE

    def _of_overlay(self, change: Change, network: NetworkFile) -> tuple[str, str]:
        me = self._node.name
        if change.comes_or_goes:
            return self._of_member(change, network)
        if change.title == "[[link]]":
            return APPLIED, "which only the simulator looks at"
        if change.key in _PLACES:
            return RESTART, TOGETHER
        near = me if change.key != "listen" else {me, *network.neighbours(me)}
        if change.entry not in near:
            return APPLIED, NOT_MINE
        return RESTART, ""

    def _of_member(self, change: Change, network: NetworkFile) -> tuple[str, str]:
        """Return the outcome, and the reason for it, of adding or removing a broker or a link."""
        known = self._node.network
        if known.scot() is not None or network.scot() is not None:
            return REFUSED, SCOT
        if routing_named(known.network.routing).overlay is Shape.NONE:
            return RESTART, "brokers of this routing find each other"
        if not (is_tree(known.graph()) and is_tree(network.graph())):
            return RESTART, TOGETHER
        if change.title == "[[broker]]":
            return (APPLIED, "") if change.before is None else self._leaves(change.entry)
        (other,) = {*(change.before or change.after)["between"]} - {self._node.name}
        if change.before is None and other not in known.names:
            return APPLIED, ""
        if change.after is None and other not in network.names:
            return self._leaves(other)
        return RESTART, MOVED

    def _leaves(self, broker: str) -> tuple[str, str]:
        """Return what becomes of a broker that is no longer in the file."""
        if not self._wanted:
            return REFUSED, "only `reefcast network apply` takes out brokers, if they are drained"
        objection = self._node.host.core.objection_to_leaving(broker)
        return (REFUSED, objection) if objection else (APPLIED, "")

    def _has_another_door(self, network: NetworkFile) -> bool:
        me = self._node.name
        return network.admin_address(me) != self._node.network.admin_address(me)

    # --- what is done -----------------------------------------------------------------------------

    def _carry_out(self, network: NetworkFile, found: list[Applied]) -> list[Applied]:
        if any(_of_members(each) and each.outcome == APPLIED for each in found):
            self._take_members(network)
        steps: list[tuple[Callable[[str], bool], Callable[[NetworkFile], None]]] = [
            (lambda what: what.startswith(_USERS), self._take_users),
            (lambda what: what.startswith("[limits]"), self._take_limits),
            (lambda what: what.startswith("[trace]"), self._take_trace),
            (lambda what: what.startswith("[log]"), self._take_levels),
        ]
        for concerns, take in steps:
            its = [each for each in found if concerns(each.change) and each.outcome == APPLIED]
            if not its:
                continue
            try:
                take(network)
            except ReefcastError as error:
                refused = [each._replace(outcome=REFUSED, why=str(error)) for each in its]
                found = [refused[its.index(each)] if each in its else each for each in found]
        return found + self._other_files()

    def _take_members(self, network: NetworkFile) -> None:
        """Take over brokers and links that come and go."""
        node, known = self._node, self._node.network
        entries = {entry.name: entry for entry in known.broker}
        brokers = [entries.get(entry.name, entry) for entry in network.broker]
        now = replace(known, broker=brokers, link=network.link)
        node.broker_names.clear()
        node.broker_names.update(now.names)
        node.become(now)
        node.clients.is_broker = now.is_node
        node.soft_links.network = now
        node.overlay_links.become(now)

    def _take_users(self, network: NetworkFile) -> None:
        self._node.become(users_of(self._node.network, network))

    def _take_limits(self, network: NetworkFile) -> None:
        node, limits = self._node, network.limits
        host = node.host
        for field in fields(LimitsSection):
            setattr(host.limits, field.name, getattr(limits, field.name))
        node.of_users.most = limits.max_user_connections
        if node.shared.greetings is not None:
            node.shared.greetings.most = limits.max_greetings
        node.shared = node.shared._replace(limit=most_connections(limits))
        node.clients.limit()
        of_sessions = limits.max_subscriptions, limits.max_filter_bytes
        host.core.limit(limits.link_buffer, limits.link_patience_s, *of_sessions)
        for queue in host.outputs.links.values():
            queue.limit(limits)
        for link in node.links.values():
            link.limit()
        node.network = replace(node.network, limits=limits)

    def _take_trace(self, network: NetworkFile) -> None:
        node, section = self._node, network.trace
        trace = open_trace(section, node.name)
        if trace is not None and not (Path(section.directory) / RUN_FILE).exists():
            write_run(section.directory, describe_run(network))
        former = node.host.journal.trace_by(trace)
        if former is not None:
            node.former_traces.append(node.loop.create_task(former.finish_beside()))
        if node.host.passage is not None:
            node.host.passage.want_below(node.host.journal.wanted_below)
        node.network = replace(node.network, trace=section)

    def _take_levels(self, network: NetworkFile) -> None:
        assert self._levels is not None
        logs.set_levels(network.log.settings.changed(None, self._levels))
        kept = replace(network.log, format=self._node.network.log.format)
        self._node.network = replace(self._node.network, log=kept)

    def _other_files(self) -> list[Applied]:
        """Read the files again that the network file names; return what has changed in them."""
        found: list[Applied] = []
        if self._node.look_at_users():
            found.append(Applied("the files of users and of keys of tokens", None, None, APPLIED))
        changed, wrong = self._node.reload()
        if changed or wrong:
            outcome = REFUSED if wrong else APPLIED
            found.append(Applied("the broker's certificate", None, None, outcome, wrong))
        return found


def _all_members_or_none(found: list[Applied]) -> list[Applied]:
    """Refuse all brokers and links that come and go if any of them cannot."""
    its = [each for each in found if _of_members(each)]
    if all(each.outcome == APPLIED for each in its):
        return found
    return [
        each._replace(outcome=REFUSED, why=ONLY_TOGETHER)
        if each in its and each.outcome == APPLIED
        else each
        for each in found
    ]


def _of_members(applied: Applied) -> bool:
    """Return whether this is a broker, or a link, that comes or goes."""
    whole = applied.before is None or applied.after is None
    return whole and applied.change.startswith(("[[broker]]", "[[link]]"))
