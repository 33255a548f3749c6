"""The settings of who may connect, who may do what, and how the process connects to others."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from kvtier.server.config.addresses import check_listen
from kvtier.server.config.values import Settings

Role = Literal["reader", "writer", "admin"]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=512)]

_OF_TOKENS = "token:"
_OF_CERTIFICATES = ("spiffe://", "dns:", "uri:")


class TlsConfig(Settings):
    """TLS of what is served. The files are read again when they change, without a restart."""

    cert: Path = Field(description="The certificate and those above it, a PEM file.")
    key: Path = Field(description="The private key of the certificate, a PEM file.")
    client_ca: Path | None = Field(
        default=None,
        description="The authorities whose certificates callers must have, a PEM file. Unset: "
        "callers need none.",
    )
    crl: Path | None = Field(
        default=None,
        description="Only with client_ca: the certificates that were revoked, a PEM file of "
        "revocation lists, each signed by an authority in client_ca.",
    )

    @model_validator(mode="after")
    def _only_known_authorities_revoke(self) -> Self:
        if self.crl is not None and self.client_ca is None:
            raise ValueError("crl does nothing without client_ca; remove it, or set client_ca")
        return self


class GrantConfig(Settings):
    """What a caller may do."""

    identity: Pattern = Field(
        description="Whom it is for: spiffe://DOMAIN/PATH, dns:NAME or uri:URI of a certificate, "
        "or token:NAME. * stands for any text."
    )
    role: Role = Field(
        description="reader: watch, look up, list and describe. writer: besides, store, load, "
        "touch and pin. admin: besides, register and delete namespaces, delete, clear, copy and "
        "drain."
    )
    namespaces: tuple[Pattern, ...] = Field(
        default=("*",),
        description="The namespaces that it is for, by name. * stands for any text.",
    )

    @field_validator("identity")
    @classmethod
    def _somebody_may_have_it(cls, identity: str) -> str:
        if not any(_may_match(identity, kind) for kind in (_OF_TOKENS, *_OF_CERTIFICATES)):
            raise ValueError(
                f"{identity!r} is nobody's identity; write spiffe://DOMAIN/PATH, dns:NAME, "
                "uri:URI or token:NAME"
            )
        return identity

    @property
    def for_tokens(self) -> bool:
        """Whether a caller with a token may be meant."""
        return _may_match(self.identity, _OF_TOKENS)

    @property
    def for_certificates(self) -> bool:
        """Whether a caller with a certificate may be meant."""
        return any(_may_match(self.identity, kind) for kind in _OF_CERTIFICATES)


class AuthConfig(Settings):
    """Who may do what."""

    tokens: Path | None = Field(
        default=None,
        description="A file of bearer tokens, one NAME and SHA-256 in hexadecimal a line, which is "
        "read again when it changes.",
    )
    grants: tuple[GrantConfig, ...] | None = Field(
        default=None,
        description="What each caller may do; whom none is for may do nothing. Unset: every caller "
        "with a certificate or a token may do everything.",
    )

    @field_validator("grants")
    @classmethod
    def _somebody_may_do_something(
        cls, grants: tuple[GrantConfig, ...] | None
    ) -> tuple[GrantConfig, ...] | None:
        if grants == ():
            raise ValueError(
                "grants is empty, so that nobody may do anything; write one, or leave grants out"
            )
        return grants


class ConnectConfig(Settings):
    """TLS and identity towards other nodes. The files are read again when they change."""

    ca: Path | None = Field(
        default=None,
        description="The authorities of the other nodes' certificates, a PEM file. Unset: those "
        "of the system.",
    )
    cert: Path | None = Field(
        default=None, description="The certificate to show, a PEM file; with key."
    )
    key: Path | None = Field(default=None, description="Its private key, a PEM file; with cert.")
    token: Path | None = Field(default=None, description="A file with a bearer token.")

    @model_validator(mode="after")
    def _a_certificate_has_a_key(self) -> Self:
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key belong together; set both, or neither")
        return self


def _may_match(pattern: str, kind: str) -> bool:
    """Return whether a pattern of identities may stand for one that begins so."""
    fixed = pattern.partition("*")[0]
    return fixed.startswith(kind) or ("*" in pattern and kind.startswith(fixed))


def _check_tls(tls: TlsConfig | None, info: ValidationInfo) -> TlsConfig | None:
    if tls is not None and info.data.get("insecure"):
        raise ValueError("tls and insecure contradict each other; remove one of them")
    return tls


def _check_auth(auth: AuthConfig | None, info: ValidationInfo) -> AuthConfig | None:
    # What was refused is told by its own error.
    if auth is None or "tls" not in info.data:
        return auth
    tls: TlsConfig | None = info.data["tls"]
    certificates = tls is not None and tls.client_ca is not None
    if auth.tokens is None and not certificates:
        raise ValueError(
            "auth knows callers by auth.tokens or by tls.client_ca, and there is neither; set one"
        )
    for grant in auth.grants or ():
        if not (auth.tokens and grant.for_tokens) and not (certificates and grant.for_certificates):
            needed = "auth.tokens" if grant.for_tokens else "tls.client_ca"
            raise ValueError(f"the grant for {grant.identity!r} is for nobody without {needed}")
    return auth


def _check_listen(listen: str, info: ValidationInfo) -> str:
    if not {"tls", "auth", "insecure"} <= info.data.keys():
        # The error is in one of these.
        return check_listen(listen, tls=True, insecure=True, tokens=False)
    auth: AuthConfig | None = info.data["auth"]
    return check_listen(
        listen,
        tls=info.data["tls"] is not None,
        insecure=info.data["insecure"],
        tokens=auth is not None and auth.tokens is not None,
    )


# The settings of a server, in this order: `insecure`, `tls`, `auth`, `listen`.
ServedTls = Annotated[
    TlsConfig | None,
    AfterValidator(_check_tls),
    Field(description="TLS of what is served. Unset: none, and only on loopback."),
]
CheckedAuth = Annotated[
    AuthConfig | None,
    AfterValidator(_check_auth),
    Field(description="Who may do what. Unset: whoever can connect may do everything."),
]
Listen = Annotated[str, AfterValidator(_check_listen)]
