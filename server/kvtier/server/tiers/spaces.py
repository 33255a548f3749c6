"""Spaces: the (namespace, group, scope) triples in which hashes are unique."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.hashes import split_hashes

PREFIX_BYTES = 8
_NOWHERE = bytes(PREFIX_BYTES)
# A chain of this many blocks has a number object of its own for each start position, kept for good.
_MAX_SHARED_STARTS = 1 << 16
# Spaces out of use whose prefixes are kept: what tiers remember of blocks that are gone is by key.
_KEPT_PREFIXES = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class NamespaceInfo:
    """A registered namespace, with its numbers at hand.

    Attributes:
        fingerprint: The 32-byte fingerprint.
        description: The description as it was registered.
        hash_width: Bytes per hash.
        tokens_per_block: Tokens per block.
        block_bytes: Bytes per block, by group.
        keep_token_ids: Whether token ids are kept for the FULL view.
    """

    fingerprint: bytes
    description: Namespace
    hash_width: int
    tokens_per_block: int
    block_bytes: tuple[int, ...]
    keep_token_ids: bool
    _starts: list[int] = field(default_factory=list, repr=False)

    def starts(self, first: int, count: int) -> list[int]:
        """Return the start positions of consecutive blocks, as shared number objects."""
        index, tokens, known = first // self.tokens_per_block, self.tokens_per_block, self._starts
        if index + count > _MAX_SHARED_STARTS:
            return list(range(first, first + count * tokens, tokens))
        while len(known) < index + count:
            known.append(len(known) * tokens)
        return known[index : index + count]

    @classmethod
    def of(cls, fingerprint: bytes, description: Namespace) -> "NamespaceInfo":
        """Return the info of a valid description."""
        return cls(
            fingerprint,
            description,
            description.hash_width,
            description.tokens_per_block,
            tuple(description.block_bytes),
            description.keep_token_ids,
        )


class Space:
    """One namespace, group and scope.

    A block's key is the space's prefix and its hash, so that one flat table serves all spaces. No
    two spaces have a prefix at the same time, and it comes back only for the same fingerprint,
    group and scope.

    Attributes:
        namespace: The namespace.
        group: The KV-cache group.
        scope: The scope.
        prefix: What every key of the space begins with.
        uses: Number of slots, in any tier, and of offers under way that refer to the space.
    """

    __slots__ = ("group", "namespace", "prefix", "scope", "uses")

    def __init__(self, namespace: NamespaceInfo, group: int, scope: bytes, prefix: bytes) -> None:
        self.namespace = namespace
        self.group = group
        self.scope = scope
        self.prefix = prefix
        self.uses = 0

    @property
    def width(self) -> int:
        """Bytes of each hash."""
        return self.namespace.hash_width

    @property
    def block_bytes(self) -> int:
        """Bytes of each block."""
        return self.namespace.block_bytes[self.group]

    def keys(self, hashes: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the keys of hashes, at least one."""
        # Joining with the prefix between and cutting anew is cheaper than adding it to each.
        prefix = self.prefix
        return split_hashes(prefix + prefix.join(hashes), PREFIX_BYTES + self.width)


class Spaces:
    """The spaces that a node knows: those in use.

    The prefixes of those that went out of use last are kept for when they come back, also in a
    namespace that was deleted and registered anew meanwhile.
    """

    def __init__(self) -> None:
        # By registration, not by fingerprint: slots of one that was deleted may outlive it.
        self._spaces: dict[tuple[NamespaceInfo, int, bytes], Space] = {}
        self._kept: OrderedDict[tuple[bytes, int, bytes], bytes] = OrderedDict()
        self._prefixes = count(1)

    def __len__(self) -> int:
        return len(self._spaces)

    def find(self, namespace: NamespaceInfo, group: int, scope: bytes) -> Space:
        """Return the space; one that no tier has a block of gives keys that nobody has."""
        known = self._spaces.get((namespace, group, scope))
        return known or Space(namespace, group, scope, _NOWHERE)

    def use(self, namespace: NamespaceInfo, group: int, scope: bytes) -> Space:
        """Return the space, made known if it was not, and in use until it is released."""
        key = (namespace, group, scope)
        space = self._spaces.get(key)
        if space is None:
            kept = self._kept.pop((namespace.fingerprint, group, scope), None)
            prefix = kept or self._new_prefix()
            space = self._spaces[key] = Space(namespace, group, scope, prefix)
        space.uses += 1
        return space

    def release(self, space: Space, uses: int = 1) -> None:
        """End uses of a space, and forget it with the last."""
        space.uses -= uses
        if not space.uses:
            namespace, group, scope = space.namespace, space.group, space.scope
            del self._spaces[namespace, group, scope]
            self._kept[namespace.fingerprint, group, scope] = space.prefix
            if len(self._kept) > _KEPT_PREFIXES:
                self._kept.popitem(last=False)

    def _new_prefix(self) -> bytes:
        return next(self._prefixes).to_bytes(PREFIX_BYTES, "big")
