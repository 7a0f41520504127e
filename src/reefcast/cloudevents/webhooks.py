"""The deliveries of one subscription to its sink, without I/O: what may be sent when, and what an
answer means.

    UNPROVED --Validate--> PROVING --allowed--> READY --410--> ENDED
        ^                     |
        +----not allowed------+        (a callback makes it READY, too)

Rules
-----
- Nothing is delivered before the sink has permitted it (OPTIONS, section 4), unless the handshake
  is switched off. It is asked again, later and later, until it does. Status codes mean nothing in
  this, as the standard says.
- One request at a time, and no more a minute than `WebHook-Allowed-Rate` says.
- 2xx: delivered. 410: the subscription ends. 429, and 503 with `Retry-After`: nothing is sent
  before then, and the event is sent again, which counts as no attempt. 400, 413, 415, 422 and
  redirects, which are never followed: the event is not sent again. Everything else, no answer
  included, is a failed attempt: the sink is left alone for a while, longer each time, and the event
  goes back to its session until then; the session makes it a dead letter after its last attempt.

The standard demands HTTPS and a token; here whoever lists the allowed sinks decides on the first
(`sinks`), and who subscribes on the second.

Source: HTTP 1.1 Web Hooks for Event Delivery 1.0.2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from enum import Enum
from random import Random
from typing import NamedTuple

from reefcast.cloudevents.events import CloudEvent
from reefcast.cloudevents.http_modes import encode_binary
from reefcast.cloudevents.json_format import STRUCTURED_TYPE, encode_event
from reefcast.cloudevents.subscriptions import Subscription
from reefcast.sessions.messages import MOST_DELAY_S
from reefcast.timing import Backoff

ORIGIN, CALLBACK, RATE = (
    "WebHook-Request-Origin",
    "WebHook-Request-Callback",
    "WebHook-Request-Rate",
)
ALLOWED_ORIGIN, ALLOWED_RATE = "webhook-allowed-origin", "webhook-allowed-rate"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
LONGEST_PROOF_PAUSE_S = 3600.0
WRONG = frozenset((400, 413, 415, 422))
"""Answers that say that the event itself is wrong for this sink."""
TOO_MANY, UNAVAILABLE, GONE = 429, 503, 410


class Phase(Enum):
    """Where the deliveries of a subscription are; see the module's docstring."""

    UNPROVED = "unproved"
    PROVING = "proving"
    READY = "ready"
    ENDED = "ended"


class Step(Enum):
    """What to do now: ask the sink for its permission, send an event, or wait."""

    VALIDATE = "validate"
    SEND = "send"
    WAIT = "wait"
    END = "end"


class Verdict(Enum):
    """What became of an event: it is delivered; it is sent again as soon as something may be sent;
    an attempt failed; it is wrong for this sink for ever; the sink wants nothing more."""

    DELIVERED = "delivered"
    HELD = "held"
    FAILED = "failed"
    REFUSED = "refused"
    GONE = "gone"


class Permission(NamedTuple):
    """What a sink permits: so many requests a minute, 0: any number."""

    per_minute: int


class Request(NamedTuple):
    """A request to a sink."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes


class Webhook:
    """`origin`: the name that this broker asks permission for; `permission`: what the sink permits
    already, None if it must be asked; `rng`: draws the pauses."""

    def __init__(self, origin: str, permission: Permission | None, rng: Random) -> None:
        self._origin = origin
        self._phase = Phase.UNPROVED
        self._not_before = -math.inf
        self._interval_s = 0.0
        self._proofs = Backoff(FIRST_PAUSE_S, LONGEST_PROOF_PAUSE_S, rng)
        self._pauses = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, rng)
        if permission is not None:
            self._permit(permission)

    def step(self, now: float) -> tuple[Step, float]:
        """Return what to do at `now`, and with `WAIT` until when, in seconds of its clock; `inf`:
        until something happens. `VALIDATE` is returned once for each request."""
        if self._phase is Phase.ENDED:
            return Step.END, math.inf
        if self._phase is Phase.PROVING:
            return Step.WAIT, math.inf
        if now < self._not_before:
            return Step.WAIT, self._not_before
        if self._phase is Phase.UNPROVED:
            self._phase = Phase.PROVING
            return Step.VALIDATE, now
        return Step.SEND, now

    # --- the handshake ----------------------------------------------------------------------------

    def validated(self, headers: Mapping[str, str], now: float) -> Permission | None:
        """Handle the answer to a validation request, whatever its status; return the permission, if
        it is one. `headers`: by their names in small letters."""
        allowed = headers.get(ALLOWED_ORIGIN, "").strip()
        if self._phase is not Phase.PROVING:
            return None
        if allowed != "*" and allowed.lower() != self._origin.lower():
            self.not_validated(now)
            return None
        return self._permit(permission_of(headers.get(ALLOWED_RATE, "")))

    def not_validated(self, now: float) -> None:
        """Handle that a validation request had no answer, or one that permits nothing."""
        if self._phase is Phase.PROVING:
            self._phase = Phase.UNPROVED
            self._not_before = now + self._proofs.pause_s()

    def called_back(self, rate: str) -> Permission:
        """Handle the callback by which a sink permits deliveries later. `rate`: its header
        `WebHook-Allowed-Rate`, or ""."""
        return self._permit(permission_of(rate))

    def _permit(self, permission: Permission) -> Permission:
        if self._phase is not Phase.ENDED:
            self._phase = Phase.READY
            self._not_before = -math.inf
        self._interval_s = 60.0 / permission.per_minute if permission.per_minute else 0.0
        return permission

    # --- deliveries -------------------------------------------------------------------------------

    def sending(self, now: float) -> None:
        """Note that an event is sent now."""
        self._not_before = now + self._interval_s

    def answered(
        self, status: int, headers: Mapping[str, str], now: float, utc_s: float
    ) -> tuple[Verdict, float]:
        """Handle the answer to a delivery; return what became of the event, and after how many
        seconds it may be handed out again if the attempt failed. `utc_s`: seconds UTC at `now`."""
        if 200 <= status < 300:
            self._pauses.reset()
            return Verdict.DELIVERED, 0.0
        if status == GONE:
            self._phase = Phase.ENDED
            return Verdict.GONE, 0.0
        if status in WRONG or 300 <= status < 400:
            return Verdict.REFUSED, 0.0
        later_s = retry_after_s(headers.get("retry-after", ""), utc_s)
        if later_s is None:
            return self._failed(now, held=status == TOO_MANY)
        self._pause(now, later_s)
        held = status in (TOO_MANY, UNAVAILABLE)
        return (Verdict.HELD if held else Verdict.FAILED), later_s

    def unanswered(self, now: float) -> tuple[Verdict, float]:
        """Handle that a delivery had no answer; return as `answered`."""
        return self._failed(now, held=False)

    def _failed(self, now: float, *, held: bool) -> tuple[Verdict, float]:
        pause_s = self._pauses.pause_s()
        self._pause(now, pause_s)
        return (Verdict.HELD if held else Verdict.FAILED), pause_s

    def _pause(self, now: float, seconds: float) -> None:
        self._not_before = max(self._not_before, now + seconds)


def permission_of(rate: str) -> Permission:
    """Return the permission that a header `WebHook-Allowed-Rate` says. One that is missing, `*`, or
    cannot be read, limits nothing: the sink still has 429."""
    rate = rate.strip()
    return Permission(int(rate) if rate.isascii() and rate.isdigit() and len(rate) < 10 else 0)


def retry_after_s(value: str, utc_s: float) -> float | None:
    """Return after how many seconds a header `Retry-After` allows another attempt (RFC 9110,
    section 10.2.3); None if it says nothing."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:12]), MOST_DELAY_S)
    try:
        at = parsedate_to_datetime(value)
        return min(max(at.timestamp() - utc_s, 0.0), MOST_DELAY_S)
    except (TypeError, ValueError, OverflowError):
        return None


# --- requests ------------------------------------------------------------------------------------


def validation_of(subscription: Subscription, origin: str, callback: str) -> Request:
    """Return the request that asks a sink for its permission. `callback`: the URL by which it may
    permit it later, "" if there is none."""
    headers = {ORIGIN: origin}
    if callback:
        headers[CALLBACK] = callback
    if subscription.config.rate:
        headers[RATE] = str(subscription.config.rate)
    return Request("OPTIONS", subscription.sink, headers, b"")


def delivery_of(subscription: Subscription, event: CloudEvent, origin: str) -> Request:
    """Return the request that delivers an event. Webhooks have a body with a Content-Type (section
    2.1), so an event without data, or with data of which nothing is said, is structured."""
    if subscription.config.contentmode == "binary" and event.data and event.data_type:
        pairs, body = encode_binary(event)
        headers = dict(pairs)
    else:
        headers, body = {"content-type": STRUCTURED_TYPE}, encode_event(event)
    headers |= subscription.headers | {ORIGIN: origin}
    return Request(subscription.protocolsettings.method, subscription.sink, headers, body)
