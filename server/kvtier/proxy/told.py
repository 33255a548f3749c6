"""What a proxy tells its followers, as far as it is counted."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Told:
    """What followers were told, over all nodes.

    Attributes:
        resets: Resets that they were sent, by `ResetReason`.
        catch_ups: Streams of nodes that are followed for one follower now.
    """

    resets: Counter[int] = field(default_factory=Counter)
    catch_ups: int = 0
