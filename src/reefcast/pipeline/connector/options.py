"""The options of readers and writers, named as users of Spark's Kafka source expect."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar, cast

from reefcast import sync
from reefcast.client.address import parse_addresses
from reefcast.client.settings import Options
from reefcast.errors import ConfigurationError
from reefcast.model.filters import parse_filter
from reefcast.model.topics import topic_filter, topic_patterns_of
from reefcast.pipeline.connector.kafka import advice
from reefcast.pipeline.connector.topic_times import (
    Boundary,
    TopicTimes,
    start_of,
    times_of,
)
from reefcast.sessions.messages import MOST_NAME_CHARS, MOST_WINDOW

T = TypeVar("T")

PARTITIONS = 4
MOST_DELAY_S = 15 * 60.0
"""How long a batch waits for `minOffsetsPerTrigger`, as in the Kafka source."""
SESSION_ROWS, MOST_SESSION_ROWS = 10_000, MOST_WINDOW // 2
"""Events in a batch of a session. As many more may come while that batch is worked on."""
UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SAME_AS = {"since": "startingTimestamp", "until": "endingTimestamp"}
"""Our names, and those of the Kafka source."""

ACCESS = {
    "authority": "authority",
    "certificate": "certificate",
    "key": "key",
    "serverName": "server_name",
}
"""How a client shows a certificate and knows the broker: our names, and the options of
`connect`."""
USER = {"user": "user", "passwordFile": "password_file", "tokenFile": "token_file"}
"""Who the user is: our names, and the options of `connect`. Secrets stand in files: Spark shows the
options of a query."""
SHARED = (
    *(
        "url",
        "filter",
        "subscribe",
        "schema",
        "inferSchema",
        "minPartitions",
        "since",
        "startingTimestamp",
    ),
    *("startingOffsets", "startingOffsetsByTimestamp"),
)
READ = (
    *(*SHARED, "session", "until", "endingTimestamp"),
    *("endingOffsets", "endingOffsetsByTimestamp", "pushdown", *ACCESS, *USER),
)
STREAM = (
    *(*SHARED, "session", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("failOnDataLoss", "settleSeconds", "lateSeconds", *ACCESS, *USER),
)
SESSION_READ = ("url", "session", "schema", *ACCESS, *USER)
SESSION_STREAM = (
    *("url", "session", "filter", "subscribe", "schema"),
    *("minPartitions", "maxOffsetsPerTrigger", "failOnDataLoss", *ACCESS, *USER),
)
FORMS = {
    "timestamps": ("microseconds", "iso"),
    "dates": ("iso", "days"),
    "decimals": ("number", "text"),
}
"""How such values travel when they are written: the first is what clients send by themselves."""
ISO, TEXT = "iso", "text"
ADVERTISEMENTS = "advertisements"
_OF_A_SELECTION = frozenset(name.lower() for name in ("url", "filter", "subscribe", *ACCESS, *USER))
WRITE = ("url", "topic", "orderBy", "confirm", *FORMS, *ACCESS, *USER)
NOT_OF_A_STREAM = (
    "a session hands out what it owes, in the order of its queue, and storages and times have no "
    "part in that; to begin in the past, subscribe the session with replay before"
)
NOT_OF_A_LOOK = (
    "a batch shows all that the session owes, and takes nothing: choose among its rows with "
    "where(); to take events, use readStream, with the trigger availableNow to end when all is read"
)
OF_SPARK = ("checkpointLocation", "queryName")
"""Options that Spark passes together with ours."""


class Broker(NamedTuple):
    """The broker to connect to, and the client's options for that. Files that they name are on all
    machines that run tasks."""

    url: str
    access: Options

    def connect(self, name: str) -> sync.Client:
        """Connect; raises what `sync.connect` raises."""
        options: Options = {**self.access, "name": name}
        return sync.connect(self.url, **options)


class Selection(NamedTuple):
    """The events to read, and who asks for them. `filter` names its topics. `partitions`: how many
    tasks read at the same time. `attributes`: names of those that rows have, None: all; `payload`:
    whether they have that."""

    broker: Broker
    filter: str
    partitions: int
    attributes: tuple[str, ...] | None = None
    payload: bool = True


class ReadOptions(NamedTuple):
    """The options of a batch. Microseconds; None: no bound. `topics`: those of each topic.
    `pushdown`: whether Spark's conditions are taken; see `batch.PushingReader`."""

    selection: Selection
    since_us: int | None
    until_us: int | None
    topics: TopicTimes = TopicTimes()
    pushdown: bool = False


class Least(NamedTuple):
    """The events that are worth a batch, and how long, in seconds, a batch waits for them."""

    rows: int
    delay_s: float


class StreamOptions(NamedTuple):
    """The options of a stream. `start`: a time in microseconds, or EARLIEST or LATEST, or one for
    each topic. `settle_us`: how long after its time an event is read; `late_us`: how long after its
    time the reader still looks for it. `most_rows`: of one batch, as far as possible; None: all.
    `least`: None: whatever there is is worth a batch."""

    selection: Selection
    start: Boundary | dict[str, Boundary]
    settle_us: int
    late_us: int
    most_rows: int | None
    fail_on_data_loss: bool
    least: Least | None = None


class SessionOptions(NamedTuple):
    """The options of a stream out of a durable session. `filter`: what it is to be subscribed to;
    "" if it is already. `partitions`: tasks that read at the same time; `most_rows`: of one
    batch."""

    broker: Broker
    name: str
    filter: str
    partitions: int
    most_rows: int
    fail_on_data_loss: bool


class LookOptions(NamedTuple):
    """The options of a batch that shows what a durable session owes."""

    broker: Broker
    name: str


class Forms(NamedTuple):
    """The forms in which times, dates and decimals travel: see `FORMS`."""

    timestamps: str = "microseconds"
    dates: str = "iso"
    decimals: str = "number"


class WriteOptions(NamedTuple):
    """`topic`: of all rows; "" if the rows say it. `order`: columns by which the rows of a
    partition are sorted; none: as they come. `checkpoint`: where a query keeps its own.
    `confirm`: whether a row counts as written only when durable sessions have it on disk."""

    broker: Broker
    topic: str
    order: tuple[str, ...]
    checkpoint: str
    forms: Forms = Forms()
    confirm: bool = True


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options for reading. Raises `ConfigurationError` and `FilterSyntaxError`, as the
    others do."""
    given = _Given(options, READ, "reading")
    since_us, until_us = given.time("since"), given.time("until")
    if since_us is not None and until_us is not None and since_us > until_us:
        raise ConfigurationError("option since is later than option until")
    pushdown = given.read("pushdown", _truth, False)
    topics = times_of(given, time_us)
    return ReadOptions(_selection(given), since_us, until_us, topics, pushdown)


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    given = _Given(options, STREAM, "reading a stream")
    settle_us = given.seconds("settleSeconds", 3.0)
    late_us = given.seconds("lateSeconds", 120.0)
    if late_us <= settle_us:
        raise ConfigurationError(
            f"option lateSeconds ({late_us / 1e6:g}) must exceed settleSeconds "
            f"({settle_us / 1e6:g}): what is late comes after what is not"
        )
    most = given.read("maxOffsetsPerTrigger", _count, 0)
    return StreamOptions(
        _selection(given),
        start_of(given, given.time("since"), time_us),
        settle_us,
        late_us,
        most or None,
        _fails(given),
        _least(given, most),
    )


def is_of_session(options: Mapping[str, str]) -> bool:
    """Return whether a durable session is to be read, and not the history."""
    return any(name.lower() == "session" and value.strip() for name, value in options.items())


def session_options(options: Mapping[str, str]) -> SessionOptions:
    """Parse the options of a stream out of a durable session."""
    given = _Given(options, SESSION_STREAM, "reading a session as a stream", NOT_OF_A_STREAM)
    most = given.read("maxOffsetsPerTrigger", _count, SESSION_ROWS)
    if most > MOST_SESSION_ROWS:
        raise ConfigurationError(
            f"option maxOffsetsPerTrigger is {most}: a batch of a session has at most "
            f"{MOST_SESSION_ROWS} events"
        )
    return SessionOptions(
        _home(given),
        _session_name(given),
        _joined(given),
        given.read("minPartitions", _count, PARTITIONS),
        most,
        _fails(given),
    )


def look_options(options: Mapping[str, str]) -> LookOptions:
    """Parse the options of a batch that shows what a durable session owes."""
    given = _Given(options, SESSION_READ, "looking into a session", NOT_OF_A_LOOK)
    return LookOptions(_home(given), _session_name(given))


def write_options(options: Mapping[str, str]) -> WriteOptions:
    given = _Given(options, WRITE, "writing")
    return WriteOptions(
        given.broker(),
        given.text("topic"),
        given.names("orderBy"),
        given.text("checkpointLocation"),
        Forms(*(given.one_of(name, known) for name, known in FORMS.items())),
        given.read("confirm", _truth, True),
    )


def schema_option(options: Mapping[str, str]) -> str:
    return options.get("schema", "")


class Inferring(NamedTuple):
    """How a schema is to be found: that of which events, in advertisements or in a sample."""

    selection: Selection
    by_advertisements: bool


def inferring(options: Mapping[str, str]) -> Inferring | None:
    """Return how a schema is to be found; None if it is given, or not wanted."""
    given = {name.lower(): value for name, value in options.items()}
    text = given.get("inferschema", "").strip().lower() or "false"
    by_advertisements = text == ADVERTISEMENTS
    try:
        if not by_advertisements and not _truth(text):
            return None
    except ValueError as error:
        raise ConfigurationError(f"option inferSchema: {error}, nor {ADVERTISEMENTS}") from error
    if given.get("schema", "").strip():
        raise ConfigurationError("options schema and inferSchema contradict each other")
    known = {name: options[name] for name in options if name.lower() in _OF_A_SELECTION}
    return Inferring(_selection(_Given(known, READ, "reading")), by_advertisements)


def time_us(text: str) -> int:
    """Return a time in ISO 8601, or in milliseconds as Kafka's users write it, as microseconds
    since 1970.

    Raises `ValueError`.
    """
    if text.isdigit():
        return int(text) * 1000
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = datetime.min
    if time.tzinfo is None:
        raise ValueError(
            f"{text!r} is not a time with a zone, such as 2026-01-31T12:00:00Z, nor a number of "
            "milliseconds since 1970"
        )
    return (time - EPOCH) // timedelta(microseconds=1)


class _Given:
    """Options as Spark passes them: their names may have lost their capitals. `unlike`: why other
    options for reading are not among the `known` ones."""

    def __init__(
        self, options: Mapping[str, str], known: tuple[str, ...], what: str, unlike: str = ""
    ) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        self._what = what
        names = {name.lower() for name in (*known, *OF_SPARK)}
        others = {name.lower(): name for name in (*READ, *STREAM)} if unlike else {}
        for name in self._options:
            if name not in names and name in others:
                raise ConfigurationError(
                    f"options session and {others[name]} contradict each other: {unlike}"
                )
            if name not in names:
                raise ConfigurationError(_unknown(name, known, what))

    def text(self, name: str) -> str:
        return self._options.get(name.lower(), "").strip()

    def names(self, name: str) -> tuple[str, ...]:
        """Return the names between the commas of an option."""
        parts = map(str.strip, self.text(name).split(","))
        return tuple(part for part in parts if part)

    def one_of(self, name: str, known: tuple[str, ...]) -> str:
        """Return one of the `known` values of an option; by default the first."""
        text = self.text(name).lower() or known[0]
        if text not in known:
            raise ConfigurationError(f"option {name} is {text!r}: it is {' or '.join(known)}")
        return text

    def read(self, name: str, parse: Callable[[str], T], default: T) -> T:
        text = self.text(name)
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise ConfigurationError(f"option {name}: {error}") from error

    def time(self, name: str) -> int | None:
        kafkas = SAME_AS[name]
        if self.text(name) and self.text(kafkas):
            raise ConfigurationError(f"options {name} and {kafkas} mean the same: give one of them")
        text = self.text(name) or self.text(kafkas)
        return self.read(name if self.text(name) else kafkas, time_us, 0) if text else None

    def seconds(self, name: str, default_s: float) -> int:
        """Return an option in seconds as microseconds."""
        return round(self.read(name, _seconds, default_s) * 1e6)

    def broker(self) -> Broker:
        url = self.text("url")
        if not url:
            raise ConfigurationError(
                f'{self._what} needs the option url: .option("url", "reefcast://host:port"), the '
                "address of a broker. (Spark hands the OPTIONS of a table on to no source in "
                "Python: write FROM t WITH (url = ...), or make the table of a source that has "
                "them, see reefcast.spark.register)"
            )
        plain = [str(address) for address in parse_addresses(url) if not address.tls]
        access = {ours: self.text(name) for name, ours in ACCESS.items() if self.text(name)}
        if plain and access:
            raise ConfigurationError(
                f"options for TLS are given, but the option url has {plain[0]}: write "
                "reefcast+tls://host:port"
            )
        user = {ours: self.text(name) for name, ours in USER.items() if self.text(name)}
        return Broker(url, cast(Options, access | user))


def _unknown(name: str, known: tuple[str, ...], what: str) -> str:
    near = difflib.get_close_matches(name, [option.lower() for option in known], 1)
    meant = [option for option in known if option.lower() in near]
    hint = f"; did you mean {meant[0]}?" if meant else ""
    instead = advice(name)
    hint = f"; in the place of this option of Kafka's: {instead}" if instead else hint
    return f"there is no option {name!r} for {what}: the options are {', '.join(known)}{hint}"


def _fails(given: _Given) -> bool:
    return given.read("failOnDataLoss", _truth, True)


def _selection(given: _Given) -> Selection:
    partitions = given.read("minPartitions", _count, PARTITIONS)
    return Selection(given.broker(), _filter(given), partitions)


def _home(given: _Given) -> Broker:
    broker = given.broker()
    if len(parse_addresses(broker.url)) > 1:
        raise ConfigurationError(
            "option url has several addresses, but a session is read at its home: give the address "
            "of that broker alone"
        )
    return broker


def _session_name(given: _Given) -> str:
    name = given.text("session")
    if len(name) > MOST_NAME_CHARS:
        raise ConfigurationError(
            f"option session: the name of a session has at most {MOST_NAME_CHARS} characters"
        )
    return name


def _joined(given: _Given) -> str:
    """Return what `subscribe` (topics separated by commas) and `filter` say together; "" if they
    say nothing."""
    topics = given.names("subscribe")
    filter = given.text("filter")
    if filter:
        parse_filter(filter)
    parts = ([topic_filter(topics)] if topics else []) + ([filter] if filter else [])
    return "".join(parts) if len(parts) < 2 else " AND ".join(f"({part})" for part in parts)


def _filter(given: _Given) -> str:
    """Return a filter for what storages keep, which names its topics."""
    whole, filter = _joined(given), given.text("filter")
    if not whole or topic_patterns_of(parse_filter(whole)) is None:
        said = f"the filter {filter!r} does not say its topics" if filter else "no topic is given"
        raise ConfigurationError(
            f'{said}, and storages keep topics: add .option("subscribe", "fx"), with commas '
            "between several, or topic = 'fx' AND ... to the filter"
        )
    return whole


def _least(given: _Given, most: int) -> Least | None:
    rows = given.read("minOffsetsPerTrigger", _count, 0)
    if most and rows > most:
        raise ConfigurationError(
            f"option minOffsetsPerTrigger ({rows}) exceeds maxOffsetsPerTrigger ({most})"
        )
    delay_s = given.read("maxTriggerDelay", _delay_s, MOST_DELAY_S)
    return Least(rows, delay_s) if rows else None


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a whole number, 1 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise ValueError(f"{text!r} is not a time in seconds, from 0 to 86400")
    return seconds


def _delay_s(text: str) -> float:
    """Return a time as the Kafka source takes it, such as 15m, in seconds."""
    found = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h|d)", text.lower())
    if found is None:
        raise ValueError(f"{text!r} is not a time such as 500ms, 30s, 15m or 1h")
    return int(found[1]) * UNITS_S[found[2]]


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"
