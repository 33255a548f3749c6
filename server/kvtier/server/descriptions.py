"""What followers are told of namespaces."""

from kvtier.server.events.log import EventLog
from kvtier.server.events.source import News


class _Description:
    """One registration of a namespace, and the last batch that names it once it was deleted."""

    __slots__ = ("encoded", "fingerprint", "last", "number")

    def __init__(self, number: int, fingerprint: bytes, encoded: bytes) -> None:
        self.number = number
        self.fingerprint = fingerprint
        self.encoded = encoded
        self.last: int | None = None


class Descriptions:
    """The descriptions of registered namespaces, and of deleted ones that the log still names.

    A namespace that is registered again has a new number, so that it is told again. Of deleted ones
    at most `max_deleted` are kept: the log lets go of what names more.

    Args:
        log: The node's event log.
        max_deleted: Most deleted namespaces to keep.
    """

    def __init__(self, log: EventLog, max_deleted: int) -> None:
        self._log = log
        self._max_deleted = max_deleted
        self._newest = 0
        self._told: dict[bytes, _Description] = {}
        self._deleted: dict[bytes, _Description] = {}

    def add(self, fingerprint: bytes, encoded: bytes) -> None:
        """Note a namespace, when it is not registered yet."""
        if fingerprint in self._told:
            return
        self._deleted.pop(fingerprint, None)
        self._newest += 1
        self._told[fingerprint] = _Description(self._newest, fingerprint, encoded)

    def retire(self, fingerprint: bytes) -> None:
        """Note that a namespace is deleted, and that no later batch names it."""
        description = self._told.pop(fingerprint)
        description.last = self._log.last_named(fingerprint)
        self._deleted[fingerprint] = description
        self._forget_unnamed()
        while len(self._deleted) > self._max_deleted:
            self._log.trim(min(one.last or 0 for one in self._deleted.values()))
            self._forget_unnamed()

    def after(self, number: int, position: int) -> News:
        """Return what a follower must be told that was told everything up to a number.

        Args:
            number: The number of the newest description that it was told; 0 for none.
            position: A position that it has come to: it needs nothing that is named before only.
        """
        if number == self._newest:
            return News(number, ())
        found = [
            one
            for one in (*self._deleted.values(), *self._told.values())
            if one.number > number and (one.last is None or one.last > position)
        ]
        return News(self._newest, [(one.fingerprint, one.encoded) for one in found])

    def _forget_unnamed(self) -> None:
        oldest = self._log.oldest
        gone = [one for one in self._deleted.values() if (one.last or 0) <= oldest]
        for one in gone:
            del self._deleted[one.fingerprint]
            self._log.forget_name(one.fingerprint)
