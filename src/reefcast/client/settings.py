"""The options of a client."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import getdoc
from textwrap import fill
from typing import Annotated, Any, NamedTuple, ParamSpec, TypedDict, cast, get_type_hints

from reefcast.errors import ConfigurationError, LocalError
from reefcast.model.messages import MOST_ORDER_S
from reefcast.model.publication import PublicationId
from reefcast.model.wire import BROKER_PING_S, QUEUE_POLICIES
from reefcast.security.credentials import TokenSource, credentials_of

P = ParamSpec("P")
OnDeliveries = Callable[[list[bytes]], None]
OnRefused = Callable[[PublicationId, str], None]
OnChange = Callable[[], None]
OnDropped = Callable[[int], None]
_log = logging.getLogger("reefcast.client")


class Option(NamedTuple):
    """The default of an option, and its meaning; `{}` stands for the default."""

    default: Any
    meaning: str


class Options(TypedDict, total=False):
    """The keywords of `connect`, all optional. A name that ends in `_s` is a time in seconds.

    OPTIONS

    An error in one of the other callbacks is logged (logger "reefcast.client"), and so are lost
    connections and new ones.
    """

    name: Annotated[
        str,
        Option(
            "client",
            "the readable part of the client's id (default: {}); a random part follows it.",
        ),
    ]
    outbox: Annotated[
        str,
        Option(
            "",
            "the path of a file in which publications are until every durable session that they "
            "are for has them; a program that died goes on with it (default: none). All of them "
            "are confirmed, and `publish` returns when they are in the file.",
        ),
    ]
    authority: Annotated[
        str,
        Option(
            "",
            "the file (PEM) of the authority that a broker must have its certificate from, for "
            "`reefcast+tls://` URLs (default: $REEFCAST_AUTHORITY, or the authorities of the "
            "operating system).",
        ),
    ]
    certificate: Annotated[
        str,
        Option(
            "",
            "the file (PEM) of the certificate that says who this client is (default: "
            "$REEFCAST_CERTIFICATE, or none).",
        ),
    ]
    key: Annotated[
        str,
        Option(
            "",
            "the file (PEM) of its private key (default: $REEFCAST_KEY, or the file of the "
            "certificate).",
        ),
    ]
    server_name: Annotated[
        str,
        Option(
            "",
            "the name that the broker's certificate must have (default: $REEFCAST_SERVER_NAME, or "
            "the host of the URL).",
        ),
    ]
    network: Annotated[
        str, Option("", "the network that the broker must belong to (default: any).")
    ]
    user: Annotated[
        str,
        Option(
            "",
            "the user who the client is, with `password` or `password_file`. Without any of these, "
            "a token or a key, the environment says who it is (`REEFCAST_USER` and others).",
        ),
    ]
    password: Annotated[
        str, Option("", "the user's password; it is sent only where nobody else can read it.")
    ]
    password_file: Annotated[
        str, Option("", "the path of a file with the password, read at each connection.")
    ]
    token: Annotated[
        str | TokenSource,
        Option(
            "",
            "a token (JWT) that says who the client is, or a function that returns one, at once or "
            "as a coroutine: it is called for each connection, and before a token expires. After "
            "an `OSError` in it the client tries again.",
        ),
    ]
    token_file: Annotated[
        str, Option("", "the path of a file with the token, read whenever one is needed.")
    ]
    network_key: Annotated[
        str,
        Option(
            "", "the path of the file with the network's key, for a client that is a part of it."
        ),
    ]
    queue_limit: Annotated[
        int,
        Option(
            0,
            "how many events may wait at the broker for this client (default: the broker's).",
        ),
    ]
    queue_policy: Annotated[
        str,
        Option(
            "",
            'what the broker does when more come: "drop_oldest" (and report how many), "block" '
            "(make publishers wait, for `block_s` of its network file at most, then disconnect "
            'this client), or "disconnect" (this client ends with `SlowConsumerError`); default: '
            "the broker's.",
        ),
    ]
    local_queue_limit: Annotated[
        int,
        Option(
            1000,
            "how many events of a subscription may wait in the client until the program reads "
            "them ({}); then the client stops reading from the broker.",
        ),
    ]
    connect_timeout_s: Annotated[
        float,
        Option(5.0, "how long `connect` tries ({}); the addresses share this time."),
    ]
    reconnect_timeout_s: Annotated[
        float,
        Option(
            60.0,
            "how long the client tries to reconnect ({}) before everything that waits raises "
            "`ConnectionLostError`.",
        ),
    ]
    silence_s: Annotated[
        float,
        Option(
            5.0,
            "how long a connection may be silent ({}) before it counts as lost; brokers send "
            f"a ping every {BROKER_PING_S:g} s.",
        ),
    ]
    close_timeout_s: Annotated[
        float, Option(10.0, "how long `close` waits for acknowledgements ({}).")
    ]
    history_patience_s: Annotated[
        float, Option(10.0, "how long storages may be silent before they are asked again ({}).")
    ]
    backoff_first_s: Annotated[
        float,
        Option(0.05, "the first pause between attempts to connect ({}); each further one doubles."),
    ]
    backoff_max_s: Annotated[
        float,
        Option(2.0, "the longest pause ({}); each is drawn between half of its length and all."),
    ]
    redirects: Annotated[
        bool,
        Option(
            True,
            "whether to go to the brokers that one names when it is drained; it does by default.",
        ),
    ]
    on_disconnect: Annotated[
        OnChange | None, Option(None, "called, without arguments, when the connection is lost.")
    ]
    on_reconnect: Annotated[
        OnChange | None, Option(None, "called, without arguments, when the client has reconnected.")
    ]
    on_dropped: Annotated[
        OnDropped | None,
        Option(
            None,
            "called with the number of events that the broker dropped since the last call, because "
            "this program did not keep up; `subscription.dropped` counts those of a subscription.",
        ),
    ]
    on_refused: Annotated[
        OnRefused | None,
        Option(
            None,
            "called with the id and the reason of each refused publication; without it the next "
            "`publish` or `flush` raises `RefusedError`.",
        ),
    ]
    on_deliveries: Annotated[
        OnDeliveries | None,
        Option(
            None,
            "the low-level way to receive: called with a list of undecoded deliveries (see "
            "`decode_delivery`), and no events go to subscriptions; an error in it ends the "
            "client.",
        ),
    ]


def _item(name: str, option: Option) -> str:
    """Return an option as an item of a list, in lines as long as those of this package."""
    default = f"{option.default:g}" if isinstance(option.default, float) else str(option.default)
    text = f"- `{name}`: {option.meaning.format(default)}"
    return fill(text, 96, subsequent_indent="  ")


_HINTS = get_type_hints(Options, include_extras=True)
_OPTIONS: dict[str, Option] = {name: hint.__metadata__[0] for name, hint in _HINTS.items()}
DEFAULTS = cast(Options, {name: option.default for name, option in _OPTIONS.items()})
# Python strips the indentation of docstrings from 3.13 on; `getdoc` does it in all versions.
Options.__doc__ = (getdoc(Options) or "").replace(
    "OPTIONS", "\n".join(_item(*each) for each in _OPTIONS.items())
)


def complete(options: Options) -> Options:
    """Return the options with defaults for those not given. Raises `ConfigurationError`.

    An empty `queue_policy` and a `queue_limit` of 0 stand for the broker's own.
    """
    for name in options.keys() - DEFAULTS.keys():
        raise TypeError(f"connect() got an unexpected keyword argument {name!r}")
    settings: Options = {**DEFAULTS, **options}
    if not settings["name"]:
        raise ConfigurationError("a client's name must not be empty")
    policy, limit = settings["queue_policy"], settings["queue_limit"]
    if policy not in ("", *QUEUE_POLICIES):
        known = ", ".join(QUEUE_POLICIES)
        raise ConfigurationError(f"queue_policy {policy!r} is none of {known}")
    if limit < 0:
        raise ConfigurationError(f"queue_limit {limit} is negative")
    check_local_queue_limit(settings["local_queue_limit"])
    _check_times(settings)
    credentials_of(settings)
    return settings


def _check_times(settings: Options) -> None:
    for name in ("connect_timeout_s", "reconnect_timeout_s", "close_timeout_s"):
        if not settings[name] >= 0:
            raise ConfigurationError(f"{name} {settings[name]} must be 0 seconds or more")
    if not settings["silence_s"] >= 2 * BROKER_PING_S:
        raise ConfigurationError(
            f"silence_s {settings['silence_s']} must be {2 * BROKER_PING_S:g} or more: an idle "
            f"broker sends a frame every {BROKER_PING_S:g} s"
        )
    first_s, max_s = settings["backoff_first_s"], settings["backoff_max_s"]
    if not 0 < first_s <= max_s:
        raise ConfigurationError(
            f"backoff_first_s {first_s} must be above 0 and not above backoff_max_s {max_s}"
        )


def check_local_queue_limit(limit: int) -> int:
    """Return `limit` if at least one event can wait. Raises `ConfigurationError` otherwise."""
    if limit < 1:
        raise ConfigurationError(f"local_queue_limit {limit} is less than 1")
    return limit


def check_order_s(order_s: float) -> float:
    """Return `order_s` if a broker would hold events that long. Raises `ConfigurationError`
    otherwise."""
    if not 0 <= order_s <= MOST_ORDER_S:
        raise ConfigurationError(f"order_s {order_s} is not between 0 and {MOST_ORDER_S:g} seconds")
    return order_s


def call_application(callback: Callable[P, None] | None, *args: P.args, **named: P.kwargs) -> None:
    """Call a callback of the application; an error in it is logged and does not end the client."""
    if callback is None:
        return
    try:
        callback(*args, **named)
    except Exception:
        _log.exception("a callback of the application failed")


def hand_over(receiver: OnDeliveries, deliveries: list[bytes]) -> None:
    """Call the application's receiver. An error in it ends the client: deliveries that it did not
    process are lost."""
    try:
        receiver(deliveries)
    except Exception as error:
        raise LocalError(f"on_deliveries failed, which ended the client: {error!r}") from error
