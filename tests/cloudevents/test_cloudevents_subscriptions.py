"""Subscriptions of the API: what is read, kept and told, what is refused, and where they lead."""

from __future__ import annotations

from typing import Any

import pytest

from reefcast.cloudevents.filters import SubscriptionError
from reefcast.cloudevents.sinks import AllowedSinks, SinkError
from reefcast.cloudevents.subscriptions import (
    kept_subscription,
    kept_text,
    read_subscription,
    told,
)
from reefcast.errors import ConfigurationError

ALLOWED = AllowedSinks(["sink.example", "http://10.0.0.5:8080/hooks"])
SMALL: dict[str, Any] = {"protocol": "HTTP", "sink": "https://sink.example/a"}
FULL: dict[str, Any] = {
    "id": "ignored",
    "source": "/sensors",
    "types": ["a.b", "c"],
    "config": {"contentmode": "structured", "attempts": "3", "rate": 60},
    "filters": [{"prefix": {"subject": "x"}}, {"not": {"sql": "n > 5"}}],
    "sink": "https://sink.example/a",
    "sinkCredential": {"credentialType": "PLAIN", "identifier": "u", "secret": "p"},
    "protocol": "HTTP",
    "protocolsettings": {"method": "PUT", "headers": {"X-A": "b"}},
}


def test_what_is_read_is_kept_and_told_without_secrets() -> None:
    read = read_subscription(FULL, ALLOWED)
    assert read.id == ""  # the manager gives it one
    assert kept_subscription(kept_text(read), "", ALLOWED) == read
    assert kept_subscription(kept_text(read), "s1", ALLOWED).id == "s1"
    for text in ("", "[]", kept_text(read).replace("sink.example", "evil.example")):
        with pytest.raises(SubscriptionError):
            kept_subscription(text, "s1", ALLOWED)
    said = told(read)
    assert said["sinkcredential"] == {"credentialtype": "PLAIN"}
    assert said["config"] == {"contentmode": "structured", "attempts": 3, "rate": 60}
    assert {n: said[n] for n in ("source", "types", "filters", "sink", "protocol")} == {
        n: FULL[n] for n in ("source", "types", "filters", "sink", "protocol")
    }
    assert read.headers == {"X-A": "b", "Authorization": "Basic dTpw"}
    assert told(read_subscription(SMALL, ALLOWED))["protocolsettings"] == {
        "method": "POST",
        "headers": {},
    }


def test_a_change_keeps_secrets_that_it_does_not_say_for_the_same_sink() -> None:
    former = read_subscription(FULL, ALLOWED)
    changed = FULL | {"id": "", "sinkcredential": {"credentialtype": "PLAIN"}, "types": ["z"]}
    del changed["sinkCredential"]
    assert read_subscription(changed, ALLOWED, former).headers == former.headers
    without = {n: v for n, v in changed.items() if n != "sinkcredential"}
    assert read_subscription(without, ALLOWED, former).sinkcredential is None
    for moved in (changed | {"sink": "https://sink.example/b"}, changed | {"id": "other"}):
        with pytest.raises(SubscriptionError):
            read_subscription(moved, ALLOWED, former)


def test_which_events_are_wanted() -> None:
    wanted = read_subscription(FULL, ALLOWED).wanted
    good = {"source": "/sensors", "type": "c", "subject": "xy", "n": 5}
    assert wanted.holds(good)
    for wrong in ({"source": "/s"}, {"type": "d"}, {"subject": "y"}, {"n": 6}):
        assert not wanted.holds(good | wrong)
    assert read_subscription(SMALL, ALLOWED).wanted.holds({})


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"protocol": "MQTT5"}, "protocol: must be 'HTTP'"),
        ({"protocol": None}, "protocol: must be 'HTTP'"),
        ({"sink": ""}, "sink: must be the URL"),
        ({"sink": "https://evil.example/"}, "sink: this broker must not deliver to"),
        ({"Sink": "https://sink.example"}, "subscription: has a member twice"),
        ({"filter": {}}, "filter: there is no such member"),
        ({"filters": [{"x": 1}]}, "filters[0].x: there is no such dialect"),
        ({"source": "a b"}, "source: must be a URI-reference"),
        ({"types": ["a", ""]}, "types[1]: must be the type"),
        ({"config": {"interval": 5}}, "config.interval: there is no such key"),
        ({"config": {"attempts": 0}}, "config.attempts: must be a number from 1"),
        ({"config": {"rate": True}}, "config.rate: must be a number"),
        ({"config": {"contentmode": "x"}}, "config.contentmode: must be"),
        ({"protocolsettings": {"method": "GET"}}, "protocolsettings.method: must be one of"),
        ({"protocolsettings": {"retries": 1}}, "protocolsettings.retries: there are"),
        ({"protocolsettings": {"headers": {"Host": "x"}}}, "deliveries set this header"),
        ({"protocolsettings": {"headers": {"ce-id": "x"}}}, "deliveries set this header"),
        ({"protocolsettings": {"headers": {"A": "x\r\nB: y"}}}, "must be a text in printable"),
        ({"protocolsettings": {"headers": {"A b": "x"}}}, "no name of a header"),
        ({"sinkcredential": {"credentialtype": "REFRESHTOKEN"}}, "must be 'PLAIN' or"),
        ({"sinkcredential": {"credentialtype": "PLAIN", "identifier": "u"}}, "secret: must be"),
        (
            {"sinkcredential": {"credentialtype": "PLAIN", "identifier": "u:v", "secret": "p"}},
            "must not contain ':'",
        ),
        (
            {
                "sinkcredential": {
                    "credentialtype": "ACCESSTOKEN",
                    "accesstoken": "t",
                    "accesstokenexpiresutc": "soon",
                }
            },
            "accesstokenexpiresutc: must be a timestamp",
        ),
    ],
)
def test_what_is_refused(members: dict[str, Any], words: str) -> None:
    with pytest.raises(SubscriptionError) as raised:
        read_subscription(SMALL | members, ALLOWED)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "sink",
    [
        *("https://sink.example", "https://SINK.example:443/any/path?q", "https://sink.example./x"),
        *("http://10.0.0.5:8080/hooks", "http://10.0.0.5:8080/hooks/a"),
    ],
)
def test_allowed_sinks(sink: str) -> None:
    ALLOWED.check(sink)


@pytest.mark.parametrize(
    "sink",
    [
        *("http://sink.example/", "https://sink.example:8443/", "https://a.sink.example/"),
        *("https://sink.example@evil.example/", "https://u:p@sink.example/", "//sink.example/"),
        *("https://sink.example.evil.example/", "https://evil.example/#sink.example"),
        *("https://sink.example\\@evil.example/", "ftp://sink.example/", "https:///x", "https://"),
        *("https://sink.example:0/", "https://[&]/", "https://[sink.example]/"),
        *("http://10.0.0.5:8080/", "http://10.0.0.5:8080/hooksX", "http://10.0.0.5/hooks"),
        *("http://10.0.0.5:8080/hooks/../x", "http://10.0.0.5:8080/hooks/%2E%2e%2fx"),
        *("http://10.0.0.5:99999/hooks", "http://127.0.0.1/", "http://[::1]/", "http://localhost/"),
        *(
            "http://169.254.169.254/latest",
            "https://sink.example/" + "a" * 2000,
            "file:///etc/passwd",
        ),
    ],
)
def test_sinks_that_are_not_allowed(sink: str) -> None:
    with pytest.raises(SinkError):
        ALLOWED.check(sink)


def test_without_a_list() -> None:
    here = AllowedSinks([], loopback=True)
    for sink in ("http://127.0.0.1:8000/x", "http://localhost/", "http://[::1]:9/"):
        here.check(sink)
        with pytest.raises(SinkError, match="are none"):
            AllowedSinks([]).check(sink)
    for sink in ("http://2130706433/", "http://127.0.0.1.evil.example/", "http://0.0.0.0/"):
        with pytest.raises(SinkError):
            here.check(sink)


@pytest.mark.parametrize("entry", ["", "ftp://a", "https://u@a", "a b"])
def test_a_list_that_is_wrong(entry: str) -> None:
    with pytest.raises(ConfigurationError, match="sinks:"):
        AllowedSinks([entry])
