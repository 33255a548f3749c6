"""What makes blocks of one hash different blocks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvtier.client import NodeClient, StoreReport, scope_of
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.result_pb2 import LookupResult

from .folding import Key
from .support import block_hash, blocks_of, namespace, payload, run, words
from .ways import Store

HASH = "the same hash"


@dataclass(frozen=True)
class Identity:
    """One identity under which the hash is stored.

    Attributes:
        name: Makes the payload, so that a mix-up shows.
        scope: The scope.
        group: The KV-cache group.
        adapter: The adapter's name, for people.
        described: Fields in which the namespace differs.
    """

    name: str
    scope: bytes = b""
    group: int = 0
    adapter: str = ""
    described: Mapping[str, object] = field(default_factory=dict)

    @property
    def payload(self) -> bytes:
        return payload(self.name)

    @property
    def blocks(self) -> BlockSet:
        return blocks_of(HASH, group=self.group, scope=self.scope)

    def namespace(self) -> Namespace:
        return namespace(f"llama {self.described or ''}".strip(), **self.described)

    async def register(self, client: NodeClient) -> bytes:
        return await client.register_namespace(self.namespace())

    async def key(self, client: NodeClient, tier: str) -> Key:
        """The key of this identity's block in a tier."""
        fingerprint = await self.register(client)
        return Key(tier, fingerprint, self.group, self.scope, block_hash(HASH))

    async def store(self, client: NodeClient, tier: str, way: Store) -> StoreReport:
        """Store the hash with this identity's payload."""
        offered = run(HASH, group=self.group, scope=self.scope, adapter_name=self.adapter)
        return await way(client, tier, await self.register(client), [offered], [self.payload])

    async def look_up(self, client: NodeClient) -> str:
        """What a node says of this identity's block."""
        fingerprint = await self.register(client)
        answer = await client.lookup(fingerprint, [self.blocks], include_blocks=True)
        return words(LookupResult, answer.chains[0].results)[0]

    async def load(self, client: NodeClient, tier: str) -> bytes | None:
        """The bytes of this identity's block."""
        fingerprint = await self.register(client)
        return (await client.load(tier, fingerprint, [self.blocks])).payloads[0]


# In each row the same hash is stored under the first two, and never under the third.
IDENTITIES: dict[str, tuple[Identity, Identity, Identity]] = {
    "adapters": (
        Identity("adapter a", scope_of(adapter="a"), adapter="a"),
        Identity("adapter b", scope_of(adapter="b"), adapter="b"),
        Identity("base model"),
    ),
    "an adapter and the base model": (
        Identity("adapter a", scope_of(adapter="a"), adapter="a"),
        Identity("base model"),
        Identity("adapter b", scope_of(adapter="b"), adapter="b"),
    ),
    "adapters of one name": (
        Identity("adapter a, first", b"first", adapter="a"),
        Identity("adapter a, second", b"second", adapter="a"),
        Identity("no scope", adapter="a"),
    ),
    "tenants": (
        Identity("tenant x", scope_of(tenant="x")),
        Identity("tenant y", scope_of(tenant="y")),
        Identity("an adapter called x", scope_of(adapter="x")),
    ),
    "salts": (
        Identity("salt x", scope_of(tenant="t", salt=b"x")),
        Identity("salt y", scope_of(tenant="t", salt=b"y")),
        Identity("no salt", scope_of(tenant="t")),
    ),
    "scopes that begin alike": (
        Identity("s", b"s"),
        Identity("s and a zero", b"s\0"),
        Identity("32 bytes", b"s" + bytes(31)),
    ),
    "groups": (
        Identity("group 0"),
        Identity("group 1", group=1),
        Identity("group 1 of a scope", b"s", group=1),
    ),
    "revisions": (
        Identity("revision 1"),
        Identity("revision 2", described={"revision": "r2"}),
        Identity("revision 3", described={"revision": "r3"}),
    ),
    "ranks": (
        Identity("rank 0", described={"tp_size": 2}),
        Identity("rank 1", described={"tp_size": 2, "tp_rank": 1}),
        Identity("one rank"),
    ),
    "pipeline ranks": (
        Identity("stage 0", described={"pp_size": 2}),
        Identity("stage 1", described={"pp_size": 2, "pp_rank": 1}),
        Identity("one stage"),
    ),
    "shapes": (
        Identity("two of tensors", described={"tp_size": 2}),
        Identity("two of stages", described={"pp_size": 2}),
        Identity("two of both", described={"tp_size": 2, "pp_size": 2}),
    ),
    "data types": (
        Identity("bfloat16"),
        Identity("float16", described={"dtype": "float16"}),
        Identity("fp8", described={"dtype": "fp8_e4m3"}),
    ),
    "tokens per block": (
        Identity("16 tokens"),
        Identity("64 tokens", described={"tokens_per_block": 64}),
        Identity("32 tokens", described={"tokens_per_block": 32}),
    ),
    "hash algorithms": (
        Identity("sha256"),
        Identity("blake3", described={"hash_algorithm": "blake3"}),
        Identity("sha256, CBOR", described={"hash_algorithm": "sha256_cbor"}),
    ),
    "hash seeds": (
        Identity("seed a", described={"hash_seed": b"a"}),
        Identity("seed b", described={"hash_seed": b"b"}),
        Identity("no seed"),
    ),
}
