"""The blocks of the walks: several namespaces, groups, scopes and sizes, in short chains."""

import hashlib
import random
from collections.abc import Sequence
from typing import NamedTuple

from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint
from tests.contract.support import TOKENS, block_hash, namespace

CHAIN = 5
CHAINS = 3
LARGEST = 20_000
NAMESPACES: Sequence[Namespace] = (
    namespace("small", block_bytes=[64, 5000]),
    namespace("tokens", block_bytes=[3000], hash_width=16, keep_token_ids=True),
    namespace("large", block_bytes=[LARGEST]),
)


class Key(NamedTuple):
    """What a block is known by, in events and listings."""

    namespace: bytes
    group: int
    scope: bytes
    block_hash: bytes


class Kind(NamedTuple):
    """Blocks that one run may hold."""

    namespace: Namespace
    group: int = 0
    scope: bytes = b""
    adapter: str = ""

    @property
    def fingerprint(self) -> bytes:
        return fingerprint(self.namespace)


KINDS: Sequence[Kind] = (
    Kind(NAMESPACES[0]),
    Kind(NAMESPACES[0], 1),
    Kind(NAMESPACES[0], 0, b"tenant", "lora"),
    Kind(NAMESPACES[1]),
    Kind(NAMESPACES[2], 0, b"s"),
)


class Chain(NamedTuple):
    """The first blocks of a chain, of one kind; equal places of all kinds have equal hashes.

    Attributes:
        kind: The kind.
        number: Which of the chains of that kind.
        length: How many blocks.
    """

    kind: Kind
    number: int
    length: int

    @property
    def hashes(self) -> list[bytes]:
        width = self.kind.namespace.hash_width
        return [block_hash((self.number, place), width) for place in range(self.length)]

    @property
    def keys(self) -> list[Key]:
        kind = self.kind
        return [Key(kind.fingerprint, kind.group, kind.scope, each) for each in self.hashes]

    def run(self) -> BlockRun:
        """The chain as an offer."""
        tokens = range(TOKENS * self.length) if self.kind.namespace.keep_token_ids else ()
        return BlockRun(
            group=self.kind.group,
            scope=self.kind.scope,
            block_hashes=b"".join(self.hashes),
            token_ids=tokens,
            adapter_name=self.kind.adapter,
        )

    def set(self) -> BlockSet:
        """The chain as blocks to load or remove."""
        return set_of(self.keys)


def any_chain(rng: random.Random, owner: int | None = None, owners: int = 1) -> Chain:
    """Return the beginning of a chain, of those that one of several owners has."""
    numbers = [n for n in range(CHAINS) if owner is None or n % owners == owner]
    return Chain(rng.choice(KINDS), rng.choice(numbers), rng.randint(1, CHAIN))


def set_of(keys: Sequence[Key]) -> BlockSet:
    """Blocks of one kind, for a request."""
    hashes = b"".join(key.block_hash for key in keys)
    return BlockSet(group=keys[0].group, scope=keys[0].scope, block_hashes=hashes)


_SIZES = {(kind.fingerprint, kind.group): kind.namespace.block_bytes[kind.group] for kind in KINDS}


def payload(key: Key, version: int) -> bytes:
    """The bytes of a block; other ones after it was deleted everywhere."""
    return hashlib.shake_256(repr((key, version)).encode()).digest(_SIZES[key[:2]])


EVERY_KEY = [key for kind in KINDS for n in range(CHAINS) for key in Chain(kind, n, CHAIN).keys]
_CHAIN_OF = {
    Chain(kind, n, place + 1).keys[-1]: Chain(kind, n, place + 1)
    for kind in KINDS
    for n in range(CHAINS)
    for place in range(CHAIN)
}


def chain_to(key: Key) -> Chain:
    """Return the chain that ends with a block."""
    return _CHAIN_OF[key]
