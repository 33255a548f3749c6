"""How much may be brought to the primary at one time."""


class Admission:
    """Bounds what is on its way, so that stores are not starved.

    Args:
        blocks: Most blocks.
        size: Most bytes; a block that is larger is let in alone.
    """

    def __init__(self, *, blocks: int, size: int) -> None:
        self._most_blocks = blocks
        self._most_bytes = size
        self.blocks = 0
        self.bytes = 0

    def enter(self, size: int) -> bool:
        """Let a block of so many bytes in, and tell whether it was."""
        full = self.blocks >= self._most_blocks or self.bytes + size > self._most_bytes
        if full and self.blocks:
            return False
        self.blocks += 1
        self.bytes += size
        return True

    def leave(self, size: int) -> None:
        """Note that a block of so many bytes is not on its way any more."""
        self.blocks -= 1
        self.bytes -= size
