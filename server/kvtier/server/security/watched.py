"""Files that are read again when they change, while the last good ones stay in use."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from kvtier.wire.stamps import Stamp, stamp_of

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class SecretFileError(Exception):
    """A file of secrets cannot be used; the message names it and says why, without what is in it.

    Args:
        path: The file.
        why: What is wrong with it, to stand behind its name.
    """

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} {why}")


class Watched(Generic[T]):
    """What some files hold that belong together.

    They are read again once they were left alone from one look to the next: those who write one
    after the other, or a file in pieces, are given the time. A change that cannot be used is told
    in the log, once, and changes nothing; it is tried again with each look, since a file can become
    of use without a change, as when it may be read now, or a certificate's time has come.

    Args:
        what: What they are, in a word, for the log.
        paths: The files.
        load: Reads them; raises `error` when they cannot be used.
        error: As said.

    Attributes:
        value: What was read last.
    """

    def __init__(
        self,
        what: str,
        paths: Sequence[Path],
        load: Callable[[], T],
        error: type[Exception],
    ) -> None:
        self._what = what
        self._paths = paths
        self._load = load
        self._error = error
        self._problem = ""
        self._seen = self._read = self._stamp()
        self.value = load()

    def look(self) -> bool:
        """Read the files again if they changed; tells whether there is another value."""
        stamp = self._stamp()
        before, self._seen = self._seen, stamp
        if stamp != before or (stamp == self._read and not self._problem):
            return False
        self._read = stamp
        try:
            value = self._load()
        except self._error as error:
            self._tell(str(error))
            return False
        self._problem = ""
        self.value = value
        _log.info("files read again", what=self._what, files=[str(path) for path in self._paths])
        return True

    def _tell(self, problem: str) -> None:
        told, self._problem = self._problem, problem
        if problem != told:
            _log.warning("files cannot be used; the last good ones stay", what=self._what,
                         problem=problem)  # fmt: skip

    def _stamp(self) -> list[Stamp]:
        return list(map(stamp_of, self._paths))
