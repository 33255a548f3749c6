"""Why a connection was not made, in words, out of what gRPC says of a TLS handshake."""

_NOT_CONNECTED = "failed to connect to all addresses"
_UNTRUSTED = (
    "shows a certificate of an authority that is not trusted here; check which authorities are"
)
_BY_WORDS = {
    "Hostname Verification Check failed": "shows a certificate for another name; call it by a "
    "name in its certificate, or say which name it has to have",
    "certificate has expired": "shows a certificate that has expired; renew it there",
    "certificate is not yet valid": "shows a certificate that is not valid yet; check the clocks",
    "CERTIFICATE_VERIFY_FAILED": _UNTRUSTED,
    # Two authorities may have one name.
    "BAD_SIGNATURE": _UNTRUSTED,
    "certificate signature failure": _UNTRUSTED,
    "WRONG_VERSION_NUMBER": "does not speak TLS; call it without TLS, or set its tls",
}
_REFUSED = (
    "ended the TLS handshake; it may want a client certificate, or another one than it was shown"
)
_WANTS_TLS = "ended the connection at once; it may serve TLS, which was not asked for"


def why_no_tls(details: str) -> str:
    """Return why TLS with another side failed, to stand after its name; empty when it did not.

    Args:
        details: What gRPC says of a call over a channel with TLS that ended with UNAVAILABLE.
    """
    for words, why in _BY_WORDS.items():
        if words in details:
            return why
    refused = _closed_at_once(details) or "Tls handshake failed" in details
    return _REFUSED if refused else ""


def why_no_plaintext(details: str) -> str:
    """Return why plaintext failed, if the other side may serve TLS; empty when it seems not to.

    Args:
        details: What gRPC says of a call over a plaintext channel that ended with UNAVAILABLE.
    """
    return _WANTS_TLS if _closed_at_once(details) else ""


def _closed_at_once(details: str) -> bool:
    """Tell whether the other side took part in the handshake, if any, and closed then.

    Of one that closes before, as a load balancer does with nobody behind it, gRPC says "Handshake
    read failed".
    """
    closed = ": Socket closed" in details or "Connection reset" in details
    return _NOT_CONNECTED in details and closed and "Handshake read failed" not in details
