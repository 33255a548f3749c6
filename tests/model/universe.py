"""The few namespaces, chains and requests that random steps are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, product

from hypothesis import strategies as st

from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.wire.namespaces import fingerprint
from tests.contract.support import block_hash, namespace
from tests.model.plain_parts import Key, Offered

Name = tuple[int, ...]

TOKENS = 4
SLOT_BYTES = 64
# The first keeps token ids; the second has short hashes, and a group whose blocks fit no slot.
NAMESPACES = (
    namespace("keeps", tokens_per_block=TOKENS, block_bytes=[64, 48, 16], keep_token_ids=True),
    namespace("short", tokens_per_block=TOKENS, block_bytes=[32, 64, 128], hash_width=8),
)
FINGERPRINTS = tuple(map(fingerprint, NAMESPACES))
WIDTHS = {fingerprint(each): each.hash_width for each in NAMESPACES}

_LONGEST = 3
# A block is called by the way to it in a tree, so that chains share prefixes.
_NAMES = [name for length in range(1, _LONGEST + 1) for name in product((0, 1), repeat=length)]
_NO_TOKENS, _OWN_TOKENS, _OTHER_TOKENS = range(3)

groups = st.sampled_from([0, 0, 0, 0, 0, 0, 1, 1, 1, 2])
scopes = st.sampled_from([b"", b"", b"", b"tenant"])
places_of_namespaces = st.sampled_from([0, 0, 0, 1])
requests = st.sampled_from(["", "r1", "r2", "r3"])
ttls = st.sampled_from([1, 30, 200])


@dataclass(frozen=True)
class Run:
    """An offered run, in a test's words."""

    group: int
    scope: bytes
    adapter: str
    names: tuple[Name, ...]
    parent: Name
    start: int
    tokens: int

    def on_the_wire(self, place: int) -> BlockRun:
        """Return the run as it is sent, for a namespace by its place."""
        width = NAMESPACES[place].hash_width
        return BlockRun(
            group=self.group,
            scope=self.scope,
            block_hashes=b"".join(block_hash(name, width) for name in self.names),
            parent_block_hash=block_hash(self.parent, width) if self.start else b"",
            start_position=self.start * TOKENS,
            adapter_name=self.adapter,
            token_ids=[token for name in self.names for token in self._tokens_of(name)],
        )

    def in_the_model(self, place: int) -> list[Offered]:
        """Return the run as the model knows it."""
        described, blocks = NAMESPACES[place], []
        parent = self.parent if self.start else None
        for step, name in enumerate(self.names):
            blocks.append(
                Offered(
                    _key(place, self.group, self.scope, name),
                    b"" if parent is None else block_hash(parent, described.hash_width),
                    (self.start + step) * TOKENS,
                    self.adapter,
                    described.block_bytes[self.group],
                    self._tokens_of(name) if described.keep_token_ids else (),
                )
            )
            parent = name
        return blocks

    def _tokens_of(self, name: Name) -> tuple[int, ...]:
        own = tuple(100 * len(name) + i for i in range(TOKENS))
        return ((), own, (7,) * TOKENS)[self.tokens]


def _key(place: int, group: int, scope: bytes, name: Name) -> Key:
    return Key(FINGERPRINTS[place], group, scope, block_hash(name, NAMESPACES[place].hash_width))


@st.composite
def chains(draw: st.DrawFn) -> Run:
    """A run as an engine offers it: the blocks of a chain from some block on."""
    path = draw(st.lists(st.integers(0, 1), min_size=1, max_size=_LONGEST))
    first = draw(st.sampled_from([0, 0, 0, *range(len(path))]))
    names = tuple(tuple(path[:end]) for end in range(first + 1, len(path) + 1))
    return Run(
        draw(groups),
        draw(scopes),
        draw(st.sampled_from(["", "", "lora"])),
        names,
        tuple(path[:first]),
        first,
        draw(st.sampled_from([_OWN_TOKENS, _OWN_TOKENS, _OWN_TOKENS, _NO_TOKENS, _OTHER_TOKENS])),
    )


odd_runs = st.builds(
    Run,
    groups,
    scopes,
    st.sampled_from(["", "lora"]),
    st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4).map(tuple),
    st.sampled_from(_NAMES),
    st.integers(0, 2),
    st.sampled_from([_NO_TOKENS, _OWN_TOKENS, _OTHER_TOKENS]),
)
_one_chain = st.lists(chains(), min_size=1, max_size=1)
offers: st.SearchStrategy[Sequence[Run]] = st.one_of(
    _one_chain,
    _one_chain,
    st.lists(st.one_of(chains(), chains(), chains(), odd_runs), min_size=1, max_size=3),
)


def keys_of(place: int, runs: Sequence[Run]) -> list[Key]:
    """Return the keys of runs' blocks."""
    return [_key(place, run.group, run.scope, name) for run in runs for name in run.names]


def every_key(namespace: bytes, group: int, scope: bytes) -> list[Key]:
    """Return the keys of all blocks that there may be in a space, shortest chains first."""
    return [_key(FINGERPRINTS.index(namespace), group, scope, name) for name in _NAMES]


def sets_of(keys: Sequence[Key]) -> list[BlockSet]:
    """Return blocks of one namespace as a request names them."""
    return [
        BlockSet(
            group=group,
            scope=scope,
            block_hashes=b"".join(key.block_hash for key in some),
        )
        for (_, group, scope), some in groupby(keys, key=lambda key: key[:3])
    ]
