"""The few blocks that random steps store, each called by its way in a tree."""

from dataclasses import dataclass
from itertools import pairwise
from random import Random

from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint
from tests.contract.folding import Key
from tests.contract.support import BLOCK_BYTES, block_hash, namespace, payload

Name = tuple[int, ...]

LONGEST = 6
_BRANCHES = 3
NAMESPACES = (
    namespace("plain"),
    namespace("tokens", tokens_per_block=4, keep_token_ids=True),
    namespace("short", block_bytes=[BLOCK_BYTES], hash_width=8),
)


@dataclass(frozen=True)
class Space:
    """A namespace, a group and a scope, and the adapter of its blocks."""

    place: int
    group: int = 0
    scope: bytes = b""
    adapter: str = ""

    @property
    def namespace(self) -> Namespace:
        return NAMESPACES[self.place]

    @property
    def fingerprint(self) -> bytes:
        return fingerprint(self.namespace)

    def blocks(self, names: list[Name]) -> BlockSet:
        """Return blocks as requests name them."""
        return BlockSet(group=self.group, scope=self.scope, block_hashes=self._hashes(names))

    def run(self, names: list[Name]) -> BlockRun:
        """Return an offer of consecutive blocks of one chain."""
        assert all(parent == name[:-1] for parent, name in pairwise(names))
        parent, tokens = names[0][:-1], self.namespace.tokens_per_block
        kept = self.namespace.keep_token_ids
        return BlockRun(
            group=self.group,
            scope=self.scope,
            adapter_name=self.adapter,
            block_hashes=self._hashes(names),
            parent_block_hash=self._hashes([parent]) if parent else b"",
            start_position=len(parent) * tokens,
            token_ids=[len(name) for name in names for _ in range(tokens)] if kept else [],
        )

    def _hashes(self, names: list[Name]) -> bytes:
        return b"".join(block_hash(name, self.namespace.hash_width) for name in names)


SPACES = (
    Space(0),
    Space(0, group=1),
    Space(0, scope=b"tenant", adapter="lora-" + "x" * 200),
    Space(1),
    Space(2),
)


def some_chain(random: Random, *, whole: bool = False) -> list[Name]:
    """Return a chain, from its root or from some block on."""
    length = LONGEST if whole else random.randint(1, LONGEST)
    path = tuple(random.randrange(_BRANCHES) for _ in range(length))
    first = 0 if whole or random.random() < 0.8 else random.randrange(length)
    return [path[:end] for end in range(first + 1, length + 1)]


def payloads(names: list[Name]) -> list[bytes]:
    """Return the bytes of blocks."""
    return [payload(name) for name in names]


class Names:
    """Remembers what was offered, to offer it again by what a listing says."""

    def __init__(self) -> None:
        self._offered: dict[tuple[bytes, int, bytes, bytes], tuple[Space, Name]] = {}

    def note(self, space: Space, names: list[Name]) -> None:
        """Note that blocks are offered."""
        for name in names:
            one = block_hash(name, space.namespace.hash_width)
            self._offered[space.fingerprint, space.group, space.scope, one] = (space, name)

    def of(self, key: Key) -> tuple[Space, Name]:
        """Return what a block was called."""
        return self._offered[key[1:]]
