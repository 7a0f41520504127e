"""Certificates for tests: an authority of their own, and whatever it signs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace

from reefcast.network.file import NetworkFile
from reefcast.network.sections import TlsSection
from reefcast.tls.files import TlsFiles
from reefcast.tls.identity import broker_uri
from reefcast.tls.making import (
    Wanted,
    new_authority,
    new_certificate,
    now,
    pem_of,
    write_certificate,
    write_key,
)

PEM = Encoding.PEM
HERE = ("127.0.0.1", "::1", "localhost")


class Office:
    """An authority whose files are in `folder`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self.file = folder / f"{name}.pem"
        self.authority = new_authority(name, now() - timedelta(days=100))
        write_certificate(self.file, self.authority.certificate.public_bytes(PEM))
        write_key(self.file.with_suffix(".key"), pem_of(self.authority.key))

    def issue(
        self,
        name: str,
        uri: str = "",
        hosts: Iterable[str] = (),
        days: int = 10,
        begins: datetime | None = None,
    ) -> TlsFiles:
        """Writes `name`.pem and `name`.key."""
        wanted = Wanted(name, uri, tuple(hosts))
        certificate, key = new_certificate(self.authority, wanted, days, begins or now())
        files = TlsFiles(
            str(self.file), str(self.folder / f"{name}.pem"), str(self.folder / f"{name}.key")
        )
        write_key(Path(files.key), key)
        write_certificate(Path(files.certificate), certificate)
        return files

    def broker(self, network: str, name: str, days: int = 10) -> TlsFiles:
        return self.issue(name, broker_uri(network, name), HERE, days)

    def revoke(self, files: TlsFiles) -> None:
        """Add a list to the file of the authority, by which this certificate is revoked."""
        certificate = x509.load_pem_x509_certificate(Path(files.certificate).read_bytes())
        row = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number)
        revoked = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.authority.certificate.subject)
            .last_update(now() - timedelta(hours=1))
            .next_update(now() + timedelta(days=1))
            .add_revoked_certificate(row.revocation_date(now()).build())
            .sign(self.authority.key, hashes.SHA256())
        )
        write_certificate(self.file, self.file.read_bytes() + revoked.public_bytes(PEM))

    def remove(self, name: str) -> None:
        (self.folder / f"{name}.pem").unlink()

    def expired(self, name: str, uri: str = "", hosts: Iterable[str] = ()) -> TlsFiles:
        return self.issue(name, uri, hosts, days=1, begins=now() - timedelta(days=3))

    def secured(self, network: NetworkFile, clients: str = "none") -> NetworkFile:
        """The network with TLS, and a certificate for each of its brokers."""
        for name in network.names:
            self.broker(network.network.name, name)
        section = TlsSection(
            certificate=f"{self.folder}/{{broker}}.pem",
            key=f"{self.folder}/{{broker}}.key",
            authority=str(self.file),
            clients=clients,  # type: ignore[arg-type]  # a word of the file
        )
        return replace(network, tls=section).validate()
