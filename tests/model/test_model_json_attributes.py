"""JSON objects as attributes, against an obvious twin and against what native clients send."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import InvalidValueError
from reefcast.model import json_attributes
from reefcast.model.flat import as_sent
from reefcast.model.json_attributes import (
    MAX_ATTRIBUTES,
    MAX_JSON_BYTES,
    MAX_NAMES_CHARS,
    MAX_TEXT_CHARS,
    attributes_of_json,
    is_reserved_name,
)

KEYS = ("", "a", "b", "a.b", "a.b.c", "mqtt", "mqtt.qos", "content.type", "content", "topic")
MORE_KEYS = ("reply", "to", "reply.to", "$", "$expires_s", "$a", "topic.x", "é", '"', "{[", "\\")
INTEGERS = (0, 1, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**100)
keys = st.sampled_from(KEYS + MORE_KEYS)
scalars = (
    st.none()
    | st.booleans()
    | st.sampled_from(INTEGERS)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(keys, values, max_size=5)


def twin(members: dict[str, Any]) -> dict[str, Any]:
    """Flatten an object without thinking of its size."""
    found: dict[str, Any] = {}

    def visit(prefix: str, members: dict[str, Any]) -> None:
        for key, value in members.items():
            name = prefix + key
            if not key or value is None or isinstance(value, list):
                continue
            if isinstance(value, dict):
                visit(name + ".", value)
            elif isinstance(value, int) and not -(2**63) <= value < 2**63:
                continue
            elif name != "topic" and not name.startswith(("mqtt.", "content.", "reply.", "$")):
                found.setdefault(name, value)

    visit("", members)
    return found


def same(left: dict[str, Any] | None, right: dict[str, Any] | None) -> bool:
    """Compare names, their order, values and their types."""
    return repr(left) == repr(right)


@given(objects, st.booleans(), st.sampled_from((None, 0, 2)))
def test_members_become_attributes(members: dict[str, Any], ascii: bool, indent: int) -> None:
    payload = json.dumps(members, ensure_ascii=ascii, indent=indent).encode()
    assert same(attributes_of_json(payload), twin(members))


@given(objects)
def test_what_a_native_client_may_send_is_what_a_payload_gives(members: dict[str, Any]) -> None:
    try:
        sent = as_sent(members)
    except InvalidValueError:
        return
    taken = {name: value for name, value in sent.items() if not is_reserved_name(name)}
    assert same(attributes_of_json(json.dumps(members).encode()), taken)


@given(st.binary(max_size=30) | st.text('{}[]",:\\ae1.-+0 \n', max_size=30).map(str.encode))
def test_what_is_no_json_object_gives_nothing(payload: bytes) -> None:
    try:
        members = json.loads(payload.decode(), parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        members = None
    expected = twin(members) if isinstance(members, dict) else None
    assert same(attributes_of_json(payload), expected)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b" ", b"[]", b"1", b'"a"', b"null", b"{", b'{"a":1}}', b'{"a":1}x', b"\xff{}"),
        *(b'{"a":NaN}', b'{"a":Infinity}', b'{"a":01}', b'{"a":1.}', b"{'a':1}", b'{"a":1,}'),
        *(b'{"a":"\xff"}', b'{"a\xff":1}', b'{"a":"\\ud800"}', b'{"a":"\n"}', b"\xef\xbb\xbf{}"),
        *(b'{"a":1e400}', '{"a":1}'.encode("utf-16")),
    ],
)
def test_these_payloads_give_nothing(payload: bytes) -> None:
    assert attributes_of_json(payload) is None


def nested(levels: int, opening: str, closing: str) -> bytes:
    return (opening * levels + "1" + closing * levels).encode()


def test_nesting_has_a_limit() -> None:
    within = nested(101, '{"a":', "}")
    assert attributes_of_json(within) == {".".join("a" * 101): 1} == as_sent(json.loads(within))
    assert attributes_of_json(nested(102, '{"a":', "}")) is None
    assert attributes_of_json(b'{"a":' + nested(100, "[", "]") + b',"b":2}') == {"b": 2}
    assert attributes_of_json(b'{"a":' + nested(101, "[", "]") + b',"b":2}') is None


@pytest.mark.parametrize("levels", [1000, 100_000])
@pytest.mark.parametrize("brackets", [('{"a":', "}"), ("[", "]"), ("[", ""), ('{"a":[', "]}")])
def test_no_nesting_exhausts_the_stack(levels: int, brackets: tuple[str, str]) -> None:
    most = MAX_JSON_BYTES // 2 // len("".join(brackets))
    assert attributes_of_json(nested(min(levels, most), *brackets)) is None


def test_brackets_side_by_side_and_in_texts_are_no_nesting() -> None:
    many = b'{"a":[' + b"[],{}," * 500 + b'0],"b":"' + b'[{\\"' * 500 + b'","c":3}'
    assert attributes_of_json(many) == {"b": '[{"' * 500, "c": 3}


def test_the_number_of_attributes_has_a_limit() -> None:
    flat = {str(number): number for number in range(MAX_ATTRIBUTES)}
    assert attributes_of_json(json.dumps(flat).encode()) == flat
    assert attributes_of_json(json.dumps({**flat, "one": "more"}).encode()) is None
    assert attributes_of_json(json.dumps({"a": {**flat, "one": "more"}}).encode()) is None
    assert attributes_of_json(json.dumps({**flat, "null": None, "list": []}).encode()) == flat


def test_names_together_have_a_limit() -> None:
    long = "n" * 1000
    few, many = ({long: {str(number): 1 for number in range(count)}} for count in (60, 70))
    assert len(attributes_of_json(json.dumps(few).encode()) or ()) == 60
    assert attributes_of_json(json.dumps(many).encode()) is None
    around = {long: {str(number): {"": 1} for number in range(70)}}
    assert attributes_of_json(json.dumps(around).encode()) is None
    assert attributes_of_json(json.dumps({"n" * MAX_NAMES_CHARS: 1}).encode()) is not None
    assert attributes_of_json(json.dumps({"n" * (MAX_NAMES_CHARS + 1): 1}).encode()) is None


def test_texts_and_payloads_have_limits() -> None:
    texts = {"a": "x" * MAX_TEXT_CHARS, "b": "x" * (MAX_TEXT_CHARS + 1), "c": "x"}
    assert attributes_of_json(json.dumps(texts).encode()) == {"a": texts["a"], "c": "x"}
    most = b'{"a":1' + b" " * (MAX_JSON_BYTES - 7) + b"}"
    assert attributes_of_json(most) == {"a": 1}
    assert attributes_of_json(most + b" ") is None


@given(objects)
def test_small_objects_take_the_same_way_as_others(members: dict[str, Any]) -> None:
    payload = json.dumps(members).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_attributes, "_SMALL_BYTES", 0)
        slowly = attributes_of_json(payload)
    assert same(attributes_of_json(payload), slowly)
