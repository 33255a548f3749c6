"""The fingerprint of a namespace, and which descriptions are accepted."""

import hashlib
import json

from kvtier.v1.namespace_pb2 import Namespace

FINGERPRINT_BYTES = 32
MAX_TEXT = 256
MAX_GROUPS = 64
MAX_SCOPE_BYTES = 32
MAX_SEED_BYTES = 64
MAX_TOKENS_PER_BLOCK = 1 << 20
# An event carries a block's token ids whole, at up to five bytes each, and must stay near 1 MiB.
MAX_KEPT_TOKENS_PER_BLOCK = 200_000
MIN_HASH_WIDTH, MAX_HASH_WIDTH = 8, 64
MAX_RANKS = 1 << 16

_TEXTS = ("name", "model", "revision", "dtype", "layout", "hash_algorithm")
_REQUIRED = ("name", "model", "dtype", "layout", "hash_algorithm")


def describe(namespace: Namespace) -> dict[str, object]:
    """Return the fields of a namespace by name, as the fingerprint sees them.

    Bytes are written as lower-case hexadecimal, numbers as decimal integers, flags as booleans.
    """
    fields: dict[str, object] = {}
    for field in Namespace.DESCRIPTOR.fields:
        value = getattr(namespace, field.name)
        if isinstance(value, bytes):
            value = value.hex()
        elif field.name == "block_bytes":
            value = list(value)
        fields[field.name] = value
    return fields


def fingerprint(namespace: Namespace) -> bytes:
    """Return the 32-byte fingerprint: SHA-256 of the canonical JSON of every field.

    Canonical means: one object with all fields, keys in ascending order, no white space, and
    text in UTF-8 without escapes other than JSON's own.
    """
    canonical = json.dumps(
        describe(namespace), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(canonical.encode()).digest()


def differing_fields(one: Namespace, other: Namespace) -> dict[str, tuple[object, object]]:
    """Return the fields in which two descriptions differ, with both values."""
    first, second = describe(one), describe(other)
    return {k: (first[k], second[k]) for k in first if first[k] != second[k]}


def problem(namespace: Namespace, max_block_bytes: int) -> str | None:
    """Return what is wrong with a description, naming field, value and limit; None if nothing."""
    for field in _TEXTS:
        text = getattr(namespace, field)
        if not text and field in _REQUIRED:
            return f"{field} is empty"
        if len(text.encode()) > MAX_TEXT:
            return f"{field} has {len(text.encode())} bytes; at most {MAX_TEXT} are allowed"
        if not text.isprintable():
            return f"{field} is {text!r}; it must be printable"
    return _number_problem(namespace, max_block_bytes)


def _number_problem(namespace: Namespace, max_block_bytes: int) -> str | None:
    kept = namespace.keep_token_ids
    most_tokens = MAX_KEPT_TOKENS_PER_BLOCK if kept else MAX_TOKENS_PER_BLOCK
    ranges = (
        ("tokens_per_block", namespace.tokens_per_block, 1, most_tokens),
        ("hash_width", namespace.hash_width, MIN_HASH_WIDTH, MAX_HASH_WIDTH),
        ("number of block_bytes", len(namespace.block_bytes), 1, MAX_GROUPS),
        ("length of hash_seed", len(namespace.hash_seed), 0, MAX_SEED_BYTES),
        ("tp_size", namespace.tp_size, 1, MAX_RANKS),
        ("pp_size", namespace.pp_size, 1, MAX_RANKS),
        ("tp_rank", namespace.tp_rank, 0, namespace.tp_size - 1),
        ("pp_rank", namespace.pp_rank, 0, namespace.pp_size - 1),
        *(
            (f"block_bytes[{i}]", n, 1, max_block_bytes)
            for i, n in enumerate(namespace.block_bytes)
        ),
    )
    for what, value, low, high in ranges:
        if not low <= value <= high:
            return f"{what} is {value}; it must be from {low} to {high}"
    return None
