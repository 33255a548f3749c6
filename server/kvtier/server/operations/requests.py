"""Reading requests: every value is checked before anything happens."""

from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from xxhash import xxh3_128_digest

from kvtier.server.node import Node
from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.tier_service_pb2 import PrepareLoadRequest, PrepareStoreRequest
from kvtier.wire.errors import Reason, failed_precondition, invalid, quote, unavailable
from kvtier.wire.hashes import split_hashes
from kvtier.wire.namespaces import MAX_SCOPE_BYTES, MAX_TEXT

DEFAULT_TTL = 30.0
# The answer to an offer names every block that was evicted for it, each perhaps in a space of its
# own, and must fit the 4 MiB that clients of any make accept.
MAX_OFFERED = 1 << 14
_MAX_NANOS = 999_999_999
_RECOVERY_RETRY = 1.0


def read_group(namespace: NamespaceInfo, group: int) -> int:
    """Return a KV-cache group that the namespace has."""
    groups = len(namespace.block_bytes)
    if group >= groups:
        raise invalid(
            f"group is {group}; namespace {namespace.description.name} has {groups} groups, from 0"
        )
    return group


def read_scope(scope: bytes) -> bytes:
    """Return a scope of at most 32 bytes."""
    if len(scope) > MAX_SCOPE_BYTES:
        raise invalid(f"scope has {len(scope)} bytes; at most {MAX_SCOPE_BYTES} are allowed")
    return scope


def read_hashes(namespace: NamespaceInfo, packed: bytes) -> tuple[bytes, ...]:
    """Return the hashes of a packed list, at least one."""
    width = namespace.hash_width
    if not packed or len(packed) % width:
        raise invalid(
            f"block_hashes has {len(packed)} bytes; it must hold one hash or more of {width} bytes "
            f"each, as namespace {namespace.description.name} states"
        )
    return split_hashes(packed, width)


def read_hash(namespace: NamespaceInfo, block_hash: bytes) -> bytes:
    """Return one hash of the namespace's width."""
    if len(block_hash) != namespace.hash_width:
        raise invalid(
            f"block_hash has {len(block_hash)} bytes; it must have {namespace.hash_width}"
        )
    return block_hash


def check_count(
    node: Node,
    namespace: NamespaceInfo,
    lists: Sequence[bytes],
    what: str,
    limit: int | None = None,
) -> None:
    """Refuse a request with no list of hashes, or with more hashes than the limit."""
    check_hashes(namespace, lists, what, limit or node.config.limits.hashes)


def check_hashes(namespace: NamespaceInfo, lists: Sequence[bytes], what: str, most: int) -> None:
    """Refuse a request with no list of hashes, or with more hashes than that."""
    if not lists:
        raise invalid(f"{what} is empty; name at least one block")
    count = sum(map(len, lists)) // namespace.hash_width
    if count > most:
        raise invalid(
            f"{what} holds {count} hashes; at most {most} are allowed in one request: split it"
        )


def read_keys(
    node: Node, namespace: NamespaceInfo, sets: Sequence[BlockSet], what: str = "blocks"
) -> list[bytes]:
    """Return the key of each block of sets, in order."""
    check_count(node, namespace, [s.block_hashes for s in sets], what)
    keys: list[bytes] = []
    for blocks in sets:
        group, scope = read_group(namespace, blocks.group), read_scope(blocks.scope)
        hashes = read_hashes(namespace, blocks.block_hashes)
        keys += node.spaces.find(namespace, group, scope).keys(hashes)
    return keys


def read_text(what: str, text: str, *, required: bool) -> str:
    """Return printable text of at most 256 bytes."""
    size = len(text.encode())
    if size > MAX_TEXT or (required and not size):
        low = 1 if required else 0
        raise invalid(f"{what} has {size} bytes; it must have {low} to {MAX_TEXT}")
    if not text.isprintable():
        raise invalid(f"{what} {quote(text)} holds characters that cannot be printed")
    return text


def read_ttl(node: Node, ttl: Duration, *, given: bool, pin: bool = False) -> float:
    """Return a time to live in seconds, within the limit; the default when none is given."""
    limits = node.config.limits
    longest = limits.pin_ttl_max if pin else limits.lease_ttl_max
    if not given:
        return min(limits.pin_ttl if pin else DEFAULT_TTL, longest)
    if not 0 <= ttl.nanos <= _MAX_NANOS:
        raise invalid(f"ttl has {ttl.nanos} nanos; it must have 0 to {_MAX_NANOS}")
    seconds = float(ttl.seconds) + ttl.nanos / 1e9
    if not 0 < seconds <= longest:
        raise invalid(f"ttl is {seconds:g} s; it must be more than 0 and at most {longest:g} s")
    return seconds


def read_mapping(node: Node, tier: Tier, request: PrepareStoreRequest | PrepareLoadRequest) -> int:
    """Return the mapping through which slots are to be told; 0 when they are not."""
    if not request.locate:
        return 0
    node.mappings.check(tier, request.mapping)
    return request.mapping


def check_accepts(tier: Tier) -> None:
    """Refuse what would write blocks to a tier while that is not possible.

    Raises:
        KvtierError: UNAVAILABLE while the tier recovers, FAILED_PRECONDITION while it is read-only.
    """
    health = tier.health
    if health.recovering:
        raise unavailable(
            f"tier {tier.name} is finding out what it holds ({health.reason}): try again, or "
            "use another tier",
            Reason.TIER_RECOVERING,
            retry_after=_RECOVERY_RETRY,
        )
    if health.trouble:
        raise failed_precondition(
            f"tier {tier.name} is read-only: {health.trouble}. It goes on by itself once that is "
            "mended; use another tier meanwhile",
            Reason.TIER_READ_ONLY,
        )


def check_removes(tier: Tier) -> None:
    """Refuse what would remove blocks from a tier while that is not possible.

    Raises:
        KvtierError: As `check_accepts` does, but not of a tier that only has no room.
    """
    if not tier.removes:
        check_accepts(tier)


def block_sizes(namespace: NamespaceInfo, sets: Sequence[BlockSet]) -> list[int]:
    """Return the bytes of each block of sets, in order."""
    return [
        namespace.block_bytes[blocks.group]
        for blocks in sets
        for _ in range(len(blocks.block_hashes) // namespace.hash_width)
    ]


def request_digest(request: Message) -> bytes:
    """Return what tells a repeated request from another one with the same lease id."""
    return xxh3_128_digest(request.SerializeToString(deterministic=True))


def as_duration(seconds: float) -> Duration:
    """Return a time in seconds as it travels."""
    duration = Duration()
    duration.FromNanoseconds(int(seconds * 1e9))
    return duration
