"""What a client shows and trusts: by options, by the environment, by URL."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from reefcast.client.address import Address, parse_addresses
from reefcast.client.secure import Security, security
from reefcast.client.settings import complete
from reefcast.errors import ConfigurationError
from tls_files import Office

SECURE, PLAIN = Address("a", 1, tls=True), Address("a", 1)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AUTHORITY", "CERTIFICATE", "KEY", "SERVER_NAME"):
        monkeypatch.delenv(f"REEFCAST_{name}", raising=False)


def made(*addresses: Address, **options: Any) -> Security | None:
    return security(complete(options), addresses)  # type: ignore[typeddict-item]  # some of them


def test_urls_say_whether_there_is_tls() -> None:
    assert parse_addresses("reefcast+tls://a:1,reefcast://b") == (SECURE, Address("b", 7301))
    assert str(parse_addresses("reefcast+tls://[::1]")[0]) == "reefcast+tls://[::1]:7301"
    with pytest.raises(ConfigurationError, match=r"write reefcast\+tls://host:port"):
        parse_addresses("reefcast+tls://user@a:1")


def test_without_a_url_with_tls_there_is_none(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment says what to use if there is TLS, not that there must be."""
    assert made(PLAIN) is None
    monkeypatch.setenv("REEFCAST_AUTHORITY", "/nowhere")
    assert made(PLAIN) is None
    with pytest.raises(ConfigurationError, match="authority /nowhere: No such file"):
        made(SECURE)
    assert made(SECURE, authority=str(office.file)) is not None


@pytest.mark.parametrize("name", ["authority", "certificate", "key", "server_name"])
def test_an_option_is_a_promise(name: str) -> None:
    """A client that is told whom to trust never connects to anybody without TLS."""
    with pytest.raises(ConfigurationError, match=rf"{name} would protect .* write reefcast\+tls"):
        made(SECURE, PLAIN, **{name: "x"})


def test_by_default_the_authorities_of_the_system_count() -> None:
    found = made(SECURE)
    assert found is not None
    arguments = found.arguments(2.0)
    assert arguments["ssl"].verify_mode == ssl.CERT_REQUIRED
    assert arguments["ssl"].check_hostname
    assert arguments["ssl_handshake_timeout"] == 2.0
    assert "server_hostname" not in arguments


def test_options_come_before_the_environment(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = office.issue("c")
    monkeypatch.setenv("REEFCAST_SERVER_NAME", "north")
    monkeypatch.setenv("REEFCAST_KEY", files.key)
    with pytest.raises(ConfigurationError, match="proves nothing without its certificate"):
        made(SECURE)
    monkeypatch.setenv("REEFCAST_CERTIFICATE", files.certificate)
    found = made(SECURE, authority=files.authority)
    assert found is not None
    assert found.arguments(1.0)["server_hostname"] == "north"
    found = made(SECURE, server_name="south")
    assert found is not None
    assert found.arguments(1.0)["server_hostname"] == "south"


def test_wrong_new_files_are_logged_and_change_nothing(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    files = office.issue("c")
    found = made(SECURE, **files._asdict())
    assert found is not None
    context = found.arguments(1.0)["ssl"]
    Path(files.key).write_text("text")
    found.arguments(1.0)
    assert found.arguments(1.0)["ssl"] is context
    assert "are not a certificate and its private key" in caplog.text
    office.issue("c")
    assert found.arguments(1.0)["ssl"] is not context
