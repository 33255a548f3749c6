"""A block as a line of text, by which it is told from others."""

from typing import NamedTuple, Self

from kvtier.v1.tier_pb2 import Block


class BlockLine(NamedTuple):
    """What makes a block the same on two nodes.

    Attributes:
        namespace: The fingerprint, in hexadecimal.
        tier: The tier's name; empty where tiers do not matter.
        group: The KV-cache group.
        scope: The scope, in hexadecimal.
        block_hash: The hash, in hexadecimal.
    """

    namespace: str
    tier: str
    group: str
    scope: str
    block_hash: str

    @classmethod
    def of(cls, block: Block, *, by_tier: bool) -> Self:
        """Return what is told of a block."""
        # What else a server may call it must not look like the end of a field.
        tier = block.tier.encode("unicode_escape").decode() if by_tier else ""
        return cls(
            block.namespace.hex(), tier, str(block.group), block.scope.hex(), block.block_hash.hex()
        )

    @classmethod
    def read(cls, line: str) -> Self:
        """Return what a line says."""
        return cls(*line.rstrip("\n").split("\t"))

    def line(self) -> str:
        """Return it as a line."""
        return "\t".join(self) + "\n"
