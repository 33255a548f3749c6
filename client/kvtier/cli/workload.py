"""A generated workload of the shape that chat services see.

Requests come from conversations. Each conversation begins with one of a few system prompts that
many share, some of them far more often than others. A conversation grows turn by turn: the next
prompt holds the one before, its answer and a new question. And many requests bring a document
that nobody asks about again, of a heavy-tailed length.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from kvtier.cli.trace import TOKENS_PER_BLOCK, Request


@dataclass(frozen=True)
class Shape:
    """What a workload looks like; lengths are in tokens.

    Attributes:
        system_prompts: How many system prompts there are.
        one_time_share: Share of requests that bring a document and are never continued.
        follow_up_share: Of the other requests, the share that continues a conversation.
        live_conversations: Conversations that a next turn may come from.
        document_scale: Least length of a document.
        tail: Exponent of the documents' Pareto distribution; smaller is heavier.
        longest: No prompt is longer; a conversation that gets there ends.
    """

    system_prompts: int = 12
    one_time_share: float = 0.35
    follow_up_share: float = 0.75
    live_conversations: int = 120
    document_scale: int = 3000
    tail: float = 1.3
    longest: int = 65_536


@dataclass
class _Conversation:
    """A prompt so far: its tokens, and the ids of the blocks that are full and thus settled."""

    tokens: int
    full: list[int] = field(default_factory=list)


class Workload:
    """A seeded stream of requests; equal arguments give equal requests."""

    def __init__(self, seed: int, shape: Shape | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, and nothing secret
        self._shape = shape or Shape()
        self._next_id = 0
        self._clock = 0.0
        self._systems = [self._system_prompt() for _ in range(self._shape.system_prompts)]
        self._live: list[_Conversation] = []

    def requests(self, count: int) -> Iterator[Request]:
        """Yield the next `count` requests."""
        for _ in range(count):
            yield self._request()

    def _request(self) -> Request:
        self._clock += self._random.expovariate(1 / 300)
        one_time = self._random.random() < self._shape.one_time_share
        conversation = self._begin() if one_time else self._turn()
        ids = self._extend(conversation, self._document() if one_time else self._length(250))
        answer = self._length(400)
        request = Request(int(self._clock), conversation.tokens, answer, tuple(ids))
        if not one_time:
            self._keep(conversation, answer)
        return request

    def _system_prompt(self) -> _Conversation:
        blocks = self._random.randint(1, 8)
        ids = [self._new_id() for _ in range(blocks)]
        return _Conversation(blocks * TOKENS_PER_BLOCK, ids)

    def _begin(self) -> _Conversation:
        # The system prompt of rank r is asked for in proportion to 1/r.
        shares = [1 / rank for rank in range(1, len(self._systems) + 1)]
        (system,) = self._random.choices(self._systems, shares)
        return _Conversation(system.tokens, list(system.full))

    def _turn(self) -> _Conversation:
        if self._live and self._random.random() < self._shape.follow_up_share:
            # The latest turns are the likeliest to go on.
            back = min(int(self._random.paretovariate(0.7)), len(self._live))
            return self._live.pop(-back)
        return self._begin()

    def _extend(self, conversation: _Conversation, tokens: int) -> list[int]:
        """Add tokens to a prompt and return its block ids, the last of a block not yet full."""
        conversation.tokens = min(conversation.tokens + tokens, self._shape.longest)
        whole, rest = divmod(conversation.tokens, TOKENS_PER_BLOCK)
        full = conversation.full
        full.extend(self._new_id() for _ in range(whole - len(full)))
        return [*full, self._new_id()] if rest else list(full)

    def _keep(self, conversation: _Conversation, answer: int) -> None:
        conversation.tokens += answer
        if conversation.tokens < self._shape.longest:
            self._live.append(conversation)
        if len(self._live) > self._shape.live_conversations:
            self._live.pop(0)

    def _document(self) -> int:
        return int(self._random.paretovariate(self._shape.tail) * self._shape.document_scale)

    def _length(self, mean: int) -> int:
        return 1 + int(self._random.expovariate(1 / mean))

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1
