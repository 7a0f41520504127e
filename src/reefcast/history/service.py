"""History at one broker: it knows the routes to storages, and passes requests and answers on.

Rules
-----
- A storage is a client that says what it stores (`Stores`). While it is connected, all brokers know
  a route to it (`table`).
- A client asks its broker which storages answer for some topics (`Find`), and then sends each of
  them a request. The request takes the shortest route, and collects its path. Messages along the
  path need no table.
- What a client may see (`routing.granting`) is put into its requests where they enter: storages
  answer what both the filter and the grant match. When that changes, its open requests end, and
  what still comes for them is dropped; it asks again by itself, from behind what it has.
- A request that cannot go on is ended with a reason; so are the open requests of a storage when its
  link goes down or it goes away, and a client's messages along a broken path. The client may ask
  again, from behind the last position that it has.

Source: section 3 of `papers/storing-replication.txt`. Costs: a broker keeps only the requests of
its own storages, and of clients that may not see everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from reefcast.errors import LocalError, ProtocolError
from reefcast.history.messages import (
    BACKWARD,
    FORWARD,
    MESSAGES,
    MOST_HOPS,
    Cancel,
    End,
    Find,
    Found,
    Items,
    OnPath,
    Request,
    RequestId,
    Stored,
    Stores,
)
from reefcast.history.table import Key, StorageTable
from reefcast.model.filters import parse_filter
from reefcast.model.grants import Grant
from reefcast.model.messages import LinkName, Send, ServiceMessage
from reefcast.routing.services import Service
from reefcast.routing.tables import TableView

REGRANTED = "what this user may see has changed"


class HistoryService(Service):
    """History at one broker; see the module's docstring. `me`: the broker's name."""

    messages = MESSAGES

    def __init__(self, me: LinkName) -> None:
        self.table = StorageTable()
        self._me = me
        self._brokers: list[LinkName] = []
        self._early: dict[LinkName, dict[Key, Stored]] = {}
        self._clients: set[LinkName] = set()
        self._stores: dict[LinkName, set[str]] = {}
        self._open: dict[LinkName, dict[RequestId, tuple[str, ...]]] = {}
        self._grants: dict[LinkName, Grant] = {}
        self._asked: dict[LinkName, set[RequestId]] = {}
        self._last: dict[LinkName, int] = {}

    def handle(self, message: ServiceMessage, link: LinkName, *, client: bool) -> Sequence[Send]:
        if isinstance(message, Stores | Find) is not client and not isinstance(
            message, Request | OnPath
        ):
            raise self._wrong(message, link)
        if isinstance(message, Stores):
            return self._store(message, link)
        if isinstance(message, Find):
            parts, missing = self.table.parts(message.topics, link, every=message.every)
            found = Found(number=message.number, parts=tuple(parts), missing=tuple(missing))
            return [Send(link, found)]
        if isinstance(message, Stored):
            return self._stored(message, link)
        if isinstance(message, Request):
            return self._request(message, link, client=client)
        if isinstance(message, OnPath):
            return self._along(message, link, client=client)
        raise self._wrong(message, link)

    def _wrong(self, message: ServiceMessage, link: LinkName) -> ProtocolError:
        return ProtocolError(f"{link!r} sent {type(message).__name__}, which is not for it to say")

    # --- storages ---------------------------------------------------------------------------------

    def _store(self, stores: Stores, link: LinkName) -> list[Send]:
        before, now = self._stores.get(link, set()), set(stores.topics)
        self._stores[link] = now
        self.table.names[link] = stores.name
        opened = [(topic, link) for topic in sorted(now - before)]
        for key in opened:
            self.table.opened(key, link)
        return self._tell(opened) + self._close([(topic, link) for topic in sorted(before - now)])

    def _close(self, keys: Sequence[Key], *, but: LinkName | None = None) -> list[Send]:
        for key in keys:
            self.table.closed(key)
        return self._tell(keys, but=but)

    def _tell(self, keys: Sequence[Key], *, but: LinkName | None = None) -> list[Send]:
        news = [self.table.news(key) for key in keys]
        return [Send(link, stored) for link in self._brokers if link != but for stored in news]

    def _stored(self, stored: Stored, link: LinkName) -> list[Send]:
        key = (stored.topic, stored.storage)
        if link not in self._brokers:  # it will be: the other end has promoted it before this one
            self._early.setdefault(link, {})[key] = stored
            return []
        if not self.table.heard(stored, link):
            return []
        if stored.topic in self._stores.get(stored.storage, ()):
            self.table.opened(key, stored.storage)  # it is connected here all the same
            return self._tell([key])
        return self._tell([key], but=link)

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName, *, client: bool) -> Sequence[Send]:
        if client:
            self._clients.add(link)
            return []
        sends: list[Send] = []
        if link in self._brokers:  # it has restarted, and knows no storage any more
            sends += self._close(self.table.by(link), but=link)
        else:
            self._brokers.append(link)
        sends += [Send(link, self.table.news(key)) for key in self.table.routes]
        for stored in self._early.pop(link, {}).values():
            sends += self._stored(stored, link)
        return sends

    def link_down(self, link: LinkName, *, client: bool) -> Sequence[Send]:
        self._early.pop(link, None)
        if client:
            self._clients.discard(link)
            self._stores.pop(link, None)
            self._grants.pop(link, None)
            self._asked.pop(link, None)
            self._last.pop(link, None)
        elif link in self._brokers:
            self._brokers.remove(link)
        else:  # a link beside the overlay
            return []
        return self._close(self.table.by(link)) + self._end_open(link)

    def away(self, client: LinkName) -> Sequence[Send]:
        """Redirect questions until this storage is back and has said what it stores."""
        self._stores.pop(client, None)
        return self._close(self.table.by(client)) + self._end_open(client)

    def _end_open(self, storage: LinkName) -> list[Send]:
        """End the open answers of a storage from which nothing more comes."""
        sends: list[Send] = []
        for id, path in self._open.pop(storage, {}).items():
            sends += self._end(id, path, len(path) - 1, f"storage {storage!r} is gone")
        return sends

    # --- requests ---------------------------------------------------------------------------------

    def _request(self, request: Request, link: LinkName, *, client: bool) -> list[Send]:
        path = (link,) if client else request.path
        if not path or (client and request.id[0] != link) or (not client and path[-1] != link):
            raise ProtocolError(f"{link!r} sent a request that did not come from where it says")
        if self._me in path or len(path) > MOST_HOPS - 2:
            return self._end(request.id, (*path, self._me), len(path), "it went in a circle")
        path = (*path, self._me)
        if client and link in self._grants:
            number, last = request.id[1], self._last.get(link, 0)
            if number <= last:  # what still comes for that request may lie outside now
                why = f"request {number} is not above {last}: numbers are never used again"
                return self._end(request.id, path, len(path) - 1, why)
            self._last[link] = number
            try:
                request = self._narrowed(request, link)
            except LocalError as error:
                return self._end(request.id, path, len(path) - 1, str(error), refused=True)
        to = self.table.next_link(request.storage)
        if to is None:
            why = f"there is no path to storage {request.storage!r} any more"
            return self._end(request.id, path, len(path) - 1, why)
        if to == request.storage:
            self._open.setdefault(to, {})[request.id] = path
        return [Send(to, replace(request, path=path))]

    def _narrowed(self, request: Request, client: LinkName) -> Request:
        """Return a client's request as far as it may see. Raises `LocalError` if that is
        nothing."""
        filter = self._grants[client].narrowed(parse_filter(request.filter))
        self._asked.setdefault(client, set()).add(request.id)
        return replace(request, filter=filter.text)

    def granted(self, client: LinkName, grant: Grant | None) -> Sequence[Send]:
        """Note what a client may see, and end what it has asked before."""
        ids = self._asked.pop(client, set())
        if grant is None:
            self._grants.pop(client, None)
        else:
            self._grants[client] = grant
        return [
            send for id in sorted(ids) for send in self._end(id, (client, self._me), 1, REGRANTED)
        ]

    def _is_for_nobody(self, message: OnPath) -> bool:
        """Return whether to drop this message: it has items for a question that its client, whose
        view is restricted, has not asked or no longer asks. Note the end of a question."""
        asked = self._asked.get(message.path[0], set())
        known = message.id in asked
        if isinstance(message, End | Cancel):
            asked.discard(message.id)
        return not known and isinstance(message, Items)

    def _end(
        self,
        id: RequestId,
        path: tuple[str, ...],
        at: int,
        reason: str,
        *,
        refused: bool = False,
    ) -> list[Send]:
        """Send the end of an answer back from this broker, which is at that place of the path."""
        self._asked.get(path[0], set()).discard(id)
        if not self._is_up(path[at - 1]):
            return []
        end = End(id=id, path=path, at=at - 1, reason=reason, refused=refused)
        return [Send(path[at - 1], end)]

    def _is_up(self, link: LinkName) -> bool:
        return link in self._brokers or link in self._clients

    def _along(self, message: OnPath, link: LinkName, *, client: bool) -> list[Send]:
        path, at = message.path, message.at
        step = -1 if isinstance(message, BACKWARD) else 1
        asks = client and isinstance(message, FORWARD)
        of_another = asks and (at != 1 or message.id[0] != link)
        on_path = 0 < at < len(path) - 1 and path[at] == self._me and path[at - step] == link
        if not on_path or of_another:
            what = type(message).__name__
            raise ProtocolError(f"{link!r} sent {what} along a path that it is not on")
        to = path[at + step]
        if isinstance(message, End | Cancel):
            self._open.get(path[-1], {}).pop(message.id, None)
        if message.path[0] in self._grants and at == 1 and self._is_for_nobody(message):
            return [Send(link, Cancel(id=message.id, path=path, at=at + 1))]
        if self._is_up(to):
            return [Send(to, replace(message, at=at + step))]
        if isinstance(message, FORWARD):
            return self._end(message.id, path, at, f"there is no path to {to!r} any more")
        return []

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> Mapping[str, TableView[Any]]:
        return {StorageTable.name: self.table}
