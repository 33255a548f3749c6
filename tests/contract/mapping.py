"""A caller on the node's host that maps a tier, by the RPCs alone."""

from collections.abc import Mapping, Sequence

from xxhash import xxh3_64_intdigest

from kvtier.client.mapped.file import MappedFile, open_shared
from kvtier.v1.tier_service_pb2 import PrepareStoreResponse

from .support import BLOCK_BYTES, Serving, blocks_of, payload, run


class Mapped:
    """A mapping of one tier.

    Attributes:
        number: Its number.
        file: The file.
    """

    def __init__(self, node: Serving, number: int, slot_bytes: int, file: MappedFile) -> None:
        self.number = number
        self.file = file
        self._node = node
        self._slot_bytes = slot_bytes

    @classmethod
    async def of(cls, node: Serving, tier: str = "cpu0") -> "Mapped":
        """Map a tier."""
        told = await node.client.map_tier(tier)
        return cls(node, told.mapping, told.slot_bytes, open_shared(told.shared_file, None))

    async def prepare(self, *blocks: object, ttl: float | None = None) -> PrepareStoreResponse:
        """Take a store lease, and be told the slots."""
        return await self._node.client.prepare_store(
            "cpu0", self._node.namespace, [run(*blocks)], mapping=self.number, ttl=ttl
        )

    def fill(self, slots: Sequence[int], *blocks: object) -> list[int]:
        """Write blocks into slots; return their checksums."""
        for slot, block in zip(slots, blocks, strict=True):
            self.write(slot, payload(block))
        return [xxh3_64_intdigest(payload(block)) for block in blocks]

    def write(self, slot: int, data: bytes) -> None:
        """Write into a slot."""
        position = slot * self._slot_bytes
        self.file.view[position : position + len(data)] = data

    def read(self, slot: int) -> bytes:
        """Return the bytes of a slot."""
        position = slot * self._slot_bytes
        return bytes(self.file.view[position : position + BLOCK_BYTES])

    async def load(self, *blocks: object) -> Mapping[object, tuple[int, int]]:
        """Pin blocks; return the slot and checksum of each."""
        answer = await self._node.client.prepare_load(
            "cpu0", self._node.namespace, [blocks_of(*blocks)], mapping=self.number
        )
        return dict(zip(blocks, zip(answer.slots, answer.checksums, strict=True), strict=True))
