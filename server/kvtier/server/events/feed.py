"""Reading the log for followers, who share what they read with those who asked for the same."""

from collections.abc import Iterator
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from kvtier.server.events.filter import EventFilter
from kvtier.server.events.log import READ_AT_MOST, EventLog
from kvtier.server.events.messages import Messages

_READ_AT_ONCE: Final = 32


class Delivery(NamedTuple):
    """A stretch of the log, read for a follower.

    Attributes:
        message: The batches that pass, as one message; None when nothing does.
        through: The sequence read last.
    """

    message: bytes | None
    through: int


class Feed:
    """What the followers with one filter and view have in common.

    Followers who keep up are at the same position, so that all but the first find their message
    made already, and hold the same bytes while they send it.

    Args:
        log: The log to read.
        messages: Encodes messages about it.
        wanted: The filter and view.
        message_bytes: Size at which a message is full. A larger batch goes alone.
    """

    def __init__(
        self, log: EventLog, messages: Messages, wanted: EventFilter, message_bytes: int
    ) -> None:
        self.wanted = wanted
        self._log = log
        self._messages = messages
        self._message_bytes = message_bytes
        self._key: tuple[int, int, int] | None = None
        self._last = Delivery(None, 0)

    def read(self, told: int, cursor: int, limit: int) -> Delivery:
        """Return the next stretch of the log.

        Args:
            told: The position that the follower's last message accounted for.
            cursor: The position that was read last; between them nothing passed.
            limit: The position to read to, beyond the cursor and at most the head.

        Raises:
            Lagged: When the log no longer holds the batch after the cursor.
        """
        key = (told, cursor, limit)
        if key != self._key:
            self._last = self._read(*key)
            self._key = key
        return self._last

    def _read(self, told: int, cursor: int, limit: int) -> Delivery:
        chosen: list[bytes] = []
        size = 0
        for chunk in self._chunks(cursor, min(limit, cursor + READ_AT_MOST)):
            size += len(chunk)
            if chosen and size > self._message_bytes:
                break
            cursor += 1
            if chunk:
                chosen.append(chunk)
        return Delivery(self._messages.batches(told, cursor, chosen) if chosen else None, cursor)

    def _chunks(self, after: int, through: int) -> Iterator[bytes]:
        """Yield what passes of each batch, nothing where nothing does.

        It reads on as it is asked for: a message takes few of the batches of a long backlog.
        """
        log, wanted = self._log, self.wanted
        while after < through:
            end = min(through, after + _READ_AT_ONCE)
            if wanted.selective:
                yield from map(wanted.select, log.read(after, end))
            else:
                yield from log.read_whole(after, end, full=wanted.full)
            after = end


class Feeds:
    """The feeds of a log, one for each filter that somebody follows with.

    Args:
        log: The log to read.
        messages: Encodes messages about it.
        message_bytes: Size at which a message is full.
    """

    def __init__(self, log: EventLog, messages: Messages, message_bytes: int) -> None:
        self._log = log
        self._messages = messages
        self._message_bytes = message_bytes
        self._feeds: WeakValueDictionary[EventFilter, Feed] = WeakValueDictionary()

    def of(self, wanted: EventFilter) -> Feed:
        """Return the feed of a filter; it lives as long as somebody has it."""
        feed = self._feeds.get(wanted)
        if feed is None:
            feed = Feed(self._log, self._messages, wanted, self._message_bytes)
            self._feeds[wanted] = feed
        return feed
