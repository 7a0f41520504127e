"""What went wrong with TLS, in sentences that say what to do."""

from __future__ import annotations

import ssl

EXPIRED, NOT_YET, UNTRUSTED = 10, 9, (18, 19, 20, 21)
REVOKED, NO_LIST, PURPOSE, HOST, ADDRESS = 23, (3, 11, 12), 26, 62, 64
"""Codes of OpenSSL (x509_vfy.h), which `ssl.SSLCertVerificationError.verify_code` is one of."""
PLAIN = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")
"""Reasons of OpenSSL where the other end sent something that is not TLS."""
ALERTS = {
    "CERTIFICATE_REQUIRED": "it wants to see a certificate, and this end showed none",
    "CERTIFICATE_EXPIRED": "the certificate of this end has expired: get a new one",
    "CERTIFICATE_REVOKED": "the certificate of this end is revoked",
    "UNKNOWN_CA": "the certificate of this end is from an authority that it does not know",
    "PROTOCOL_VERSION": "it speaks other versions of TLS: update the older end",
}
"""Ends of OpenSSL's reasons where the other end refused this one."""
REFUSED = ("ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_UNKNOWN", "ALERT_UNSUPPORTED_CERTIFICATE")


def in_words(error: BaseException, other: str) -> str:
    """Return why there is no connection to `other`, as half of a sentence that goes on after a
    colon."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _not_verified(error, other)
    reason = str(getattr(error, "reason", None) or "")
    if reason in PLAIN:
        return f"{other} does not speak TLS there"
    for end, words in ALERTS.items():
        if reason.endswith(end):
            return f"{other} refused the connection: {words}"
    if reason.endswith(REFUSED):
        return f"{other} refused the connection: it does not accept the certificate of this end"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return f"{other} showed no certificate, and this end wants to see one"
    if isinstance(error, ssl.SSLEOFError | ConnectionError):
        return f"{other} broke off while TLS was agreed on"
    return f"TLS failed: {reason.replace('_', ' ').lower() or error}"


def _not_verified(error: ssl.SSLCertVerificationError, other: str) -> str:
    shown = f"the certificate of {other}"
    code = error.verify_code
    if code == EXPIRED:
        return f"{shown}, or that of its authority, has expired: it must be renewed there"
    if code == NOT_YET:
        return f"{shown} is not valid yet: compare the clocks of both machines"
    if code in UNTRUSTED:
        return f"{shown} is from an authority that this end does not trust: name its file"
    if code in NO_LIST:
        return f"{shown} cannot be verified: the list of revoked ones is missing, or is too old"
    if code == REVOKED:
        return f"{shown} is revoked"
    if code == PURPOSE:
        return f"{shown} is not meant for this end of a connection"
    if code in (HOST, ADDRESS):
        return (
            f"{shown} is for another host: connect to a name or address in the certificate, or say "
            "which name it has (server_name)"
        )
    return f"{shown} was refused: {error.verify_message}"


def of_tls(error: BaseException | None) -> bool:
    """Return whether this is about TLS, and not about the network below."""
    return isinstance(error, ssl.SSLError | ssl.CertificateError)
