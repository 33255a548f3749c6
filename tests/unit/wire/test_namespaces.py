"""Namespaces: the fingerprint tells every difference, and what is malformed is refused."""

import hashlib

import pytest

from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import describe, differing_fields, fingerprint, problem

MAX_BLOCK = 1 << 30

# Written by hand from the rule in docs/protocol.md, for writers of other clients to compare with.
GOLDEN_JSON = (
    '{"block_bytes":[2097152,65536],"dtype":"bfloat16","hash_algorithm":"sha256_cbor",'
    '"hash_seed":"00ff","hash_width":32,"keep_token_ids":true,"layout":"NHD",'
    '"model":"meta/模型-\\"70B\\"","name":"chat","pp_rank":0,"pp_size":1,"revision":"",'
    '"tokens_per_block":16,"tp_rank":3,"tp_size":8}'
)
GOLDEN = "6d3661652d3092d68d054b572734b28758a6af5883cff015d83c64b04743b1d8"


def make(**changes: object) -> Namespace:
    fields: dict[str, object] = {
        "name": "chat",
        "model": 'meta/模型-"70B"',
        "dtype": "bfloat16",
        "layout": "NHD",
        "tokens_per_block": 16,
        "block_bytes": [2097152, 65536],
        "tp_size": 8,
        "tp_rank": 3,
        "pp_size": 1,
        "hash_algorithm": "sha256_cbor",
        "hash_seed": b"\x00\xff",
        "hash_width": 32,
        "keep_token_ids": True,
    }
    return Namespace(**{**fields, **changes})  # type: ignore[arg-type]


# Another value for every field of a namespace.
CHANGES: dict[str, object] = {
    "name": "chat2",
    "model": "meta/other",
    "revision": "main",
    "dtype": "fp8_e4m3",
    "layout": "HND",
    "tokens_per_block": 32,
    "block_bytes": [65536, 2097152],
    "tp_size": 16,
    "tp_rank": 4,
    "pp_size": 2,
    "pp_rank": 1,
    "hash_algorithm": "xxh3",
    "hash_seed": b"\x00",
    "hash_width": 16,
    "keep_token_ids": False,
}


def test_the_fingerprint_is_the_hash_of_the_canonical_description() -> None:
    """A fixed vector: a change of it would part every node from every other."""
    got = fingerprint(make())

    assert got == hashlib.sha256(GOLDEN_JSON.encode()).digest()
    assert got.hex() == GOLDEN


def test_every_field_of_the_message_has_a_change_below() -> None:
    """A field that is added later cannot be left out of the fingerprint unnoticed."""
    assert set(CHANGES) == {field.name for field in Namespace.DESCRIPTOR.fields}


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_changes_the_fingerprint_and_is_told(field: str) -> None:
    """Blocks are exchanged only where every field is equal."""
    one, other = make(), make(**{field: CHANGES[field]})

    assert fingerprint(one) != fingerprint(other)
    assert differing_fields(one, other) == {field: (describe(one)[field], describe(other)[field])}


def test_equal_descriptions_differ_in_nothing() -> None:
    """A parsed copy is the same namespace."""
    copy = Namespace.FromString(make().SerializeToString())

    assert fingerprint(copy) == fingerprint(make())
    assert differing_fields(copy, make()) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"name": "n" * 256, "revision": "r" * 256, "hash_seed": bytes(64)},
        {"hash_width": 8, "tokens_per_block": 1, "block_bytes": [1]},
        {
            "hash_width": 64,
            "tokens_per_block": 1 << 20,
            "keep_token_ids": False,
            "block_bytes": [MAX_BLOCK] * 64,
        },
        {"tp_size": 1 << 16, "tp_rank": (1 << 16) - 1, "hash_seed": b""},
    ],
)
def test_a_description_within_the_limits_has_no_problem(changes: dict[str, object]) -> None:
    """Every limit is itself allowed."""
    assert problem(make(**changes), MAX_BLOCK) is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": ""}, "name is empty"),
        ({"model": ""}, "model is empty"),
        ({"dtype": ""}, "dtype is empty"),
        ({"layout": ""}, "layout is empty"),
        ({"hash_algorithm": ""}, "hash_algorithm is empty"),
        ({"name": "n" * 257}, "name has 257 bytes; at most 256 are allowed"),
        ({"revision": "é" * 129}, "revision has 258 bytes; at most 256 are allowed"),
        ({"name": "a\nb"}, "name is 'a\\nb'; it must be printable"),
        ({"model": "x\u202ey"}, "model is 'x\\u202ey'; it must be printable"),
        ({"tokens_per_block": 0}, "tokens_per_block is 0; it must be from 1 to 200000"),
        ({"tokens_per_block": (1 << 20) + 1}, "tokens_per_block is 1048577"),
        ({"hash_width": 7}, "hash_width is 7; it must be from 8 to 64"),
        ({"hash_width": 65}, "hash_width is 65; it must be from 8 to 64"),
        ({"block_bytes": []}, "number of block_bytes is 0; it must be from 1 to 64"),
        ({"block_bytes": [1] * 65}, "number of block_bytes is 65; it must be from 1 to 64"),
        ({"block_bytes": [1, 0]}, "block_bytes[1] is 0; it must be from 1 to 1073741824"),
        ({"block_bytes": [MAX_BLOCK + 1]}, "block_bytes[0] is 1073741825; it must be from 1 to"),
        ({"hash_seed": bytes(65)}, "length of hash_seed is 65; it must be from 0 to 64"),
        ({"tp_size": 0}, "tp_size is 0; it must be from 1 to 65536"),
        ({"pp_size": (1 << 16) + 1}, "pp_size is 65537; it must be from 1 to 65536"),
        ({"tp_rank": 8}, "tp_rank is 8; it must be from 0 to 7"),
        ({"pp_rank": 1}, "pp_rank is 1; it must be from 0 to 0"),
    ],
)
def test_a_malformed_description_is_told_with_field_value_and_limit(
    changes: dict[str, object], told: str
) -> None:
    """What the caller reads is enough to mend it."""
    assert (problem(make(**changes), MAX_BLOCK) or "").startswith(told)
