"""gRPC's server, for as long as the process serves: made anew when a peer has broken it.

grpc.aio decodes the name of a called method as UTF-8 outside of any call. Bytes that are none,
which any peer may send, end its server for good, and nobody is told.
"""

import asyncio
from collections.abc import Callable, Sequence

import grpc
import grpc.aio
import structlog

from kvtier.server.channel_options import Option
from kvtier.server.serving.listening import listen_on
from kvtier.server.serving.starting import StartError

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 0.1
# The old server lets go of the address a moment after it broke.
_BIND_SECONDS = 10.0
# How long calls under way at a server that broke may go on.
_GRACE = 30.0


class Front:
    """What calls come to.

    Args:
        options: The channel options.

    Attributes:
        address: Where it listens, with the real port; known after `listen`.
    """

    def __init__(self, options: Sequence[Option]) -> None:
        self.address = ""
        self._options = options
        self._handlers: list[grpc.GenericRpcHandler] = []
        self._credentials: Callable[[], grpc.ServerCredentials] | None = None
        self._server = grpc.aio.server(options=options)
        self._keeping_up: asyncio.Task[None] | None = None
        self._broken: dict[grpc.aio.Server, asyncio.Task[None]] = {}

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Serve what these handle; before it starts."""
        self._handlers.extend(handlers)
        self._server.add_generic_rpc_handlers(handlers)

    def listen(
        self, endpoint: str, credentials: Callable[[], grpc.ServerCredentials] | None
    ) -> str:
        """Bind an address, as `listen_on` does, and return it.

        Raises:
            StartError: When it cannot be bound.
        """
        self._credentials = credentials
        self.address = listen_on(self._server, endpoint, credentials)
        return self.address

    async def start(self) -> asyncio.Task[None]:
        """Take calls, and return what keeps it up, which fails when that is not possible."""
        await self._server.start()
        self._keeping_up = asyncio.create_task(self._keep_up())
        return self._keeping_up

    async def stop(self, grace: float) -> None:
        """Take no more calls, and end those under way after so many seconds."""
        for task in (self._keeping_up, *self._broken.values()):
            if task is not None:
                task.cancel()
        servers = (self._server, *self._broken)
        await asyncio.gather(*(server.stop(grace) for server in servers))

    async def _keep_up(self) -> None:
        serving = True
        while serving:
            try:
                serving = await self._server.wait_for_termination(_LOOK_SECONDS)
            except Exception as error:  # noqa: BLE001 - whatever it broke by
                # What a peer sent is in its text.
                _log.warning("gRPC broke, and serves anew", problem=type(error).__name__)
                await self._serve_anew()

    async def _serve_anew(self) -> None:
        broken, self._server = self._server, grpc.aio.server(options=self._options)
        self._broken[broken] = leaving = asyncio.create_task(broken.stop(_GRACE))
        leaving.add_done_callback(lambda _: self._broken.pop(broken, None))
        self._server.add_generic_rpc_handlers(self._handlers)
        await self._bind()
        await self._server.start()

    async def _bind(self) -> None:
        clock = asyncio.get_running_loop().time
        deadline = clock() + _BIND_SECONDS
        while True:
            try:
                listen_on(self._server, self.address, self._credentials)
            except StartError:
                if clock() > deadline:
                    raise
                await asyncio.sleep(_LOOK_SECONDS / 10)
            else:
                return
