"""An address for grpc.health.v1 alone, answered by threads: also when the event loop is stuck."""

from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import HealthServicer

from kvtier.server.health.board import NOT_SERVING, HealthBoard, Status
from kvtier.server.serving.listening import listen_on

# A call whose request does not come holds one, until its connection is too old.
_THREADS = 32
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
        self._told: dict[str, Status] = {}
        self._telling = Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kvtier-health")
        self._servicer = HealthServicer(experimental_thread_pool=self._threads)
        self._server = grpc.server(self._threads, options=_OPTIONS)

    def start(self) -> None:
        """Listen, and answer from now on.

        Raises:
            StartError: When the address cannot be bound.
        """
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, self._server)
        self.address = listen_on(self._server, self.address, setting="health_listen")
        self._board.listen(self._note)
        self._note()
        self._server.start()

    def show(self, *, stuck: bool) -> None:
        """Say whether the loop is stuck; any thread may call it."""
        self._stuck = stuck
        self._tell()

    def stop(self) -> None:
        """Answer no more."""
        self._server.stop(0).wait()
        self._threads.shutdown(wait=False)

    def _note(self) -> None:
        self._statuses = dict(self._board)
        self._tell()

    def _tell(self) -> None:
        """Let the servicer, which repeats itself to who watches, know of what has changed."""
        with self._telling:
            for name, status in self._statuses.items():
                said = NOT_SERVING if self._stuck else status
                if self._told.get(name) != said:
                    self._told[name] = said
                    self._servicer.set(name, said)
