"""Arrow Flight: one stream of record batches for each batch, a block in each.

Flight sends and receives the bytes of a column without a copy by protobuf; the server keeps what
came, and sends it again.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks.bulk.child import Child, python

if TYPE_CHECKING:
    from typing_extensions import Buffer

NAME = "Arrow Flight"


def missing() -> str:
    """Return what Flight needs here."""
    return "" if find_spec("pyarrow") else "it is not there; pip install pyarrow"


def open() -> "ArrowFlight":  # noqa: A001 - as the measurements call it
    """Start the server and connect."""
    return ArrowFlight(Child(python(__name__)))


class ArrowFlight:
    """A `Contender`."""

    def __init__(self, child: Child) -> None:
        import pyarrow as pa  # noqa: PLC0415 - only where it is there
        from pyarrow import flight  # noqa: PLC0415

        self._arrow: Any = pa
        self._flight: Any = flight
        self._child = child
        self.servers = [child.pid]
        self._client = flight.connect(f"grpc+tcp://127.0.0.1:{child.first_line}")
        self._schema = pa.schema([("block", pa.uint8())])

    def put(self, blocks: Sequence[memoryview]) -> None:
        """See `Contender`."""
        descriptor = self._flight.FlightDescriptor.for_path("batch")
        writer, metadata = self._client.do_put(descriptor, self._schema)
        for block in blocks:
            buffers = [None, self._arrow.py_buffer(block)]
            column = self._arrow.Array.from_buffers(self._arrow.uint8(), len(block), buffers)
            writer.write_batch(self._arrow.record_batch([column], schema=self._schema))
        writer.done_writing()
        metadata.read()
        writer.close()

    def get(self) -> "Sequence[Buffer]":
        """See `Contender`."""
        reader = self._client.do_get(self._flight.Ticket(b"batch"))
        return [
            memoryview(chunk.data.column(0).buffers()[1])[: chunk.data.num_rows] for chunk in reader
        ]

    def close(self) -> None:
        """See `Contender`."""
        self._client.close()
        self._child.close()


def _serve() -> None:
    from pyarrow import flight  # noqa: PLC0415

    class Server(flight.FlightServerBase):  # type: ignore[misc]
        schema: Any = None
        batches: Sequence[Any] = ()

        def do_put(self, _context: Any, _descriptor: Any, reader: Any, writer: Any) -> None:
            self.schema = reader.schema
            self.batches = [chunk.data for chunk in reader]
            writer.write(b"kept")

        def do_get(self, _context: Any, _ticket: Any) -> Any:
            return flight.GeneratorStream(self.schema, iter(self.batches))

    server = Server("grpc+tcp://127.0.0.1:0")
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.serve()


if __name__ == "__main__":
    _serve()
