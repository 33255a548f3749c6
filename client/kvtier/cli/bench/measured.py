"""What a load has measured."""

from typing import Any

from kvtier.cli.latencies import Latencies


class Operation:
    """The calls of one kind.

    Attributes:
        times: Of those that were answered well.
        blocks: Blocks in them.
        payload: Bytes of payloads in them.
        refused: Calls that were refused for want of room.
        missed: Blocks that were not there any more.
    """

    def __init__(self) -> None:
        self.times = Latencies()
        self.blocks = self.payload = self.refused = self.missed = 0

    def add(self, seconds: float, blocks: int, payload: int = 0) -> None:
        """Take in a call that was answered well."""
        self.times.add(seconds)
        self.blocks += blocks
        self.payload += payload

    def record(self, name: str, elapsed: float) -> dict[str, Any]:
        """Return it as a record.

        Args:
            name: The kind of call.
            elapsed: Seconds that the load went on.
        """

        def per_s(count: int) -> float:
            return round(count / elapsed, 3)

        return {
            "operation": name,
            "elapsed_s": round(elapsed, 3),
            "calls": len(self.times),
            "refused": self.refused,
            "missed_blocks": self.missed,
            "calls_per_s": per_s(len(self.times)),
            "blocks_per_s": per_s(self.blocks),
            "bytes_per_s": per_s(self.payload),
            **self.times.record(),
        }


class Measured:
    """The calls of all callers."""

    def __init__(self) -> None:
        self.lookup, self.store = Operation(), Operation()
        self.load, self.delete = Operation(), Operation()

    def records(self, elapsed: float) -> list[dict[str, Any]]:
        """Return a record of each kind of call."""
        return [operation.record(name, elapsed) for name, operation in vars(self).items()]
