"""Telling who makes a call, and whether that is still true."""

import time
from collections.abc import Callable
from typing import NamedTuple

from kvtier.server.security.anchors import Anchors
from kvtier.server.security.tokens import (
    Token,
    Tokens,
    bearer_token,
    find_token,
    unknown_token,
)
from kvtier.server.security.watched import Watched
from kvtier.server.services.calls import Context
from kvtier.wire.errors import KvtierError, Reason, unauthenticated


class Caller(NamedTuple):
    """Who makes a call, and by what.

    Attributes:
        identity: Who it is: spiffe://DOMAIN/PATH, dns:NAME, uri:URI or token:NAME.
        certificate: The certificate of the connection, PEM; empty without one.
        between: Those that came with it, PEM.
        token: The token of the call; None without one.
    """

    identity: str
    certificate: bytes
    between: bytes
    token: Token | None


class Authentication:
    """Knows callers by the certificate of their connection, or by the bearer token of the call.

    A caller that has both is the token's. What the certificate was at the handshake says nothing of
    now, so that it is judged again with each call.

    Args:
        anchors: Who stands for certificates; None when callers have none.
        tokens: The tokens; None when there are none.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        anchors: Anchors | None,
        tokens: Watched[Tokens] | None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._anchors = anchors
        self._tokens = tokens
        self._now = now

    def caller(self, context: Context) -> Caller:
        """Return who makes a call.

        Raises:
            KvtierError: UNAUTHENTICATED.
        """
        certificate, between = self._certificates(context)
        identity = self._identity(certificate, between)
        token = self._token(context)
        if token is not None:
            identity = f"token:{token.name}"
        if not identity:
            raise self._nobody()
        return Caller(identity, certificate, between, token)

    def check(self, caller: Caller) -> None:
        """Check that a caller that was known still is.

        Raises:
            KvtierError: UNAUTHENTICATED.
        """
        self._identity(caller.certificate, caller.between)
        if caller.token is not None and caller.token not in self._known():
            raise unauthenticated(
                f"the token of {caller.identity} is not known any more: send a current one",
                Reason.REVOKED,
            )

    def _certificates(self, context: Context) -> tuple[bytes, bytes]:
        if self._anchors is None:
            return b"", b""
        about = context.auth_context()
        (certificate,) = about.get("x509_pem_cert", (b"",))
        (between,) = about.get("x509_pem_cert_chain", (b"",))
        return bytes(certificate), bytes(between)

    def _identity(self, certificate: bytes, between: bytes) -> str:
        if self._anchors is None or not certificate:
            return ""
        return self._anchors.trust.identity(certificate, between, self._now())

    def _token(self, context: Context) -> Token | None:
        if self._tokens is None:
            return None
        metadata = context.invocation_metadata() or ()
        sent = bearer_token(str(value) for key, value in metadata if key == "authorization")
        if sent is None:
            return None
        found = find_token(sent, self._known())
        if found is None:
            raise unknown_token()
        return found

    def _known(self) -> Tokens:
        return self._tokens.value if self._tokens else ()

    def _nobody(self) -> KvtierError:
        ways = []
        if self._tokens is not None:
            ways.append("send the metadata 'authorization: Bearer TOKEN'")
        if self._anchors is not None:
            ways.append("connect with a certificate")
        return unauthenticated(
            f"this server answers nobody that it does not know: {', or '.join(ways)}",
            Reason.NO_IDENTITY,
        )
