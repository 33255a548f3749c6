"""The scope that keeps adapters, tenants and salts apart."""

import hashlib

from kvtier.client.arguments import bad_argument
from kvtier.wire.errors import quote


def scope_of(*, adapter: str = "", tenant: str = "", salt: bytes = b"") -> bytes:
    """Return the scope of an adapter, a tenant and a salt: 0 or 32 bytes.

    Nothing gives the empty scope, which all share. Anything else gives the SHA-256 of the three
    parts in this order, each behind its length in bytes as 4 bytes, big-endian; text is UTF-8. So
    equal arguments give equal scopes in every process, and no two different ones collide by
    moving a letter from one part to the next.

    Raises:
        InvalidArgumentError: When an argument is of another type, or text is not valid Unicode.
    """
    parts = (_utf8("adapter", adapter), _utf8("tenant", tenant), _bytes("salt", salt))
    if not any(parts):
        return b""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return digest.digest()


def _utf8(name: str, text: object) -> bytes:
    if isinstance(text, str):
        try:
            return text.encode()
        except UnicodeEncodeError:
            pass
    raise bad_argument(f"{name} must be text that UTF-8 can hold; got {quote(text)}")


def _bytes(name: str, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    raise bad_argument(f"{name} must be bytes; got {quote(value)}")
