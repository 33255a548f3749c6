"""An address for grpc.health.v1 alone, answered by threads: also when the event loop is stuck.

It answers Check, which is what probes call, and does not know Watch. The servicer that comes with
grpcio-health-checking would not do here either: it sends to who watches while it holds a lock that
gRPC's only thread wants when a watcher leaves, and then neither ever goes on.
"""

from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health_pb2

from kvtier.server.health.board import NOT_SERVING, HealthBoard, Status, status_of
from kvtier.server.health.service import HEALTH
from kvtier.server.serving.listening import listen_on
from kvtier.wire.errors import KvtierError

# A call whose request does not come holds one, until its connection is too old.
_THREADS = 32
# In seconds: a stop waits no longer for calls to end, since the event loop waits with it.
_ENDING = 1.0
_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 4096),
    ("grpc.max_concurrent_streams", 8),
    ("grpc.max_connection_age_ms", 30_000),
    ("grpc.max_connection_age_grace_ms", 1_000),
)


class HealthPort:
    """Says what a board says, or that nothing is served while the loop is stuck.

    Args:
        endpoint: Where to listen, HOST:PORT.
        board: What is said.

    Attributes:
        address: Where it listens, with the real port; known after `start`.
    """

    def __init__(self, endpoint: str, board: HealthBoard) -> None:
        self.address = endpoint
        self._board = board
        self._stuck = False
        self._statuses: dict[str, Status] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kvtier-health")
        self._server = grpc.server(self._threads, options=_OPTIONS)

    def start(self) -> None:
        """Listen, and answer from now on.

        Raises:
            StartError: When the address cannot be bound.
        """
        check = grpc.unary_unary_rpc_method_handler(
            self._check,
            health_pb2.HealthCheckRequest.FromString,
            health_pb2.HealthCheckResponse.SerializeToString,
        )
        methods = {"Check": check}
        handler = grpc.method_handlers_generic_handler(HEALTH.full_name, methods)
        self._server.add_generic_rpc_handlers([handler])
        self.address = listen_on(self._server, self.address, setting="health_listen")
        self._board.listen(self._note)
        self._note()
        self._server.start()

    def show(self, *, stuck: bool) -> None:
        """Say whether the loop is stuck; any thread may call it."""
        self._stuck = stuck

    def stop(self) -> None:
        """Answer no more."""
        self._server.stop(0).wait(_ENDING)
        self._threads.shutdown(wait=False)

    def _note(self) -> None:
        # Threads read it, and see the old one or the new one.
        self._statuses = dict(self._board)

    def _check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        try:
            status = status_of(self._statuses, request.service)
        except KvtierError as error:
            context.abort(error.code, error.message)
        return health_pb2.HealthCheckResponse(status=NOT_SERVING if self._stuck else status)
