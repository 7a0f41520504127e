"""`[security]` and `[[certificate]]`: what they may say, and where their files are."""

from __future__ import annotations

from pathlib import Path

import pytest

from reefcast.errors import ConfigurationError
from reefcast.network.file import dump_network, load_network, parse_network, read_network
from reefcast.network.subjects import subject_of

BROKERS = """
[[broker]]
name = "a"
listen = "127.0.0.1:7301"
"""
TWO = (
    BROKERS
    + """
[[broker]]
name = "b"
listen = "127.0.0.1:7302"

[[link]]
between = ["a", "b"]
"""
)
TLS = """
[tls]
certificate = "c"
key = "k"
authority = "a"
clients = "optional"
"""
CERTIFICATE = """
[[certificate]]
subject = "CN=billing"
user = "billing"
"""
WRONG = [
    ("[security]\nuser = 5" + BROKERS, "has no key 'user'"),
    ('[security]\nusers = "u"' + TWO, "has no key, by which brokers and storages prove"),
    ("[security]\naudit_bytes = 0" + BROKERS, "audit_bytes must be above 0"),
    (BROKERS + CERTIFICATE, r"needs a \[security\] section"),
    ("[security]" + BROKERS + CERTIFICATE, 'set clients to "optional" or "required"'),
    ("[security]" + TLS + BROKERS + CERTIFICATE * 2, "have the same subject"),
    ("[security]" + TLS + BROKERS + CERTIFICATE.replace("CN=", "CN "), "cannot be read: write it"),
    (
        '[security]\nanonymous = ["guest"]' + BROKERS + '[[role]]\nname = "fx"',
        r"no \[\[role\]\] named 'guest'",
    ),
    (
        "[security]" + TLS + BROKERS + CERTIFICATE + 'roles = ["pay"]\n[[role]]\nname = "fx"',
        r"no \[\[role\]\] named 'pay'",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG, ids=range(len(WRONG)))
def test_what_contradicts_itself_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        read_network(text)


def test_brokers_need_the_key_or_certificates_and_one_alone_needs_neither() -> None:
    for text in (
        '[security]\nusers = "u"' + BROKERS,
        '[security]\nkey = "k"' + TWO,
        "[security]" + TLS + TWO + CERTIFICATE,
    ):
        network = read_network(text)
        assert parse_network(dump_network(network)) == network
    assert read_network(TWO).security is None


def test_files_are_beside_the_network_file(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text('[security]\nusers = "u.toml"\nkey = "/k"\naudit = "a"' + BROKERS)
    section = load_network(file).security
    assert section is not None
    assert (section.users, section.key) == (str(tmp_path / "u.toml"), "/k")
    assert (section.audit, section.tokens) == (str(tmp_path / "a"), "")


def test_the_order_of_a_subject_does_not_count() -> None:
    known = {("CN", "billing"), ("O", "Acme, Inc.")}
    assert subject_of("CN=billing, O=Acme\\, Inc.") == known
    assert subject_of("O=Acme\\, Inc.+CN=billing") == known
    assert subject_of("CN=a=b") == {("CN", "a=b")}
    for wrong in ("", "CN", "CN=", "=billing", "CN=billing,"):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            subject_of(wrong)
