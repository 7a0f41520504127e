"""A slow, obvious codec of MQTT 3.1.1, written by the tables of its chapter 3.

A packet is a dictionary: `type` and the fields in the standard's order, which `LAYOUT` gives. A
reader of a field takes bytes from the front of a list, and a writer returns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Fields = dict[str, Any]
CONNECT, CONNACK, PUBLISH, SUBSCRIBE, SUBACK, UNSUBSCRIBE = 1, 2, 3, 8, 9, 10
FLAGS = {1: 0, 2: 0, 4: 0, 5: 0, 6: 2, 7: 0, 8: 2, 9: 0, 10: 2, 11: 0, 12: 0, 13: 0, 14: 0}
ONLY_AN_IDENTIFIER = (4, 5, 6, 7, 11)
EMPTY = (12, 13, 14)


class Refused(Exception):
    """The bytes are no packet of 3.1.1."""


def need(truth: bool) -> None:
    if not truth:
        raise Refused


def take(body: list[int], count: int) -> list[int]:
    need(len(body) >= count)
    taken = body[:count]
    del body[:count]
    return taken


def take_number(body: list[int]) -> int:
    high, low = take(body, 2)
    return high * 256 + low


def take_identifier(body: list[int]) -> int:
    number = take_number(body)
    need(number > 0)
    return number


def take_binary(body: list[int]) -> bytes:
    return bytes(take(body, take_number(body)))


def take_text(body: list[int]) -> str:
    try:
        text = take_binary(body).decode("utf-8")
    except UnicodeDecodeError:
        raise Refused from None
    need("\0" not in text)
    return text


def take_name(body: list[int]) -> str:
    name = take_text(body)
    need(name != "" and "+" not in name and "#" not in name)
    return name


def take_filter(body: list[int]) -> str:
    text = take_text(body)
    need(text != "")
    return text


def several(body: list[int], take_one: Callable[[list[int]], Any]) -> list[Any]:
    found = []
    while body:
        found.append(take_one(body))
    need(found != [])
    return found


def read(data: bytes) -> tuple[Fields, int] | None:
    """The first packet of the bytes, and its size; None if it is not complete. Raises `Refused`."""
    if len(data) < 2:
        return None
    size, at = 0, 1
    while True:
        if at == 5:
            raise Refused
        if at == len(data):
            return None
        size += (data[at] % 128) * 128 ** (at - 1)
        at += 1
        if data[at - 1] < 128:
            break
    kind, flags = divmod(data[0], 16)
    need(kind == PUBLISH or FLAGS.get(kind) == flags)
    need(kind != PUBLISH or (flags // 2 % 4 != 3 and (flags < 8 or flags // 2 % 4 > 0)))
    if len(data) < at + size:
        return None
    body = list(data[at : at + size])
    fields = read_body(kind, flags, body)
    need(body == [])
    return {"type": kind, **fields}, at + size


def read_body(kind: int, flags: int, body: list[int]) -> Fields:
    if kind == CONNECT:
        return read_connect(body)
    if kind == CONNACK:
        present, code = take(body, 2)
        need(present <= 1 and code <= 5 and (not present or not code))
        return {"session_present": present == 1, "code": code}
    if kind == PUBLISH:
        qos = flags // 2 % 4
        topic = take_name(body)
        packet_id = take_identifier(body) if qos else 0
        fields = {"topic": topic, "packet_id": packet_id, "payload": bytes(take(body, len(body)))}
        return {**fields, "qos": qos, "retain": flags % 2 == 1, "dup": flags >= 8}
    if kind in EMPTY:
        return {}
    fields = {"packet_id": take_identifier(body)}
    if kind == SUBSCRIBE:
        pairs = several(body, lambda rest: (take_filter(rest), take(rest, 1)[0]))
        need(all(qos <= 2 for _, qos in pairs))
        fields["filters"] = pairs
    elif kind == SUBACK:
        fields["codes"] = several(body, lambda rest: take(rest, 1)[0])
        need(all(code in (0, 1, 2, 128) for code in fields["codes"]))
    elif kind == UNSUBSCRIBE:
        fields["filters"] = several(body, take_filter)
    else:
        need(kind in ONLY_AN_IDENTIFIER)
    return fields


def read_connect(body: list[int]) -> Fields:
    need(take_binary(body) == b"MQTT")
    need(take(body, 1) == [4])
    bits = f"{take(body, 1)[0]:08b}"
    has_name, has_password, retain, high, low, has_will, clean, reserved = (
        bit == "1" for bit in bits
    )
    qos = 2 * high + low
    need(not reserved and qos < 3)
    need(has_will or not (qos or retain))
    need(has_name or not has_password)
    fields: Fields = {"clean": clean, "keep_alive": take_number(body), "client": take_text(body)}
    need(fields["client"] != "" or clean)
    if has_will:
        fields["will"] = (take_name(body), take_binary(body), qos, retain)
    if has_name:
        fields["user"] = take_text(body)
    if has_password:
        fields["password"] = take_binary(body)
    return fields


# --- bytes ---------------------------------------------------------------------------------------


def number(value: int) -> bytes:
    return bytes(divmod(value, 256))


def string(value: str | bytes) -> bytes:
    raw = value.encode("utf-8") if isinstance(value, str) else value
    return number(len(raw)) + raw


def written(fields: Fields) -> bytes:
    """The bytes of a packet."""
    kind = fields["type"]
    flags = FLAGS.get(kind, 0)
    if kind == CONNECT:
        body = written_connect(fields)
    elif kind == CONNACK:
        body = bytes([fields["session_present"], fields["code"]])
    elif kind == PUBLISH:
        flags = 8 * fields["dup"] + 2 * fields["qos"] + fields["retain"]
        identifier = number(fields["packet_id"]) if fields["qos"] else b""
        body = string(fields["topic"]) + identifier + fields["payload"]
    elif kind in EMPTY:
        body = b""
    else:
        body = number(fields["packet_id"])
    if kind == SUBSCRIBE:
        body += b"".join(string(text) + bytes([qos]) for text, qos in fields["filters"])
    elif kind == SUBACK:
        body += bytes(fields["codes"])
    elif kind == UNSUBSCRIBE:
        body += b"".join(map(string, fields["filters"]))
    return bytes([16 * kind + flags]) + length(len(body)) + body


def length(size: int) -> bytes:
    rest, low = divmod(size, 128)
    return bytes([low + 128]) + length(rest) if rest else bytes([low])


def written_connect(fields: Fields) -> bytes:
    topic, payload, qos, retain = fields.get("will", ("", b"", 0, False))
    flags = 2 * fields["clean"] + 8 * qos + 32 * retain
    flags += 4 * ("will" in fields) + 64 * ("password" in fields) + 128 * ("user" in fields)
    body = string("MQTT") + bytes([4, flags]) + number(fields["keep_alive"])
    body += string(fields["client"])
    if "will" in fields:
        body += string(topic) + string(payload)
    return body + b"".join(string(fields[key]) for key in ("user", "password") if key in fields)
