"""The nodes that the configuration allows to pull blocks from."""

from collections.abc import Sequence

from kvtier.server.channel_options import Option
from kvtier.server.peers.peer import Peer
from kvtier.wire.credentials import Credentials
from kvtier.wire.errors import Reason, denied, invalid, quote


class Peers:
    """The peers by their addresses; nothing is dialled or looked up before it is read from.

    Args:
        own: The address that this node listens on.
        endpoints: The addresses of the peers, HOST:PORT.
        timeout: How long a peer may send nothing, in seconds.
        pause: How long a peer is left alone after a failure, in seconds.
        options: gRPC's options of the connections.
        credentials: TLS and who this node is; None for plaintext.
    """

    def __init__(
        self,
        own: str,
        endpoints: Sequence[str],
        *,
        timeout: float,
        pause: float,
        options: Sequence[Option],
        credentials: Credentials | None = None,
    ) -> None:
        self._own = own
        self._peers = {
            endpoint: Peer(
                endpoint, timeout=timeout, pause=pause, options=options, credentials=credentials
            )
            for endpoint in endpoints
        }

    def get(self, endpoint: str) -> Peer:
        """Return a peer by its address, exactly as it is configured.

        Raises:
            KvtierError: INVALID_ARGUMENT for the node itself, PERMISSION_DENIED for an address that
                is not configured.
        """
        if endpoint == self._own:
            raise invalid(f"from_peer.endpoint {quote(endpoint)} is this node; use from_tier")
        peer = self._peers.get(endpoint)
        if peer is None:
            raise denied(
                f"from_peer.endpoint {quote(endpoint)} is no peer of this node: add it to peers in "
                "the configuration, or write it as it stands there",
                Reason.PEER_NOT_ALLOWED,
            )
        return peer

    async def close(self) -> None:
        """Close the connections."""
        for peer in self._peers.values():
            await peer.close()
