"""A private authority and certificates from it, for a network that has no authority yet.

The keys are ECDSA P-256, as every TLS library of today has them; keys are readable by their owner
alone. The private key of the authority can make new members of the network: it lies beside the
others for trying out, and belongs elsewhere, or nowhere, when this is over."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from reefcast.errors import ConfigurationError

AUTHORITY_DAYS = 3650
EARLY = timedelta(hours=1)
"""Certificates are valid from a while before they were made, for machines whose clocks are late."""
KEY_MODE, CERTIFICATE_MODE = 0o600, 0o644
MOST_NAME_CHARS = 64
"""Characters of a common name (RFC 5280, ub-common-name)."""


class Wanted(NamedTuple):
    """A certificate to be made. `name`: the common name of its subject; `uri`: the name of a member
    of a network, "" for a client; `hosts`: names and addresses on which it is dialled."""

    name: str
    uri: str = ""
    hosts: tuple[str, ...] = ()


class Authority(NamedTuple):
    """An authority that can make certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def new_authority(name: str, now: datetime) -> Authority:
    """Make an authority, whose certificates are valid for ten years at most."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(f"Reefcast authority of {name}"[:MOST_NAME_CHARS])
    usage = _usage(key_cert_sign=True, crl_sign=True)
    made = (
        _builder(subject, subject, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(made, key)


def read_authority(certificate: Path, key: Path) -> Authority:
    """Read an authority that was made before. Raises `ConfigurationError` if these are not its
    certificate and its private key."""
    said = f"{certificate} and {key} are not the certificate and the key of an authority"
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = load_pem_private_key(key.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{said}: {error}") from error
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise ConfigurationError(f"{said} that this command can use: its key is not ECDSA")
    if private.public_key() != found.public_key():
        raise ConfigurationError(f"{said}: the key belongs to another certificate")
    return Authority(found, private)


def new_certificate(
    authority: Authority, wanted: Wanted, days: int, now: datetime
) -> tuple[bytes, bytes]:
    """Make a certificate and its key; return both in PEM. It ends with its authority at the
    latest."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer, issued_with = authority.certificate, authority.key
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if wanted.hosts:
        usages.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
    left = (issuer.not_valid_after_utc - now).days
    builder = (
        _builder(_subject(wanted.name), issuer.subject, key, now, min(days, left))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issued_with.public_key()),
            critical=False,
        )
    )
    names = list(_names(wanted))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = builder.sign(issued_with, hashes.SHA256())
    return made.public_bytes(Encoding.PEM), pem_of(key)


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def end_of(certificate: bytes) -> datetime:
    """Return when a certificate in PEM expires."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def write_key(file: Path, pem: bytes) -> None:
    """Write a private key, which nobody but its owner may read, in one step."""
    _write(file, pem, KEY_MODE)


def write_certificate(file: Path, pem: bytes) -> None:
    _write(file, pem, CERTIFICATE_MODE)


def _write(file: Path, data: bytes, mode: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")  # mode 0600
    written = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        written.chmod(mode)
        written.replace(file)
    except BaseException:
        written.unlink()
        raise


def _subject(name: str) -> x509.Name:
    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    except ValueError as error:
        raise ConfigurationError(
            f"the name {name!r} cannot stand in a certificate: it has 1 to {MOST_NAME_CHARS} "
            "characters"
        ) from error


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLY)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _names(wanted: Wanted) -> Iterable[x509.GeneralName]:
    for host in wanted.hosts:
        try:
            yield x509.IPAddress(ip_address(host))
        except ValueError:
            yield x509.DNSName(host)
    if wanted.uri:
        yield x509.UniformResourceIdentifier(wanted.uri)


def now() -> datetime:
    return datetime.now(UTC)
