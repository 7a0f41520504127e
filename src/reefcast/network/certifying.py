"""Certificates for all members of a network file, from a private authority of its own.

Nothing that exists is overwritten, except certificates that are to be renewed, and the authority
never is: all certificates depend on it. So the same call later makes what is missing by then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from reefcast.errors import ConfigurationError
from reefcast.network.admin_addresses import EVERYWHERE
from reefcast.network.file import NetworkFile, parse_network
from reefcast.network.sections import OWN_NAME, TlsSection
from reefcast.protocol.privacy import is_loopback
from reefcast.tls.files import TlsFiles
from reefcast.tls.identity import broker_uri, peer_uri, storage_uri
from reefcast.tls.making import (
    MOST_NAME_CHARS,
    Authority,
    Wanted,
    end_of,
    new_authority,
    new_certificate,
    pem_of,
    read_authority,
    write_certificate,
    write_key,
)

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SECTION = f"""
[tls]
certificate = "certificates/{OWN_NAME}.pem"
key = "certificates/{OWN_NAME}.key"
authority = "certificates/authority.pem"
"""
"""What a network file gets that says nothing of TLS."""


class Asked(NamedTuple):
    """What is asked for besides the members of the file. `clients`: names; `peers`: hosts on which
    peers listen; `hosts`: by broker or storage, more names and addresses on which it is
    reached."""

    clients: Sequence[str] = ()
    peers: Sequence[str] = ()
    hosts: Mapping[str, Sequence[str]] = {}
    days: int = 365
    renew: bool = False


class Issued(NamedTuple):
    """A certificate that is there now. `who`: for whom; `made`: whether it is new."""

    who: str
    certificate: Path
    key: Path
    ends: datetime
    made: bool


def with_tls(text: str) -> str:
    """Return the text of a network file with a section about TLS, if it had none."""
    return text if parse_network(text).tls.on else f"{text.rstrip()}\n{SECTION}"


def certify(network: NetworkFile, asked: Asked, now: datetime) -> list[Issued]:
    """Make what is missing of the authority, which comes first in the answer, and of the
    certificates. The paths in the file must be found from here (`load_network`).

    Raises `ConfigurationError` for names that cannot have a certificate, and where a key or a
    certificate is there without the other."""
    _check_patterns(network.tls)
    wanted = dict(_wanted(network, asked))
    listening = {entry.name for entry in network.storage if entry.admin}
    for name in set(asked.hosts) - listening:
        network.entry(name)
    authority_files = TlsFiles(certificate=network.tls.authority, key=key_of(network.tls.authority))
    present = [_is_there(files, who) for files, (who, _) in wanted.items()]
    if _is_there(authority_files, "the authority"):
        authority = read_authority(*map(Path, authority_files.own))
        first = Issued("the authority", *_paths(authority_files), _end(authority), False)
    else:
        _refuse_others(network, wanted, present)
        authority = new_authority(network.network.name, now)
        _write_authority(authority, authority_files)
        first = Issued("the authority", *_paths(authority_files), _end(authority), True)
    return [first, *(_issued(authority, *each, asked, now) for each in wanted.items())]


def _check_patterns(tls: TlsSection) -> None:
    for name in ("certificate", "key"):
        if OWN_NAME not in getattr(tls, name):
            raise ConfigurationError(
                f"[tls] {name} = {getattr(tls, name)!r} is not a file for each broker: let "
                f"{OWN_NAME} stand for its name"
            )


def key_of(authority: str) -> str:
    """Return where the private key of an authority is, beside its certificate."""
    return str(Path(authority).with_suffix(".key"))


def _wanted(network: NetworkFile, asked: Asked) -> Iterator[tuple[TlsFiles, tuple[str, Wanted]]]:
    """Yield, for each certificate that there is to be, its files, and for whom it is and what it
    says."""
    tls, name = network.tls, network.network.name
    members = {*network.names, *(entry.name for entry in network.storage)}
    for entry in network.broker:
        others = (*_listening(network, entry.name), *asked.hosts.get(entry.name, ()))
        hosts = _hosts(entry.address[0], others)
        yield (
            tls.files(entry.name),
            _member(f"broker {entry.name}", entry.name, broker_uri(name, entry.name), hosts),
        )
    for storage in network.storage:
        uri = storage_uri(name, storage.name)
        where = storage.admin_address
        hosts = () if where is None else _hosts(where[0], asked.hosts.get(storage.name, ()))
        yield tls.files(storage.name), _member(f"storage {storage.name}", storage.name, uri, hosts)
    for host in asked.peers:
        file = f"peer-{host.replace(':', '-')}"
        yield tls.files(file), _member(f"peers on {host}", file, peer_uri(name), _hosts(host, ()))
    for client in asked.clients:
        if client in members or "/" in client:
            raise ConfigurationError(
                f"a client cannot have the name {client!r}: a broker or a storage has it, or it "
                "is no name of a file"
            )
        yield tls.files(client), (f"client {client}", Wanted(client))


def _member(who: str, name: str, uri: str, hosts: tuple[str, ...] = ()) -> tuple[str, Wanted]:
    return who, Wanted(name[:MOST_NAME_CHARS], uri, hosts)


def _hosts(host: str, more: Sequence[str]) -> tuple[str, ...]:
    here = is_loopback(host) or host in EVERYWHERE
    named = LOOPBACK if here else (host,)
    return tuple(dict.fromkeys((*named, *more)))


def _listening(network: NetworkFile, broker: str) -> Iterator[str]:
    """Yield the hosts on which listeners of a broker speak TLS, but for those that stand for every
    address."""
    for each in network.listener:
        for host, _ in each.addresses if each.broker == broker else ():
            if each.speaks_tls(host, True) and host not in EVERYWHERE:
                yield host


def _is_there(files: TlsFiles, who: str) -> bool:
    """Return whether both files are there. Raises `ConfigurationError` if one of them is."""
    there = [Path(each).exists() for each in files.own]
    if any(there) and not all(there):
        lacking = files.own[there.index(False)]
        raise ConfigurationError(
            f"of {who} there is {files.own[there.index(True)]}, but not {lacking}: fetch the one, "
            "or remove the other"
        )
    return all(there)


def _refuse_others(
    network: NetworkFile, wanted: Mapping[TlsFiles, tuple[str, Wanted]], present: Sequence[bool]
) -> None:
    """Refuse to make an authority beside certificates that are from another one."""
    if any(present):
        who, _ = list(wanted.values())[present.index(True)]
        raise ConfigurationError(
            f"{who} has a certificate, but there is no authority {network.tls.authority} with its "
            "key: fetch them from where they are kept, or remove all certificates"
        )


def _write_authority(authority: Authority, files: TlsFiles) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    certificate, key = _paths(files)
    write_key(key, pem_of(authority.key))
    write_certificate(certificate, authority.certificate.public_bytes(Encoding.PEM))


def _issued(
    authority: Authority, files: TlsFiles, wanted: tuple[str, Wanted], asked: Asked, now: datetime
) -> Issued:
    (certificate, key), (who, what) = _paths(files), wanted
    if certificate.exists() and not asked.renew:
        return Issued(who, certificate, key, end_of(certificate.read_bytes()), False)
    made, private = new_certificate(authority, what, asked.days, now)
    write_key(key, private)
    write_certificate(certificate, made)
    return Issued(who, certificate, key, end_of(made), True)


def _paths(files: TlsFiles) -> tuple[Path, Path]:
    return Path(files.certificate), Path(files.key)


def _end(authority: Authority) -> datetime:
    return authority.certificate.not_valid_after_utc
