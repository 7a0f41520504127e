"""Certificates for all members of a network file."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from reefcast.errors import ConfigurationError
from reefcast.network.certifying import Asked, Issued, certify, with_tls
from reefcast.network.file import NetworkFile, read_network
from reefcast.tls.credentials import broker_credentials, dialling_context
from reefcast.tls.identity import broker_uri
from reefcast.tls.making import now

TEXT = """
[network]
name = "net"

[[broker]]
name = "a"
listen = "127.0.0.1:7301"

[[broker]]
name = "b"
listen = "10.0.0.1:7301"

[[link]]
between = ["a", "b"]

[[storage]]
name = "s1"
broker = "a"
topics = ["fx"]
directory = "history"
"""


def network_in(folder: Path, text: str = TEXT) -> NetworkFile:
    network = read_network(with_tls(text))
    network.tls = network.tls.below(folder)
    return network


def made(issued: list[Issued]) -> list[str]:
    return [each.who for each in issued if each.made]


def test_a_file_gets_a_section_once() -> None:
    """Also one that is wrong without it, because others reach its brokers."""
    with pytest.raises(ConfigurationError, match=r"give the file a section \[tls\]"):
        read_network(TEXT)
    text = with_tls(TEXT)
    assert text.startswith(TEXT.rstrip())
    assert with_tls(text) == text
    assert read_network(text).tls.on


def test_all_members_get_certificates_that_brokers_accept(tmp_path: Path) -> None:
    network = network_in(tmp_path)
    asked = Asked(["billing"], ["10.0.0.9"], {"b": ["b.example"]})
    issued = certify(network, asked, now())
    assert made(issued) == [
        "the authority",
        "broker a",
        "broker b",
        "storage s1",
        "peers on 10.0.0.9",
        "client billing",
    ]
    for name, hosts in (("a", {"127.0.0.1", "::1", "localhost"}), ("b", {"10.0.0.1", "b.example"})):
        files = network.tls.files(name)
        own = broker_credentials(files, "none", broker_uri("net", name), f"broker {name}").value
        assert own.identity.hosts == hosts
    for name in ("s1", "billing"):
        dialling_context(network.tls.files(name))
    for each in issued:
        assert stat.S_IMODE(each.key.stat().st_mode) == 0o600
        assert stat.S_IMODE(each.certificate.stat().st_mode) == 0o644


def test_what_is_there_stays(tmp_path: Path) -> None:
    network = network_in(tmp_path)
    certify(network, Asked(), now())
    before = contents(tmp_path)
    again = certify(network, Asked(["billing"]), now())
    assert made(again) == ["client billing"]
    assert {name: contents(tmp_path)[name] for name in before} == before
    renewed = certify(network, Asked(renew=True, days=20), now() + timedelta(days=5))
    assert made(renewed) == ["broker a", "broker b", "storage s1"]
    changed = {name for name, text in before.items() if contents(tmp_path)[name] != text}
    assert changed == {f"{name}.{end}" for name in ("a", "b", "s1") for end in ("pem", "key")}
    assert renewed[1].ends - now() > timedelta(days=24)


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in (folder / "certificates").iterdir()}


def test_certificates_end_with_their_authority(tmp_path: Path) -> None:
    issued = certify(network_in(tmp_path), Asked(days=100_000), now())
    assert max(each.ends for each in issued) == issued[0].ends


NOTHING_MORE = Asked()


@dataclass
class Wrong:
    """A call that is refused. `remove`: a file that is gone when it is made."""

    said: str
    asked: Asked = NOTHING_MORE
    text: str = TEXT
    remove: str = ""


@pytest.mark.parametrize(
    "wrong",
    [
        Wrong("a client cannot have the name 'a'", Asked(["a"])),
        Wrong("a client cannot have the name 's1'", Asked(["s1"])),
        Wrong("a client cannot have the name '../x'", Asked(["../x"])),
        Wrong("there is no broker named 'c'", Asked(hosts={"c": ["x"]})),
        Wrong("there is .*a.pem, but not .*a.key", remove="a.key"),
        Wrong("broker a has a certificate, but there is no authority", remove="authority.*"),
        Wrong("insecure = true", text=TEXT.replace("[[broker]]", "insecure = true\n[[broker]]", 1)),
        Wrong("a storage and a broker have the name 'a'", text=TEXT.replace('"s1"', '"a"')),
    ],
    ids=lambda wrong: wrong.said[:30],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    wrong: Wrong, tmp_path: Path
) -> None:
    certify(network_in(tmp_path), Asked(), now())
    for file in tmp_path.glob(f"certificates/{wrong.remove or 'nothing'}"):
        file.unlink()
    before = contents(tmp_path)
    with pytest.raises(ConfigurationError, match=wrong.said):
        certify(network_in(tmp_path, wrong.text), wrong.asked, now())
    assert contents(tmp_path) == before


def test_one_file_for_all_brokers_is_refused(tmp_path: Path) -> None:
    text = with_tls(TEXT).replace("{broker}.pem", "broker.pem")
    network = read_network(text)
    with pytest.raises(ConfigurationError, match="is not a file for each broker"):
        certify(network, Asked(), datetime.now().astimezone())


def test_listeners_that_speak_tls_are_in_the_certificate(tmp_path: Path) -> None:
    listeners = """
[sessions]
directory = "sessions"
[[listener]]
broker = "b"
protocol = "mqtt"
listen = "10.0.0.9:8883"
websocket = "0.0.0.0:8084"
[[listener]]
broker = "b"
protocol = "mqtt"
listen = "127.0.0.1:1883"
"""
    network = network_in(tmp_path, TEXT + listeners)
    certify(network, Asked(), now())
    shown = x509.load_pem_x509_certificate(Path(network.tls.files("b").certificate).read_bytes())
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(each) for each in names.get_values_for_type(x509.IPAddress)} == {
        "10.0.0.1",
        "10.0.0.9",
    }
