"""Webhooks: the handshake, what answers mean, and when something may be sent."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.cloudevents.events import CloudEvent
from reefcast.cloudevents.http_modes import decode_message
from reefcast.cloudevents.subscriptions import Config, Credential, ProtocolSettings, Subscription
from reefcast.cloudevents.webhooks import (
    LONGEST_PAUSE_S,
    Permission,
    Step,
    Verdict,
    Webhook,
    delivery_of,
    permission_of,
    retry_after_s,
    validation_of,
)

UTC_S = 1_445_412_480.0  # Wed, 21 Oct 2015 07:28:00 GMT
ANY = Permission(0)
MINIMAL = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def webhook(permission: Permission | None = ANY) -> Webhook:
    return Webhook("reef.example", permission, Random(1))


def test_nothing_is_sent_before_the_sink_permits_it() -> None:
    hook = webhook(None)
    assert hook.step(0.0) == (Step.VALIDATE, 0.0)
    assert hook.step(0.0) == (Step.WAIT, math.inf)  # the answer is awaited
    assert hook.validated({}, 1.0) is None  # whatever the status was
    step, until = hook.step(1.0)
    assert step is Step.WAIT and 1.5 <= until <= 2.0
    assert hook.step(until)[0] is Step.VALIDATE
    assert hook.validated({"webhook-allowed-origin": "other.example"}, until) is None
    assert hook.step(until + 100)[0] is Step.VALIDATE
    allowed = {"webhook-allowed-origin": "REEF.example", "webhook-allowed-rate": "120"}
    assert hook.validated(allowed, 200.0) == Permission(120)
    assert hook.step(200.0) == (Step.SEND, 200.0)


def test_a_callback_permits_later() -> None:
    hook = webhook(None)
    hook.step(0.0)
    hook.not_validated(0.0)
    assert hook.called_back("60") == Permission(60)
    assert hook.step(0.0)[0] is Step.SEND
    hook.step(0.0)
    assert hook.validated({"webhook-allowed-origin": "*"}, 1.0) is None  # an answer that is late


def test_the_rate_that_is_allowed() -> None:
    hook = webhook(Permission(120))
    sent = []
    now = 0.0
    while len(sent) < 5:
        step, until = hook.step(now)
        if step is Step.SEND:
            hook.sending(now)
            assert hook.answered(204, {}, now, UTC_S)[0] is Verdict.DELIVERED
            sent.append(now)
        else:
            now = until
    assert sent == [0.0, 0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize(
    ("status", "headers", "verdict", "pause"),
    [
        *((status, {}, Verdict.DELIVERED, (0, 0)) for status in (200, 201, 202, 204, 299)),
        *((status, {}, Verdict.REFUSED, (0, 0)) for status in (301, 302, 307, 400, 413, 415, 422)),
        *((status, {}, Verdict.FAILED, (0.5, 1)) for status in (401, 403, 404, 405, 408, 500, 599)),
        (503, {}, Verdict.FAILED, (0.5, 1)),
        (503, {"retry-after": "120"}, Verdict.HELD, (120, 120)),
        (429, {"retry-after": "7"}, Verdict.HELD, (7, 7)),
        (429, {"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, Verdict.HELD, (30, 30)),
        (429, {}, Verdict.HELD, (0.5, 1)),
        (500, {"retry-after": "9"}, Verdict.FAILED, (9, 9)),
    ],
)
def test_what_answers_mean(
    status: int, headers: dict[str, str], verdict: Verdict, pause: tuple[float, float]
) -> None:
    hook = webhook()
    found, pause_s = hook.answered(status, headers, 10.0, UTC_S)
    assert found is verdict
    assert pause[0] <= pause_s <= pause[1]
    step, until = hook.step(10.0)
    assert (step is Step.WAIT) == (pause_s > 0)
    assert not pause_s or until == 10.0 + pause_s


def test_gone_ends_the_deliveries() -> None:
    hook = webhook()
    assert hook.answered(410, {}, 0.0, UTC_S) == (Verdict.GONE, 0.0)
    assert hook.step(0.0)[0] is Step.END
    hook.called_back("")
    assert hook.step(9.0)[0] is Step.END


def test_pauses_grow_and_begin_anew() -> None:
    hook, pauses = webhook(), []
    for _ in range(12):
        pauses.append(hook.unanswered(0.0)[1])
    for at, pause_s in enumerate(pauses):
        whole = min(2.0**at, LONGEST_PAUSE_S)
        assert whole / 2 <= pause_s <= whole
    hook.answered(200, {}, 0.0, UTC_S)
    assert hook.unanswered(0.0)[1] <= 1.0


@given(
    st.lists(st.tuples(st.sampled_from((200, 301, 404, 415, 429, 500, 503, 0)), st.booleans())),
    st.integers(0, 600),
)
def test_it_never_sends_too_early_and_never_stands_still(
    answers: list[tuple[int, bool]], per_minute: int
) -> None:
    hook, now, earliest = webhook(Permission(per_minute)), 0.0, 0.0
    for status, says_when in answers:
        step, until = hook.step(now)
        if step is Step.WAIT:
            assert now < until < math.inf
            now = until
            step, _ = hook.step(now)
        assert step is Step.SEND
        assert now >= earliest
        hook.sending(now)
        earliest = now + (60 / per_minute if per_minute else 0)
        headers = {"retry-after": "50"} if says_when else {}
        if not status:
            _, pause_s = hook.unanswered(now)
        else:
            _, pause_s = hook.answered(status, headers, now, UTC_S)
        earliest = max(earliest, now + pause_s)


@pytest.mark.parametrize(
    ("text", "rate"), [("*", 0), ("", 0), (" 60 ", 60), ("-5", 0), ("٣", 0), ("9" * 50, 0)]
)
def test_rates(text: str, rate: int) -> None:
    assert permission_of(text) == Permission(rate)


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.5", "٣", "Wed, 99 Oct 2015 07:28:30 GMT"])
def test_retry_after_that_says_nothing(text: str) -> None:
    assert retry_after_s(text, UTC_S) is None


def test_retry_after_in_the_past_or_far_away() -> None:
    assert retry_after_s("Wed, 21 Oct 2015 07:27:00 GMT", UTC_S) == 0
    assert retry_after_s("9" * 30, UTC_S) == 366 * 86_400


SUBSCRIPTION = Subscription(
    id="s1",
    protocol="HTTP",
    sink="https://sink.example/hook?x=1",
    config=Config(rate=90),
    protocolsettings=ProtocolSettings(headers={"X-Key": "k"}, method="PUT"),
    sinkcredential=Credential(credentialtype="ACCESSTOKEN", accesstoken="abc"),
)


def test_requests() -> None:
    asked = validation_of(SUBSCRIPTION, "reef.example", "https://reef.example/cb")
    assert asked.method == "OPTIONS" and asked.url == SUBSCRIPTION.sink and asked.body == b""
    assert asked.headers == {
        "WebHook-Request-Origin": "reef.example",
        "WebHook-Request-Callback": "https://reef.example/cb",
        "WebHook-Request-Rate": "90",
    }
    event = CloudEvent({**MINIMAL, "datacontenttype": "application/json"}, b"[1]")
    request = delivery_of(SUBSCRIPTION, event, "reef.example")
    assert (request.method, request.url, request.body) == ("PUT", SUBSCRIPTION.sink, b"[1]")
    assert request.headers["Authorization"] == "Bearer abc"
    assert request.headers["X-Key"] == "k"
    assert request.headers["WebHook-Request-Origin"] == "reef.example"
    assert decode_message(request.headers.items(), request.body) == [event]


def test_a_request_always_has_a_body() -> None:
    event = CloudEvent(dict(MINIMAL))
    request = delivery_of(SUBSCRIPTION, event, "o")
    assert request.headers["content-type"] == "application/cloudevents+json"
    assert decode_message(request.headers.items(), request.body) == [event]
