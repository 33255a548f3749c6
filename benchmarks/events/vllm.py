"""vLLM's own event publisher, taken out of its wheel: one module, and stand-ins for its imports.

What is stood in for plays no part in publishing: the log, the type that remembers the settings, and
the search for the machine's address, which is loopback here. Events have no token ids, which is in
its favour: it cannot leave them out.
"""

import importlib
import logging
import sys
import time
import types
import zipfile
from itertools import cycle, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.events import worker
from benchmarks.events.probes import chains, probe, stamp_of

VERSION = "0.33.0"
HOW_TO_GET_IT = (
    "make bench-events installs pyzmq and msgspec; for vLLM: pip download --no-deps "
    f"vllm=={VERSION}, then --vllm WHEEL (or VLLM=WHEEL); an unpacked or installed one will do: "
    "--vllm FOLDER-WITH-vllm"
)
_MODULE = "vllm/distributed/kv_events.py"
_HELLO = 0.05
# After this long without a message a subscriber takes the rest for lost.
_SILENCE_MS = 10_000
_ANNOUNCED = 256


def load(path: str) -> Any:
    """Return vLLM's module of events, from a wheel or from the folder that holds `vllm`.

    Raises:
        OSError, KeyError: When it is not there.
        ImportError: When msgspec or pyzmq is not installed.
    """
    if Path(path).is_file():
        with zipfile.ZipFile(path) as wheel:
            code = wheel.read(_MODULE)
    else:
        code = (Path(path) / _MODULE).read_bytes()
    for name, contents in _stand_ins().items():
        module = sys.modules[name] = types.ModuleType(name)
        module.__dict__.update(contents)
    module = sys.modules["vllm.distributed.kv_events"] = types.ModuleType(
        "vllm.distributed.kv_events"
    )
    exec(compile(code, _MODULE, "exec"), module.__dict__)  # noqa: S102 - what we came to measure
    return module


def _stand_ins() -> dict[str, dict[str, Any]]:
    return {
        "vllm": {},
        "vllm.config": {},
        "vllm.config.kv_events": {"KVEventsConfig": types.SimpleNamespace},
        "vllm.logger": {"init_logger": logging.getLogger},
        "vllm.utils": {},
        "vllm.utils.network_utils": {
            "get_ip": lambda: "127.0.0.1",
            "get_tcp_uri": lambda host, port: f"tcp://{host}:{port}",
            "is_valid_ipv6_address": lambda _: False,
            "split_zmq_path": lambda path: ("tcp", "127.0.0.1", path.rpartition(":")[2]),
        },
        "vllm.v1": {},
        "vllm.v1.core": {},
        "vllm.v1.core.kv_cache_utils": {"ExternalBlockHash": bytes | int},
        "vllm.distributed": {},
    }


class Source:
    """Makes events with vLLM's classes and publishes them with its publisher, as it is by default.

    Args:
        path: Where vLLM is.
    """

    def __init__(self, path: str) -> None:
        self._events = load(path)
        self._publisher = self._events.ZmqEventPublisher(0, endpoint="tcp://*:0")
        self._chains = [list(chain) for chain in chains(_ANNOUNCED)]

    def address(self) -> str:
        """Return where followers connect."""
        return str(self._publisher.get_publisher_config().endpoint)

    def hello(self) -> None:
        """Publish a batch without events, for followers that wait for their first."""
        self._publish([])
        time.sleep(_HELLO)

    def publish(self, batches: int, size: int, how: str = "") -> int:  # noqa: ARG002 - the node's
        """Publish batches of events of 16 hashes; return when it began, in nanoseconds."""
        source = cycle(self._chains)
        begun = time.monotonic_ns()
        for _ in range(batches):
            self._publish(list(islice(source, size)))
        return begun

    def pace(self, probes: int, interval: float, load: int) -> None:
        """Publish a probe at each interval, in seconds, after so many batches of 32 events."""
        tick = time.monotonic()
        for _ in range(probes):
            self.publish(load, 32)
            self._publish([list(probe())])
            tick = max(tick + interval, time.monotonic())
            time.sleep(max(0.0, tick - time.monotonic()))

    def cpu(self) -> float:
        """Return the seconds of CPU that the process has used."""
        return time.process_time()

    def close(self) -> None:
        """Stop publishing."""
        self._publisher.shutdown()

    def _publish(self, hashes: list[list[bytes]]) -> None:
        stored = self._events.BlockStored
        events = [
            stored(
                block_hashes=chain,
                parent_block_hash=None,
                token_ids=[],
                block_size=16,
                lora_id=None,
                medium="CPU",
                lora_name=None,
            )
            for chain in hashes
        ]
        self._publisher.publish(self._events.KVEventBatch(ts=time.time(), events=events))


class Follower:
    """Subscribes with a socket of ZMQ's defaults and decodes into vLLM's classes.

    Args:
        path: Where vLLM is.
        address: Where to connect.
    """

    def __init__(self, path: str, address: str) -> None:
        events = load(path)
        zmq = importlib.import_module("zmq")
        self._silent = zmq.Again
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._socket.setsockopt(zmq.RCVTIMEO, _SILENCE_MS)
        self._socket.connect(address)
        msgpack = importlib.import_module("msgspec").msgpack
        self._decode = msgpack.Decoder(type=events.KVEventBatch).decode
        self._sequence = -1

    def ready(self) -> None:
        """Wait for the first message."""
        while True:
            try:
                self._receive()
            except self._silent:
                continue
            return

    def count(self, hashes: int) -> tuple[int, int]:
        """Read so many hashes, or until nothing comes; return how many came and when the last."""
        seen, last = 0, time.monotonic_ns()
        try:
            while seen < hashes:
                seen += sum(len(event.block_hashes) for event in self._receive())
                last = time.monotonic_ns()
        except self._silent:
            pass
        return seen, last

    def latencies(self, probes: int) -> list[tuple[int, int]]:
        """Read so many probes; return when each was made and when it came, in nanoseconds."""
        seen: list[tuple[int, int]] = []
        while len(seen) < probes:
            for event in self._receive():
                stamp = stamp_of(event.block_hashes)
                if stamp is not None:
                    seen.append((stamp, time.monotonic_ns()))
        return seen

    def cpu(self) -> float:
        """Return the seconds of CPU that the process has used."""
        return time.process_time()

    def _receive(self) -> list[Any]:
        _, sequence, payload = self._socket.recv_multipart()
        self._sequence = int.from_bytes(sequence, "big")
        events: list[Any] = self._decode(payload).events
        return events


def source(pipe: Connection, path: str) -> None:
    """Run a source in a process of its own."""
    servant = Source(path)
    worker.obey(pipe, servant)
    servant.close()


def follower(pipe: Connection, path: str, address: str) -> None:
    """Run a follower in a process of its own."""
    worker.obey(pipe, Follower(path, address))
