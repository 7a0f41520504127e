"""Where events may be delivered: URLs of sinks, and the list of those that are allowed.

Whoever may subscribe makes this broker send requests. So an operator says to whom (against
server-side request forgery): each entry of the list is a host (`hooks.example.com`, by HTTPS), an
origin (`http://10.0.0.5:8080`), or an origin with the beginning of a path
(`https://example.com/hooks/`). Without a list, a broker that listens on loopback alone delivers to
loopback alone, and any other broker to nobody. Redirects are never followed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from reefcast.cloudevents.context import is_uri
from reefcast.errors import ConfigurationError, LocalError
from reefcast.protocol.privacy import is_loopback

MOST_URL_CHARS = 2000
_PORTS = {"http": 80, "https": 443}
_DOTS = re.compile(r"(?:^|/|%2f)(?:\.|%2e){1,2}(?:/|%2f|$)", re.IGNORECASE)
_HOST = re.compile(r"[A-Za-z0-9.\-]+|\[[0-9A-Fa-f:.]+\]")


class SinkError(LocalError):
    """An address is none to which events may be delivered."""


class Place(NamedTuple):
    """A sink, or an entry of the list: which requests go there."""

    scheme: str
    host: str
    port: int
    path: str


def place_of(url: str) -> Place:
    """Return where an http or https URL leads. Raises `SinkError`."""
    if len(url) > MOST_URL_CHARS:
        raise SinkError(f"the URL has {len(url)} characters; it may have {MOST_URL_CHARS}")
    if not is_uri(url):
        raise SinkError(f"{url[:100]!r} is no URL (RFC 3986)")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise SinkError(f"{url[:100]!r} has a host or a port that is none") from None
    scheme, host = parts.scheme.lower(), (parts.hostname or "").rstrip(".")
    if scheme not in _PORTS:
        raise SinkError(f"{url[:100]!r} is no URL of http or https")
    if "@" in parts.netloc:
        raise SinkError("a URL must not name a user: put credentials into sinkcredential")
    if parts.fragment or "#" in url:
        raise SinkError("a URL for requests has no fragment (#)")
    if port == 0:  # which would count as no port here, and not where the request is sent
        raise SinkError(f"{url[:100]!r} has the port 0")
    if not host or _HOST.fullmatch(f"[{host}]" if ":" in host else host) is None:
        raise SinkError(f"{url[:100]!r} names no host")
    if _DOTS.search(parts.path):
        raise SinkError("the path has a part '.' or '..'; write it without")
    return Place(scheme, host, port or _PORTS[scheme], parts.path or "/")


class AllowedSinks:
    """A list of allowed sinks. `loopback`: addresses of this machine are allowed, too."""

    def __init__(self, entries: Iterable[str], *, loopback: bool = False) -> None:
        self._places = tuple(map(_entry, entries))
        self._loopback = loopback

    def check(self, sink: str) -> None:
        """Raise `SinkError` if nothing may be delivered to this URL."""
        place = place_of(sink)
        if self._loopback and is_loopback(place.host):
            return
        if not any(_covers(each, place) for each in self._places):
            said = "those of this machine" if self._loopback else "none"
            listed = "those in its list" if self._places else said
            raise SinkError(
                f"this broker must not deliver to {place.scheme}://{place.host}:{place.port}; the "
                f"sinks that it allows are {listed} (`sinks` of the listener)"
            )


def _entry(text: str) -> Place:
    """Return the place that an entry of the list says. Raises `ConfigurationError`."""
    try:
        return place_of(text if "://" in text else f"https://{text}")
    except SinkError as error:
        raise ConfigurationError(f"sinks: {error}") from None


def _covers(entry: Place, place: Place) -> bool:
    if entry[:3] != place[:3]:
        return False
    if entry.path.endswith("/"):
        return place.path.startswith(entry.path)
    return place.path == entry.path or place.path.startswith(entry.path + "/")
