"""Bearer tokens: the file of their hashes, and the token of a call."""

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kvtier.server.security.watched import SecretFileError
from kvtier.wire.errors import KvtierError, Reason, unauthenticated

_NAME = re.compile(r"[A-Za-z0-9._/@-]{1,253}")
_HASH = re.compile(r"[0-9a-fA-F]{64}")
_SCHEME = "bearer"


class Token(NamedTuple):
    """A token as the server knows it.

    Attributes:
        name: Whose it is.
        digest: SHA-256 of the token.
    """

    name: str
    digest: bytes


Tokens = tuple[Token, ...]


def load_tokens(path: Path) -> Tokens:
    """Read a file of one NAME and SHA-256 in hexadecimal a line; `#` begins a comment.

    A name may have several tokens, so that a new one is known before the old one goes.

    Raises:
        SecretFileError: When it cannot be read, or a line is something else, or a hash stands
            there twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SecretFileError(path, f"cannot be read: {why}") from None
    except UnicodeDecodeError:
        raise SecretFileError(path, "is not UTF-8 text") from None
    tokens = tuple(_tokens(text, path))
    if len({token.digest for token in tokens}) < len(tokens):
        raise SecretFileError(path, "has one hash twice; give each name a token of its own")
    return tokens


def bearer_token(authorizations: Iterable[str]) -> str | None:
    """Return the token of a call's `authorization` metadata, None when there is none.

    Raises:
        KvtierError: UNAUTHENTICATED when it is no bearer token, or there are several.
    """
    values = list(authorizations)
    if not values:
        return None
    scheme, _, token = values[0].partition(" ")
    if len(values) > 1 or scheme.lower() != _SCHEME or not token.strip():
        raise unauthenticated(
            "the metadata authorization is not one 'Bearer TOKEN'; send it once, in this form",
            Reason.BAD_TOKEN,
        )
    return token.strip()


def find_token(token: str, tokens: Tokens) -> Token | None:
    """Return the entry of a token. Every entry is compared, in a time that tells nothing."""
    digest = hashlib.sha256(token.encode()).digest()
    found = None
    for entry in tokens:
        if hmac.compare_digest(entry.digest, digest):
            found = entry
    return found


def unknown_token() -> KvtierError:
    """Return what a caller is told whose token is none of the server's."""
    return unauthenticated(
        "the bearer token is not known here: send a current one, or let an operator add its "
        "SHA-256 to the file that auth.tokens names",
        Reason.BAD_TOKEN,
    )


def _tokens(text: str, path: Path) -> Iterator[Token]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not _NAME.fullmatch(words[0]) or not _HASH.fullmatch(words[1]):
            # Not what stands there: it may be a token.
            raise SecretFileError(
                path, f"is wrong in line {number}: write a name, and its token's SHA-256 in hex"
            )
        yield Token(words[0], bytes.fromhex(words[1]))
