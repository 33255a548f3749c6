"""Whose prefix it is: the object OWNER names the node and the tier that have it."""

import json
from threading import Lock
from typing import Any
from uuid import uuid4

from kvtier.server.lasting.bucket import Bucket
from kvtier.server.lasting.object_errors import ExistsError
from kvtier.server.lasting.shelf import MissingError, ShelfError

_KEY = "OWNER"
_FORMAT = 1
_MOST_BYTES = 4096


class OwnedError(ShelfError):
    """The prefix is another's; the message says whose."""


class Ownership:
    """The claim of a node's tier on a prefix.

    Args:
        bucket: Where the prefix is.
        node_id: The node's id.
        tier: The tier's name.
    """

    def __init__(self, bucket: Bucket, node_id: str, tier: str) -> None:
        self._trouble = ""
        self._bucket = bucket
        self._names = {"node_id": node_id, "tier": tier}
        self._claimed = False
        self._attempts = 0
        self._lock = Lock()

    def ensure(self) -> None:
        """Claim the prefix unless that was done.

        Those who wait while another tries share what comes of it.

        Raises:
            ShelfError: When it cannot be claimed now, or is another's.
        """
        if self._claimed:
            return
        seen = self._attempts
        with self._lock:
            if self._attempts == seen:
                self.claim()
            elif not self._claimed:
                raise ShelfError(self._trouble)

    def claim(self) -> None:
        """Claim the prefix, or find out whether it is claimed still.

        Raises:
            OwnedError: When it is another's.
            BucketError: When the server refuses, fails, or does not answer.
        """
        try:
            self._check(self._read() or self._create() or self._read())
        except ShelfError as error:
            self._trouble = str(error)
            raise
        else:
            self._claimed, self._trouble = True, ""
        finally:
            self._attempts += 1

    def _read(self) -> bytes:
        """Return what OWNER says; nothing when there is none."""
        try:
            text, size = self._bucket.read(_KEY, _MOST_BYTES)
        except MissingError:
            return b""
        return bytes(text) if 0 < size <= _MOST_BYTES else b"?"

    def _create(self) -> bytes:
        """Return what OWNER says now; nothing when another was faster, or an answer was lost."""
        owner = {**self._names, "format": _FORMAT, "claim": uuid4().hex}
        text = json.dumps(owner).encode()
        try:
            self._bucket.create(_KEY, text)
        except ExistsError:
            return b""
        return text

    def _check(self, text: bytes) -> None:
        owner = _parse(text)
        if owner is None:
            raise OwnedError("the prefix has an object OWNER that cannot be read")
        if owner["format"] != _FORMAT:
            raise OwnedError("the prefix is in another format, of a newer kvtier")
        if any(owner[key] != name for key, name in self._names.items()):
            raise OwnedError(f"the prefix belongs to node {owner['node_id']}, tier {owner['tier']}")


def _parse(text: bytes) -> dict[str, Any] | None:
    try:
        owner = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(owner, dict) or type(owner.get("format")) is not int:
        return None
    names = [owner.get(key) for key in ("node_id", "tier")]
    good = all(isinstance(n, str) and n.isprintable() and len(n) <= 253 for n in names)
    return owner if good else None
