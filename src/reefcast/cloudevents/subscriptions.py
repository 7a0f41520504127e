"""Subscriptions as the CloudEvents Subscriptions API describes them, and what each is here.

The only protocol is `HTTP`. Names are those of the API's OpenAPI document, all in lower case; its
text writes some with capitals (`sinkCredential`), which are understood, too. `config` has these
keys, all optional:

- `contentmode`: "binary" (the default) or "structured".
- `attempts`: how often an event is sent before it becomes a dead letter, from 1 (default 10).
- `rate`: how many requests a minute the sink is asked to permit (default: it is not asked).

Secrets of `sinkcredential` are never told again. An access token that has expired is sent all the
same: the sink decides. REFRESHTOKEN is refused: nobody here would use the refresh token.

Source: CloudEvents Subscriptions API, working draft ("0.1-wip"), sections 3.2.1 to 3.2.5."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from reefcast.cloudevents.context import is_uri_reference, is_value, time_us_of
from reefcast.cloudevents.filters import (
    AllOf,
    AnyOf,
    Condition,
    SubscriptionError,
    read_filters,
)
from reefcast.cloudevents.sinks import AllowedSinks, SinkError

SESSION = "cloudevents:"
"""How the names of subscriptions' durable sessions begin."""
METHODS = ("POST", "PUT", "PATCH")
MOST_HEADERS = 50
MOST_TYPES = 100
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FIELD = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?|")
_OURS = frozenset(
    (
        *(
            "authorization",
            "proxy-authorization",
            "host",
            "content-type",
            "content-length",
            "content-encoding",
            "transfer-encoding",
        ),
        *("connection", "keep-alive", "te", "trailer", "upgrade", "expect", "proxy-connection"),
        *("webhook-request-origin", "webhook-request-rate", "webhook-request-callback"),
    )
)
"""Headers that deliveries have of themselves; for `authorization` there is `sinkcredential`."""


class Config(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """See the module's docstring. `rate`: 0: the sink is not asked."""

    contentmode: Literal["binary", "structured"] = "binary"
    attempts: int = 10
    rate: int = 0


class ProtocolSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How requests to the sink look: further headers, and their method."""

    headers: dict[str, str] = {}
    method: str = "POST"


class Credential(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a delivery shows to the sink: a user and a password (PLAIN), or a token."""

    credentialtype: Literal["PLAIN", "ACCESSTOKEN"]
    identifier: str = ""
    secret: str = ""
    accesstoken: str = ""
    accesstokenexpiresutc: str = ""
    accesstokentype: str = "bearer"

    @property
    def authorization(self) -> str:
        """The header Authorization."""
        if self.credentialtype == "PLAIN":
            pair = f"{self.identifier}:{self.secret}".encode()
            return f"Basic {b64encode(pair).decode()}"
        kind = "Bearer" if self.accesstokentype.lower() == "bearer" else self.accesstokentype
        return f"{kind} {self.accesstoken}"


class Subscription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subscription, valid; as JSON it is what its session keeps. `id`: "" as long as it has
    none."""

    id: str = ""
    source: str = ""
    types: tuple[str, ...] = ()
    config: Config = Config()
    filters: tuple[dict[str, Any], ...] = ()
    sink: str
    sinkcredential: Credential | None = None
    protocol: Literal["HTTP"]
    protocolsettings: ProtocolSettings = ProtocolSettings()

    @property
    def wanted(self) -> AllOf:
        """Which events it is for: `source`, `types` and `filters` together."""
        found: list[Any] = []
        if self.source:
            found.append(Condition("source", "exact", self.source))
        if self.types:
            found.append(AnyOf(tuple(Condition("type", "exact", each) for each in self.types)))
        return AllOf((*found, *read_filters(list(self.filters)).filters))

    @property
    def headers(self) -> dict[str, str]:
        """The headers that each delivery has for this subscription."""
        headers = dict(self.protocolsettings.headers)
        if self.sinkcredential is not None:
            headers["Authorization"] = self.sinkcredential.authorization
        return headers


_MEMBERS = {name.lower(): name for name in Subscription.__struct_fields__}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def kept_text(subscription: Subscription) -> str:
    """Return what a session keeps of a subscription, secrets included."""
    return _encode(subscription).decode()


def kept_subscription(text: str, id: str, allowed: AllowedSinks) -> Subscription:
    """Return the subscription that a session keeps. It is checked like a proposed one: its user may
    write whatever he likes into his session, and the operator may have changed the allowed sinks.
    Raises `SubscriptionError`."""
    try:
        document = _decode(text)
    except msgspec.DecodeError as error:
        raise SubscriptionError("subscription", f"cannot be read: {error}") from None
    return msgspec.structs.replace(read_subscription(document, allowed), id=id)


def told(subscription: Subscription) -> dict[str, Any]:
    """Return a subscription as the API tells it: with what stands there by default, without
    secrets."""
    settings = subscription.protocolsettings
    said: dict[str, Any] = {"id": subscription.id}
    if subscription.source:
        said["source"] = subscription.source
    if subscription.types:
        said["types"] = list(subscription.types)
    said["config"] = msgspec.structs.asdict(subscription.config)
    if subscription.filters:
        said["filters"] = list(subscription.filters)
    said["sink"] = subscription.sink
    if subscription.sinkcredential is not None:
        kind = subscription.sinkcredential.credentialtype
        said["sinkcredential"] = {"credentialtype": kind}
    said["protocol"] = subscription.protocol
    said["protocolsettings"] = {"method": settings.method, "headers": dict(settings.headers)}
    return said


# --- reading -------------------------------------------------------------------------------------


def read_subscription(
    document: object, allowed: AllowedSinks, former: Subscription | None = None
) -> Subscription:
    """Return the subscription that somebody proposes, a JSON object. `allowed`: the sinks;
    `former`: the subscription in whose place it comes, whose secrets stay if the proposal has the
    same sink and says no others. Raises `SubscriptionError`."""
    given = _lower("subscription", document)
    unknown = [name for name in given if name not in _MEMBERS]
    if unknown:
        raise SubscriptionError(
            unknown[0][:100], f"there is no such member; there are {', '.join(_MEMBERS)}"
        )
    sink = _sink_in(given, allowed)
    read = Subscription(
        id=former.id if former is not None else "",
        source=_source_in(given),
        types=_types_in(given),
        config=_config_in(given),
        filters=_filters_in(given),
        sink=sink,
        protocol="HTTP",
        sinkcredential=_credential_in(given, former, sink),
        protocolsettings=_settings_in(given),
    )
    if former is not None and given.get("id") not in (None, former.id):
        raise SubscriptionError("id", f"must be {former.id!r}, or left out")
    return read


def _lower(where: str, document: object) -> dict[str, Any]:
    """Return the members of an object by their names in lower case."""
    if not isinstance(document, dict):
        raise SubscriptionError(where, "must be an object")
    lower = {str(name).lower(): value for name, value in document.items()}
    if len(lower) < len(document):
        raise SubscriptionError(where, "has a member twice, in capitals and in small letters")
    return lower


def _sink_in(given: Mapping[str, Any], allowed: AllowedSinks) -> str:
    protocol = given.get("protocol")
    if protocol != "HTTP":
        raise SubscriptionError("protocol", "must be 'HTTP', the only one that is served here")
    sink = given.get("sink")
    if not isinstance(sink, str) or not sink:
        raise SubscriptionError("sink", "must be the URL to which events are delivered")
    try:
        allowed.check(sink)
    except SinkError as error:
        raise SubscriptionError("sink", str(error)) from None
    return sink


def _source_in(given: Mapping[str, Any]) -> str:
    source = given.get("source")
    if source is None:
        return ""
    if not isinstance(source, str) or not source or not is_uri_reference(source):
        raise SubscriptionError("source", "must be a URI-reference (RFC 3986) that is not empty")
    return source


def _types_in(given: Mapping[str, Any]) -> tuple[str, ...]:
    types = given.get("types")
    if types is None:
        return ()
    if not isinstance(types, list) or len(types) > MOST_TYPES:
        raise SubscriptionError("types", f"must be a list of at most {MOST_TYPES} texts")
    for at, each in enumerate(types):
        if not isinstance(each, str) or not each or not is_value(each):
            raise SubscriptionError(f"types[{at}]", "must be the type of a CloudEvent")
    return tuple(types)


def _filters_in(given: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    filters = given.get("filters")
    if filters is None:
        return ()
    read_filters(filters)
    return tuple(filters)


def _config_in(given: Mapping[str, Any]) -> Config:
    config = given.get("config")
    if config is None:
        return Config()
    if not isinstance(config, dict):
        raise SubscriptionError("config", "must be an object")
    for name in config:
        if name not in Config.__struct_fields__:
            known = ", ".join(Config.__struct_fields__)
            raise SubscriptionError(
                f"config.{name}"[:100], f"there is no such key; there are {known}"
            )
    mode = config.get("contentmode", "binary")
    if mode not in ("binary", "structured"):
        raise SubscriptionError("config.contentmode", "must be 'binary' or 'structured'")
    return Config(
        contentmode=mode,
        attempts=_number(config, "attempts", Config().attempts, 1, 1000),
        rate=_number(config, "rate", 0, 1, 1_000_000),
    )


def _number(config: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    """Return a number, which may be a text: the values of the OpenAPI document are."""
    value: object = config.get(name, default)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
    if value is default:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SubscriptionError(f"config.{name}", f"must be a number from {least} to {most}")
    return value


def _settings_in(given: Mapping[str, Any]) -> ProtocolSettings:
    if given.get("protocolsettings") is None:
        return ProtocolSettings()
    settings = _lower("protocolsettings", given["protocolsettings"])
    for name in settings:
        if name not in ("headers", "method"):
            raise SubscriptionError(
                f"protocolsettings.{name}"[:100], "there are headers and method, and no others"
            )
    method = settings.get("method", "POST")
    if method not in METHODS:
        raise SubscriptionError("protocolsettings.method", f"must be one of {', '.join(METHODS)}")
    return ProtocolSettings(headers=_headers_in(settings.get("headers", {})), method=method)


def _headers_in(headers: object) -> dict[str, str]:
    where = "protocolsettings.headers"
    if not isinstance(headers, dict) or len(headers) > MOST_HEADERS:
        raise SubscriptionError(where, f"must be an object of at most {MOST_HEADERS} texts")
    for name, value in headers.items():
        at = f"{where}.{name}"[:150]
        if _TOKEN.fullmatch(name) is None:
            raise SubscriptionError(at, "this is no name of a header")
        if name.lower() in _OURS or name.lower().startswith("ce-"):
            raise SubscriptionError(at, "deliveries set this header themselves")
        if not isinstance(value, str) or len(value) > 8000 or _FIELD.fullmatch(value) is None:
            raise SubscriptionError(at, "must be a text in printable ASCII")
    return dict(headers)


def _credential_in(
    given: Mapping[str, Any], former: Subscription | None, sink: str
) -> Credential | None:
    if given.get("sinkcredential") is None:
        return None
    said = _lower("sinkcredential", given["sinkcredential"])
    where, kind = "sinkcredential.credentialtype", said.get("credentialtype")
    if kind not in ("PLAIN", "ACCESSTOKEN"):
        raise SubscriptionError(where, "must be 'PLAIN' or 'ACCESSTOKEN'")
    kept = former.sinkcredential if former is not None and former.sink == sink else None
    if list(said) == ["credentialtype"] and kept is not None and kept.credentialtype == kind:
        return kept
    wanted = (
        ("identifier", "secret") if kind == "PLAIN" else ("accesstoken", "accesstokenexpiresutc")
    )
    for name in said:
        if name not in (
            *wanted,
            "credentialtype",
            *(["accesstokentype"] if kind != "PLAIN" else []),
        ):
            raise SubscriptionError(f"sinkcredential.{name}"[:100], f"is no part of {kind}")
    for name in wanted:
        value = said.get(name)
        if not isinstance(value, str) or not value or len(value) > 8000 or not value.isprintable():
            raise SubscriptionError(f"sinkcredential.{name}", "must be a text that is not empty")
    if kind == "PLAIN" and ":" in said["identifier"]:
        raise SubscriptionError("sinkcredential.identifier", "must not contain ':' (RFC 7617)")
    if kind != "PLAIN":
        _check_token(said)
    return Credential(**said)


def _check_token(said: Mapping[str, Any]) -> None:
    if time_us_of(said["accesstokenexpiresutc"]) is None:
        raise SubscriptionError(
            "sinkcredential.accesstokenexpiresutc", "must be a timestamp (RFC 3339)"
        )
    if not said["accesstoken"].isascii():
        raise SubscriptionError("sinkcredential.accesstoken", "must be in ASCII")
    kind = said.get("accesstokentype", "bearer")
    if not isinstance(kind, str) or _TOKEN.fullmatch(kind) is None:
        raise SubscriptionError(
            "sinkcredential.accesstokentype", "must be a token such as 'bearer'"
        )
