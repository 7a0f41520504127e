"""The certificate that an end shows, and what it trusts, as `ssl.SSLContext`s.

Both are the defaults of the standard library: TLS 1.2 or later, its choice of ciphers, certificates
verified. New files on disk count for new connections; connections that exist stay.

A broker verifies its own certificate first, as another broker would: in a handshake with itself, in
memory. So a key that belongs to another certificate, an authority that did not issue it, and one
that has expired are found when they are loaded, and not when somebody connects."""

from __future__ import annotations

import ssl
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reefcast.errors import ConfigurationError, TlsError
from reefcast.tls.alerts import note_last_words
from reefcast.tls.files import Reloading, Signature, TlsFiles, signature
from reefcast.tls.identity import Identity, identity_in, identity_of
from reefcast.tls.wording import EXPIRED, NOT_YET, PURPOSE

Clients = Literal["none", "optional", "required"]
REVOCATIONS = b"-----BEGIN X509 CRL-----"
MOST_STEPS = 20
"""Steps of a handshake in memory; three are usual."""


class Asking(NamedTuple):
    """What is needed to ask a certain broker something. `who`: the broker, in words; `uri`: its
    name in its certificate, "" if its host is checked instead, or the host `server_name`."""

    context: ssl.SSLContext
    who: str = ""
    uri: str = ""
    server_name: str = ""

    def check(self, connection: Any) -> None:
        """Raise `TlsError` if the certificate at the other end of the connection is not that of the
        broker."""
        shown = identity_of(connection)
        if self.uri and (shown is None or self.uri not in shown.uris):
            of = "nobody" if shown is None else shown.subject
            raise TlsError(
                f"what answers for {self.who} shows the certificate of {of}, which does not name "
                f"{self.uri}"
            )


class Own(NamedTuple):
    """What a broker needs of TLS. `answering`: for connections that others make; `dialling`: for
    those that it makes; `ends_s`: when its certificate expires, in seconds since 1970."""

    answering: ssl.SSLContext
    dialling: ssl.SSLContext
    identity: Identity
    ends_s: float


BrokerCredentials = Reloading[Own]


def dialling_context(files: TlsFiles, *, hosts: bool = True) -> ssl.SSLContext:
    """Return the context of an end that dials. `hosts`: the certificate of the other end must be
    for the host that is dialled; brokers are known by their names instead (`identity`).

    Raises `ConfigurationError` if the files are wrong."""
    context = _trusting(ssl.Purpose.SERVER_AUTH, files)
    context.check_hostname = hosts
    _show(context, files)
    return context


def answering_context(files: TlsFiles, clients: Clients) -> ssl.SSLContext:
    """Return the context of an end that is dialled. It asks for certificates in any case, because
    brokers have one; `clients` says whether those without one are turned away at once."""
    context = _trusting(ssl.Purpose.CLIENT_AUTH, files)
    _show(context, files)
    context.verify_mode = ssl.CERT_REQUIRED if clients == "required" else ssl.CERT_OPTIONAL
    # Nobody resumes; and unread tickets would make the end of a short connection a reset.
    context.num_tickets = 0
    note_last_words(context)
    return context


def broker_credentials(files: TlsFiles, clients: Clients, uri: str, who: str) -> BrokerCredentials:
    """Return what a broker or a peer shows and trusts; `uri`: its name in its certificate. Raises
    `ConfigurationError`."""

    def load(files: TlsFiles) -> Own:
        return own(files, clients, uri, who)

    return Reloading(files, load)


def own(files: TlsFiles, clients: Clients, uri: str, who: str) -> Own:
    """Load the files of a broker or a peer, and verify that they prove what it is. Raises
    `ConfigurationError`."""
    answering = answering_context(files, clients)
    dialling = dialling_context(files, hosts=False)
    shown = _shaken(answering, dialling, files)
    identity = identity_in(shown)
    if uri not in identity.uris:
        has = ", ".join(sorted(identity.uris)) or "no URI"
        raise ConfigurationError(
            f"the certificate {files.certificate} does not say that it is for {who}: among its "
            f"subject's alternative names there is {has}, and it needs the URI {uri}"
        )
    return Own(answering, dialling, identity, ssl.cert_time_to_seconds(shown["notAfter"]))


def asking_context(files: TlsFiles, *, hosts: bool) -> ssl.SSLContext:
    """Return the context of `dialling_context`, the same one as long as the files are the same: an
    overlay that starts is asked twenty times a second. Raises `ConfigurationError`."""
    return _kept_context(files, signature(files), hosts)


@lru_cache(maxsize=64)
def _kept_context(files: TlsFiles, _: Signature, hosts: bool) -> ssl.SSLContext:
    return dialling_context(files, hosts=hosts)


def _trusting(purpose: ssl.Purpose, files: TlsFiles) -> ssl.SSLContext:
    """Return a context with the defaults, which trusts the authority in the files, but none of the
    certificates that a revocation list beside it names."""
    if not files.authority:
        return _with_defaults(purpose)
    has_list = REVOCATIONS in _read(files.authority, "authority")
    try:
        context = _with_defaults(purpose, cafile=files.authority)
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"{files.authority} has no certificate of an authority in PEM"
        ) from error
    now_s = time.time()
    ends_s = [ssl.cert_time_to_seconds(str(each["notAfter"])) for each in context.get_ca_certs()]
    if ends_s and max(ends_s) < now_s:
        raise ConfigurationError(
            f"the certificate of the authority in {files.authority} expired on "
            f"{day(max(ends_s))}: make a new authority, and certificates from it"
        )
    if has_list:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def _with_defaults(purpose: ssl.Purpose, cafile: str | None = None) -> ssl.SSLContext:
    """Return a context with the defaults, and TLS 1.2 at least: some distributions build Python so
    that the versions are a setting of the machine."""
    context = ssl.create_default_context(purpose, cafile=cafile)
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    return context


def _show(context: ssl.SSLContext, files: TlsFiles) -> None:
    if not files.certificate:
        return
    _read(files.certificate, "certificate")
    if files.key:
        _read(files.key, "key")
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(files.certificate, files.key or None, password=lambda: "")
    except ssl.SSLError as error:
        key = files.key or files.certificate
        if error.reason == "KEY_VALUES_MISMATCH":
            said = f"the key in {key} does not belong to the certificate {files.certificate}"
        else:
            said = (
                f"{files.certificate} and {key} are not a certificate and its private key in PEM "
                "(keys with a password are not supported)"
            )
        raise ConfigurationError(said) from error


def _read(file: str, what: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{what} {file}: {error.strerror}") from error


def _shaken(answering: ssl.SSLContext, dialling: ssl.SSLContext, files: TlsFiles) -> dict[str, Any]:
    """Return the certificate that both contexts show, after each of them accepted it."""
    to_answering, to_dialling = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        dialling.wrap_bio(to_dialling, to_answering),
        answering.wrap_bio(to_answering, to_dialling, server_side=True),
    )
    try:
        for _ in range(MOST_STEPS):
            for end in ends:
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
    except ssl.SSLCertVerificationError as error:
        raise ConfigurationError(_refused(error, files)) from error
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"the certificate {files.certificate} cannot be used: {error.reason or error}"
        ) from error
    shown = ends[0].getpeercert()
    assert shown is not None, "a client verifies what a server shows"
    return shown


def _refused(error: ssl.SSLCertVerificationError, files: TlsFiles) -> str:
    shown = f"the certificate {files.certificate}"
    if error.verify_code == EXPIRED:
        return f"{shown} has expired: get a new one (reefcast certificates make --renew)"
    if error.verify_code == NOT_YET:
        return f"{shown} is not valid yet: look at the clock of this machine"
    if error.verify_code == PURPOSE:
        return (
            f"{shown} must be good for both ends of a connection (extended key usages serverAuth "
            "and clientAuth), because brokers dial each other"
        )
    return (
        f"{shown} is not from the authority in {files.authority}, which all brokers must have "
        f"theirs from: {error.verify_message}"
    )


def day(time_s: float) -> str:
    """Return the day (UTC) of a time in seconds since 1970."""
    return time.strftime("%Y-%m-%d", time.gmtime(time_s))
