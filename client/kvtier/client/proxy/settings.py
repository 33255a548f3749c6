"""How a proxy sends blocks on, and how it brings them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from kvtier.client.arguments import bad_argument
from kvtier.wire.errors import quote

CascadeTo: TypeAlias = Literal["all", "none"] | Sequence[str]
"""Which secondaries: all, none, or those with these addresses or node ids."""


@dataclass(frozen=True, slots=True)
class CascadeSettings:
    """How what was stored on the primary goes on to the secondaries.

    Attributes:
        to: Which secondaries want a store that does not say; names that are no secondary's now
            are passed over.
        tiers: The tier that takes the blocks, by a secondary's address; where none is named it is
            the first of medium CPU, FS or OBJ.
        catch_up: Remember what a secondary was not sent, and send it when that works again.
        queue_blocks: Blocks that may wait for one secondary; a store that is larger waits alone.
        catch_up_blocks: Blocks that are remembered for one secondary; the oldest go first.
        pause: Seconds for which a secondary that failed is left alone; they double with each
            further failure.
        longest_pause: The longest such pause, in seconds.
        stall: Seconds that a secondary may say nothing while it copies.

    Raises:
        InvalidArgumentError: When a setting cannot be one.
    """

    to: CascadeTo = "all"
    tiers: Mapping[str, str] = field(default_factory=dict)
    catch_up: bool = False
    queue_blocks: int = 1 << 16
    catch_up_blocks: int = 1 << 18
    pause: float = 1.0
    longest_pause: float = 60.0
    stall: float = 30.0

    def __post_init__(self) -> None:
        check_word(self.to)
        _at_least_one("cascade", queue_blocks=self.queue_blocks)
        _at_least_one("cascade", catch_up_blocks=self.catch_up_blocks)
        _positive("cascade", pause=self.pause, longest_pause=self.longest_pause, stall=self.stall)


@dataclass(frozen=True, slots=True)
class PromotionSettings:
    """How blocks that only a secondary has come to the primary.

    Attributes:
        blocks: Most blocks on their way to the primary at one time.
        bytes: Most bytes on their way at one time; a block that is larger goes alone.
        deadline: Seconds that a load which does not say waits for blocks.
        pause: Seconds for which a secondary that failed is left alone; they double with each
            further failure.
        longest_pause: The longest such pause, in seconds.
        stall: Seconds after which a secondary of which nothing came stands still, over all loads
            that gave it up.
        verdict: Seconds for which a block that a secondary did not have is not asked of it again,
            unless it says that it stored the block.
        verdicts: Most blocks that this is remembered of; the oldest go first.

    Raises:
        InvalidArgumentError: When a setting cannot be one.
    """

    blocks: int = 4096
    bytes: int = 256 << 20
    deadline: float = 5.0
    pause: float = 1.0
    longest_pause: float = 30.0
    stall: float = 1.0
    verdict: float = 30.0
    verdicts: int = 1 << 16

    def __post_init__(self) -> None:
        _at_least_one("promotion", blocks=self.blocks, bytes=self.bytes, verdicts=self.verdicts)
        _positive(
            "promotion",
            deadline=self.deadline,
            pause=self.pause,
            longest_pause=self.longest_pause,
            stall=self.stall,
            verdict=self.verdict,
        )


def check_word(to: CascadeTo | None) -> None:
    """Raise INVALID_ARGUMENT when that is a word that means no secondaries."""
    if isinstance(to, str) and to not in {"all", "none"}:
        raise bad_argument(
            f"cascade must be 'all', 'none' or a list of addresses or node ids; got {quote(to)}"
        )


def _at_least_one(kind: str, **values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise bad_argument(f"{name} of the {kind} settings must be at least 1; got {value}")


def _positive(kind: str, **seconds: float) -> None:
    for name, value in seconds.items():
        if not value > 0:
            raise bad_argument(
                f"{name} of the {kind} settings must be more than 0 s; got {quote(value)}"
            )
