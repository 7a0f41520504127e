"""What two network files say differently."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reefcast.network.changes import changes, fingerprint
from reefcast.network.file import NetworkFile, load_network, read_network

FILE = """
[network]
name = "n"

[limits]
queue_limit = 5

[routing]
covering = "lazy"

[[broker]]
name = "a"
listen = "127.0.0.1:7401"

[[broker]]
name = "b"
listen = "127.0.0.1:7402"

[[link]]
between = ["a", "b"]

[[role]]
name = "r"
publish = "x = 1"
"""
SECURED = '\n[security]\nusers = "users.toml"\nkey = "network.key"\n'


def changed(before: str, after: str) -> dict[str, tuple[object, object]]:
    found = changes(read_network(before), read_network(after))
    return {each.what: (each.before, each.after) for each in found}


def test_each_key_is_a_change() -> None:
    assert changed(FILE, FILE) == {}
    other = FILE.replace("queue_limit = 5", "queue_limit = 6\nsession_s = 1.5")
    other = other.replace('covering = "lazy"', "").replace("x = 1", "x = 2")
    assert changed(FILE, other) == {
        "[limits] queue_limit": (5, 6),
        "[limits] session_s": (60.0, 1.5),
        "[routing] covering": ("lazy", None),
        "[[role]] r publish": ("x = 1", "x = 2"),
    }


def test_entries_and_sections_come_and_go() -> None:
    more = FILE + '\n[[broker]]\nname = "c"\nlisten = "127.0.0.1:7403"\n'
    more += '\n[[link]]\nbetween = ["c", "b"]\n' + SECURED
    found = changed(FILE, more)
    assert list(found) == ["[security]", "[[broker]] c", "[[link]] b - c"]
    assert all(before is None and after is not None for before, after in found.values())
    assert changed(more, FILE) == {what: each[::-1] for what, each in found.items()}
    # Whichever end is named first, it is the same link.
    turned = FILE.replace('["a", "b"]', '["b", "a"]')
    assert list(changed(FILE, turned)) == ["[[link]] a - b between"]


def test_every_difference_is_found() -> None:
    """Whatever key of whatever section differs."""
    plain = read_network(FILE)
    for field in msgspec.structs.fields(NetworkFile):
        section = getattr(plain, field.name)
        if not isinstance(section, msgspec.Struct):
            continue
        for key in msgspec.structs.fields(type(section)):
            other = msgspec.structs.replace(section, **{key.name: object()})
            network = msgspec.structs.replace(plain, **{field.name: other})
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(msgspec, "to_builtins", _plain)
                (found,) = changes(plain, network)
            assert found.what == f"[{field.name}] {key.name}"


def _plain(struct: object) -> object:
    if isinstance(struct, msgspec.Struct):
        return {name: _plain(getattr(struct, name)) for name in struct.__struct_fields__}
    return [_plain(each) for each in struct] if isinstance(struct, list) else struct


def test_a_file_has_one_fingerprint_wherever_it_is(tmp_path: Path) -> None:
    texts = (FILE + SECURED, FILE + SECURED.replace("users.toml", "others.toml"))
    found = []
    for number, text in enumerate((texts[0], texts[0], texts[1])):
        file = tmp_path / str(number) / "net.toml"
        file.parent.mkdir()
        file.write_text(text)
        found.append(fingerprint(load_network(file)))
    assert found[0] == found[1] != found[2]
