"""From which pages a browser may send requests (Fetch Standard, sections 3.2 and 4.8: CORS).

A page of the listener's own host may always; those of other origins only if the network file allows
them. So what another site's page sends is refused before it does anything.

Browsers name the origin of a page in each request that is no GET, or whose answer the page reads.
What a page gets as an image, a frame or a link names no origin, but says that it comes from
elsewhere (Fetch Metadata: `Sec-Fetch-Site`); a GET may acknowledge events, too. A program that is
no browser says neither."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import urlsplit

from reefcast.http.problems import refused

EVERYBODY = "*"
KEPT_S = 600
_HEADERS = "Authorization, Content-Type, Last-Event-ID"
_ELSEWHERE = ("cross-site", "same-site")
_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+(\s*,\s*[A-Za-z0-9!#$%&'*+.^_`|~-]+)*", re.ASCII)
_MOST_NAMES_CHARS = 1_000


class Origins:
    """The origins of pages that may send requests. `allowed`: as in the network file, such as
    `https://app.example`; `*`: all."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed: Collection[str] = frozenset(each.rstrip("/").lower() for each in allowed)

    def headers(self, origin: str | None) -> dict[str, str]:
        """Return the headers that let a page of an allowed origin read the answer."""
        if not self._allowed:
            return {}
        vary = {"Vary": "Origin"}
        if origin is None or not self._allows(origin):
            return vary
        shown = {"Access-Control-Expose-Headers": "Retry-After, Location"}
        return {**vary, **shown, "Access-Control-Allow-Origin": origin}

    def check(self, origin: str | None, host: str) -> None:
        """Raise `HttpError` if a page of this origin may send nothing to a listener that the
        request names as `host` (its header Host)."""
        if origin is None or self._allows(origin):
            return
        own = _host_in(origin)  # "" for "null", which is no page of a listener without a name
        if own and own == host.strip().lower():
            return
        raise refused(
            403,
            "origin",
            f"pages of {origin[:80]} may send nothing here: name their origin in allow_origins of "
            "the [[listener]]",
            where="header Origin",
        )

    def check_site(self, origin: str | None, site: str) -> None:
        """Raise `HttpError` for a request that another site's page sends without an origin. `site`:
        its header Sec-Fetch-Site."""
        if origin is None and site in _ELSEWHERE and EVERYBODY not in self._allowed:
            raise refused(
                403,
                "origin",
                "a page of another origin sends this as an image, a frame or a link, which may do "
                "nothing here: have it use fetch(), EventSource or WebSocket, and name its origin "
                "in allow_origins of the [[listener]]",
                where="header Sec-Fetch-Site",
            )

    def _allows(self, origin: str) -> bool:
        return EVERYBODY in self._allowed or origin.lower() in self._allowed

    def preflight(self, headers: Mapping[str, str], methods: Iterable[str]) -> dict[str, str]:
        """Return the headers of the answer to OPTIONS; `headers`: of the request."""
        allowed = ", ".join((*methods, "OPTIONS"))
        found = {"Allow": allowed, **self.headers(headers.get("Origin"))}
        if "Access-Control-Allow-Origin" in found:
            asked = headers.get("Access-Control-Request-Headers", "")
            named = len(asked) <= _MOST_NAMES_CHARS and _NAMES.fullmatch(asked)
            found["Access-Control-Allow-Methods"] = allowed
            found["Access-Control-Allow-Headers"] = asked if named else _HEADERS
            found["Access-Control-Max-Age"] = str(KEPT_S)
        return found


def _host_in(origin: str) -> str:
    """Return host and port of an origin, as a header Host names them; "" if there are none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
