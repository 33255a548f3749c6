"""What a proxy does not do: change anything, or move bytes."""

from typing import Any, NoReturn

import grpc

from kvtier.proxy.behind import Members
from kvtier.wire.errors import KvtierError, Reason


class _Refusing:
    """Refuses calls, and tells where they are to be made.

    Args:
        members: Whom the proxy follows.
    """

    def __init__(self, members: Members) -> None:
        self._members = members

    def refuse(self, _request: Any) -> NoReturn:
        """Refuse a call with one answer."""
        primary = self._members.primary.endpoint
        raise KvtierError(
            grpc.StatusCode.UNIMPLEMENTED,
            Reason.PROXY_ONLY_READS,
            f"a proxy only reads; make this call at the primary, {primary}",
            metadata={"primary": primary},
        )

    async def refuse_stream(self, request: Any, _send: Any) -> NoReturn:
        """Refuse a call with a stream of answers."""
        self.refuse(request)


class RefusedWrites(_Refusing):
    """The calls of TierService that change something, each refused."""

    register_namespace = delete_namespace = _Refusing.refuse
    prepare_store = complete_store = prepare_load = complete_load = _Refusing.refuse
    renew_leases = release_leases = touch_blocks = pin_blocks = unpin_blocks = _Refusing.refuse
    delete_blocks = clear_tier = _Refusing.refuse
    copy_blocks = _Refusing.refuse_stream


class RefusedTransfers(_Refusing):
    """The calls of TransferService, each refused: a proxy has no blocks."""

    map_tier = _Refusing.refuse
    write_blocks = read_blocks = lease_blocks = _Refusing.refuse_stream
