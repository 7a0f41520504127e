"""CloudEvents, drawn by hypothesis."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from reefcast.cloudevents.context import Context, is_value, timestamp_of
from reefcast.cloudevents.events import CloudEvent

NAMES = st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True).filter(
    lambda name: name not in (*KNOWN, "data")
)
KNOWN = (
    *("specversion", "id", "source", "type", "subject", "time", "dataschema"),
    *("datacontenttype", "expirytime", "topic"),
)
TEXTS = st.text(max_size=12).filter(is_value)
FULL_TEXTS = TEXTS.filter(bool)
SOURCES = st.one_of(
    st.sampled_from(("/s", "urn:uuid:1", "https://example.com/a?b=c#d", "1-555-123-4567", "a/b:c")),
    st.from_regex(
        r"[a-z0-9\-._~!$&'()*+,;=@]{1,8}(/[a-z%20:]{0,0}[a-z:@]{0,5}){0,2}", fullmatch=True
    ),
)
TIMES = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999).map(timestamp_of)
VALUES = st.one_of(TEXTS, st.booleans(), st.integers(-(2**31), 2**31 - 1))
JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(("a", "b", "a.b", "", "$x", "topic")), inner, max_size=3),
    ),
    max_leaves=6,
)


@st.composite
def contexts(draw: st.DrawFn, values: st.SearchStrategy[str | int | bool] = VALUES) -> Context:
    """Draw the context attributes of an event, without the media type of its data."""
    context: Context = {"specversion": "1.0", "id": draw(FULL_TEXTS), "source": draw(SOURCES)}
    context["type"] = draw(FULL_TEXTS)
    optional = {"subject": FULL_TEXTS, "time": TIMES, "expirytime": TIMES, "topic": TEXTS}
    optional["dataschema"] = st.just("https://example.com/schema")
    for name, strategy in optional.items():
        if draw(st.booleans()):
            context[name] = draw(strategy)
    return context | draw(st.dictionaries(NAMES, values, max_size=3))


@st.composite
def events(draw: st.DrawFn, values: st.SearchStrategy[str | int | bool] = VALUES) -> CloudEvent:
    """Draw an event with data of any kind."""
    context = draw(contexts(values))
    kind = draw(st.sampled_from(("none", "json", "text", "bytes", "broken", "untyped")))
    if kind == "none":
        return CloudEvent(context)
    if kind == "json":
        context["datacontenttype"] = draw(
            st.sampled_from(("application/json", "text/json", "application/x+json; charset=utf-8"))
        )
        return CloudEvent(context, json.dumps(draw(JSON_VALUES)).encode())
    if kind == "text":
        charset, encoding = draw(
            st.sampled_from((("", "utf-8"), ("; charset=iso-8859-1", "latin-1")))
        )
        context["datacontenttype"] = f"text/plain{charset}"
        return CloudEvent(context, draw(st.text("aé\n<", max_size=6)).encode(encoding))
    if kind != "untyped":
        context["datacontenttype"] = {
            "bytes": "application/octet-stream",
            "broken": "application/json",
        }[kind]
    return CloudEvent(context, draw(st.binary(max_size=8)))
