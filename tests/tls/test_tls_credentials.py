"""What an end shows and trusts: wrong files are refused in words, and new ones are noticed."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reefcast.errors import ConfigurationError
from reefcast.tls.credentials import broker_credentials, dialling_context
from reefcast.tls.files import Reloading, TlsFiles
from reefcast.tls.identity import broker_uri
from reefcast.tls.making import new_authority, now, write_certificate, write_key
from reefcast.tls.wording import in_words, of_tls
from tls_files import HERE, PEM, Office

URI = broker_uri("net", "a")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def load(files: TlsFiles) -> None:
    broker_credentials(files, "none", URI, "broker a")


def test_tls_1_2_at_least_where_the_machine_allows_less(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = ssl.create_default_context

    def allowing(*args: Any, **options: Any) -> ssl.SSLContext:
        context = default(*args, **options)
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        return context

    monkeypatch.setattr(ssl, "create_default_context", allowing)
    own = broker_credentials(office.broker("net", "a"), "required", URI, "broker a").value
    for context in (own.answering, own.dialling, dialling_context(TlsFiles())):
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_the_defaults_of_the_standard_library(office: Office) -> None:
    own = broker_credentials(office.broker("net", "a"), "required", URI, "broker a").value
    default = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    for context in (own.answering, own.dialling, dialling_context(TlsFiles())):
        assert context.options & default.options == default.options
        assert [each["name"] for each in context.get_ciphers()] == [
            each["name"] for each in default.get_ciphers()
        ]
    assert own.answering.verify_mode == own.dialling.verify_mode == ssl.CERT_REQUIRED
    assert not own.dialling.check_hostname
    assert dialling_context(TlsFiles()).check_hostname
    assert own.identity.is_broker("net", "a")


def test_wrong_files_are_refused_in_words(office: Office, tmp_path: Path) -> None:
    good, other = office.broker("net", "a"), office.broker("net", "b")
    (tmp_path / "text").write_text("text")
    text = str(tmp_path / "text")
    elsewhere = Office(tmp_path / "elsewhere")
    expired = office.expired("old", URI, HERE)
    early = office.issue("early", URI, HERE, begins=now() + timedelta(days=1))
    cases = {
        "certificate .*none: No such file": good._replace(certificate=f"{tmp_path}/none"),
        "key .*none: No such file": good._replace(key=f"{tmp_path}/none"),
        "authority .*none: No such file": good._replace(authority=f"{tmp_path}/none"),
        "the key in .*b.key does not belong": good._replace(key=other.key),
        "are not a certificate and its private key": good._replace(certificate=text),
        "has no certificate of an authority": good._replace(authority=text),
        "not from the authority in .*elsewhere": good._replace(authority=str(elsewhere.file)),
        r"old\.pem has expired: get a new one": expired,
        r"early\.pem is not valid yet": early,
        "good for both ends": office.issue("client", URI),
        "does not say that it is for broker a: .* there is reefcast://net/broker/b": other,
        "there is no URI": office.issue("nameless", "", HERE),
    }
    for said, files in cases.items():
        with pytest.raises(ConfigurationError, match=said):
            load(files)
    load(good)


def test_an_authority_that_expired(office: Office, tmp_path: Path) -> None:
    long_ago = new_authority("old", now() - timedelta(days=4000))
    write_certificate(tmp_path / "old.pem", long_ago.certificate.public_bytes(PEM))
    with pytest.raises(ConfigurationError, match=r"the authority in .*old\.pem expired on 20"):
        load(office.broker("net", "a")._replace(authority=str(tmp_path / "old.pem")))


def test_a_key_with_a_password_asks_nobody(office: Office, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, PrivateFormat

    files = office.broker("net", "a")
    locked = office.authority.key.private_bytes(
        PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    write_key(tmp_path / "a.key", locked)
    with pytest.raises(ConfigurationError, match="keys with a password are not supported"):
        load(files)


def test_certificate_and_key_may_be_one_file(office: Office, tmp_path: Path) -> None:
    files = office.broker("net", "a")
    both = Path(files.certificate).read_bytes() + Path(files.key).read_bytes()
    write_key(tmp_path / "both.pem", both)
    load(TlsFiles(files.authority, str(tmp_path / "both.pem")))


def test_a_revoked_certificate_is_known_by_the_list_beside_the_authority(office: Office) -> None:
    revoked, other = office.broker("net", "a"), office.broker("net", "b")
    office.revoke(revoked)
    with pytest.raises(ConfigurationError, match=r"not from the authority .* revoked"):
        load(revoked)
    broker_credentials(other, "none", broker_uri("net", "b"), "broker b")


# --- new files ------------------------------------------------------------------------------------


def read(files: TlsFiles) -> str:
    text = Path(files.certificate).read_text()
    if text != Path(files.key).read_text():
        raise ConfigurationError("they do not belong together")
    return text


def test_new_files_are_noticed_once_all_are_there(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c", tmp_path / "k"

    def put(*texts: str) -> None:
        for file, text in zip((certificate, key), texts, strict=False):
            (tmp_path / "new").write_text(text)
            (tmp_path / "new").replace(file)

    put("1", "1")
    loaded = Reloading(TlsFiles("", str(certificate), str(key)), read)
    assert loaded.value == "1"
    assert loaded.look() == ""
    put("2")
    assert loaded.look() == ""  # perhaps the other one is being written
    assert loaded.value == "1"
    put("2", "2")
    assert loaded.look() == ""
    assert loaded.value == "2"
    put("3")
    assert loaded.look() == ""
    assert loaded.look() == "they do not belong together"
    assert loaded.look() == ""  # that was said
    assert loaded.look(again=True) == "they do not belong together"
    assert loaded.value == "2"
    put("3", "3")
    assert loaded.look() == ""
    assert loaded.value == "3"
    with pytest.raises(FileNotFoundError):
        certificate.unlink()
        loaded.look()


# --- in words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("WRONG_VERSION_NUMBER", "x does not speak TLS there"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "it wants to see a certificate"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "has expired: get a new one"),
        ("TLSV1_ALERT_UNKNOWN_CA", "from an authority that it does not know"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "does not accept the certificate of this end"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "other versions of TLS"),
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "x showed no certificate"),
        ("SOMETHING_ELSE", "TLS failed: something else"),
    ],
)
def test_reasons_of_openssl(reason: str, said: str) -> None:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    assert said in in_words(error, "x")
    assert of_tls(error)
    assert not of_tls(ConnectionRefusedError())


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (10, "has expired: it must be renewed there"),
        (9, "compare the clocks"),
        (18, "does not trust: name its file"),
        (20, "does not trust: name its file"),
        (23, "is revoked"),
        (12, "the list of revoked ones is missing, or is too old"),
        (26, "not meant for this end"),
        (62, "is for another host"),
        (64, "is for another host"),
        (1, "was refused: unspecified"),
    ],
)
def test_codes_of_openssl(code: int, said: str) -> None:
    error = ssl.SSLCertVerificationError(1, "no")
    error.verify_code, error.verify_message = code, "unspecified"
    assert said in in_words(error, "x")


def test_an_end_in_between() -> None:
    assert "broke off" in in_words(ConnectionResetError(), "x")
    assert "broke off" in in_words(ssl.SSLEOFError(8, "EOF"), "x")
