"""What is to be done to a shelf is done in order, and known to be done only when it is."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.lasting.tidying import Tidying
from tests.lasting.lives import record_of
from tests.lasting.memory_shelf import MemoryShelf

# More than a step deletes.
BLOCKS = 1500
NAMES = [record_of(number, number).name for number in range(BLOCKS)]


class WatchedShelf(MemoryShelf):
    """A shelf that tells when it deletes."""

    def __init__(self) -> None:
        super().__init__()
        self.tell: Callable[[], object] = lambda: None

    def delete(self, names: Sequence[str]) -> None:
        super().delete(names)
        self.tell()


class MadeNames:
    """Names that are made when they are taken."""

    def __init__(self) -> None:
        self.made = 0

    def __len__(self) -> int:
        return BLOCKS

    def __iter__(self) -> Iterator[str]:
        for name in NAMES:
            self.made += 1
            yield name


def test_whoever_asks_during_a_step_waits_for_all_that_is_left() -> None:
    """What a step deletes hides nothing of what comes after it."""
    shelf = WatchedShelf()
    tidying = Tidying(shelf)
    asked: list[Callable[[], bool]] = []
    shelf.tell = lambda: asked.append(tidying.so_far())
    tidying.discard(NAMES)

    tidying.step()

    assert tidying.doomed == BLOCKS - len(shelf.deleted) > 0
    assert [done() for done in asked] == [False]
    tidying.step()
    assert [done() for done in asked] == [True, True]


def test_names_are_made_step_by_step() -> None:
    """Whoever discards many blocks does not wait for their names."""
    shelf, names = MemoryShelf(), MadeNames()
    tidying = Tidying(shelf)

    tidying.discard(names)
    assert (names.made, tidying.doomed) == (0, BLOCKS)
    tidying.step()
    assert names.made == len(shelf.deleted) < BLOCKS
    tidying.finish()

    assert shelf.deleted == NAMES
    assert not tidying.waits


def test_a_step_that_failed_is_done_again() -> None:
    """No name is lost, and none comes twice."""
    shelf = MemoryShelf()
    tidying = Tidying(shelf)
    tidying.discard(MadeNames())
    shelf.trouble = "input/output error"
    with pytest.raises(ShelfError):
        tidying.step()
    assert tidying.doomed == BLOCKS

    shelf.trouble = ""
    tidying.finish()

    assert shelf.deleted == NAMES
