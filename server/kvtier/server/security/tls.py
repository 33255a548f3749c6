"""TLS of what is served, with certificates that may change while it is."""

from collections.abc import Callable

import grpc
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kvtier.server.config.security import TlsConfig
from kvtier.server.security.anchors import Anchors
from kvtier.server.security.watched import Watched
from kvtier.wire.certificates import CertificateError, KeyPair, load_key_pair, parse

MakeCredentials = Callable[[], grpc.ServerCredentials]


class ServerTls:
    """What a server shows to callers, and whose certificates it wants of them.

    Args:
        config: The files.

    Attributes:
        anchors: Who stands for callers; None when they need no certificate.

    Raises:
        CertificateError: When a file cannot be used.
    """

    def __init__(self, config: TlsConfig) -> None:
        self._config = config
        self._pair = Watched(
            "certificate", [config.cert, config.key], lambda: _load(config), CertificateError
        )
        self.anchors = Anchors(config.client_ca, config.crl) if config.client_ca else None
        self._configuration = self._configure()

    def credentials(self) -> grpc.ServerCredentials:
        """Return what one address is served with; each address needs its own.

        Every handshake goes by the files as they were read last.
        """
        given = self._configuration

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            nonlocal given
            if self._configuration is given:
                return None
            given = self._configuration
            return given

        return grpc.dynamic_ssl_server_credentials(
            given,
            fetch,  # type: ignore[arg-type]  # None stands for no change
            self.anchors is not None,
        )

    def look(self) -> None:
        """Read what has changed."""
        shown = self._pair.look()
        wanted = self.anchors is not None and self.anchors.look()
        if shown or wanted:
            self._configuration = self._configure()

    def expiries(self) -> dict[str, float]:
        """Return when the first certificate of each file ends, in seconds since the epoch."""
        files = {"cert": parse(self._pair.value.chain, self._config.cert)}
        if self.anchors is not None:
            files["client_ca"] = list(self.anchors.certificates)
        return {
            file: min(each.not_valid_after_utc for each in certificates).timestamp()
            for file, certificates in files.items()
        }

    def _configure(self) -> grpc.ServerCertificateConfiguration:
        pair = self._pair.value
        return grpc.ssl_server_certificate_configuration(
            [(pair.key, pair.chain)], self.anchors.pem if self.anchors else None
        )


def _load(config: TlsConfig) -> KeyPair:
    pair = load_key_pair(config.cert, config.key)
    key = pair.certificate.public_key()
    curve = key.curve if isinstance(key, ec.EllipticCurvePublicKey) else None
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey) or (
        curve is not None and not isinstance(curve, ec.SECP256R1 | ec.SECP384R1)
    ):
        raise CertificateError(
            config.key, "is of a kind that callers of gRPC do not verify; use RSA, P-256 or P-384"
        )
    return pair
