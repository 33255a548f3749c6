"""What the commands say of a tier that cannot keep, read or remove blocks: and that they failed."""

import asyncio
import json
from collections.abc import Coroutine, Iterator
from threading import Thread
from typing import Any

import pytest

from kvtier.cli.main import main
from kvtier.server import lifecycle
from kvtier.server.config import NodeConfig, TierConfig
from kvtier.server.lasting import healing
from kvtier.server.lasting.store import LastingStore
from kvtier.server.stores.open import keep_on
from tests.lasting.memory_shelf import MemoryShelf
from tests.waiting import until

SIZE = 64
DATA = bytes(range(256))
TROUBLE = "no space left on device"


class Failing:
    """A node in a thread of this process, whose one tier fails when the test says so.

    Attributes:
        shelf: Where the tier's blocks are.
        store: The tier's store.
        endpoint: The node's address.
    """

    def __init__(self) -> None:
        self.shelf = MemoryShelf()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()
        self._await(self._start())
        self.endpoint = self._server.address

    def heal(self) -> None:
        """Let all be well again, and wait until the node has found that out."""
        self.shelf.trouble = ""
        self._await(until(lambda: not self.store.health.trouble))

    def close(self) -> None:
        """End the node and its thread."""
        self._await(self._server.drain_and_stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        tier = {"name": "fs0", "medium": "fs", "capacity": "1MiB", "directory": "/nowhere"}
        config = {"listen": "127.0.0.1:0", "drain_timeout": 0, "tiers": [tier]}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lifecycle, "open_store", self._open)
            self._server = lifecycle.TierServer(NodeConfig.model_validate(config))
        await self._server.start()
        await until(lambda: not self.store.health.recovering)

    def _open(self, tier: TierConfig, *_: object) -> LastingStore:
        self.store = keep_on(self.shelf, tier)
        return self.store

    def _await(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


@pytest.fixture(scope="module", name="started")
def _started() -> Iterator[Failing]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(healing, "_FIRST_PAUSE", 0.02)
        patch.setattr(healing, "_LONGEST_PAUSE", 0.1)
        failing = Failing()
        yield failing
        failing.close()


@pytest.fixture(name="failing")
def _failing(started: Failing) -> Iterator[Failing]:
    """The node, well and with an empty tier."""
    assert main(["clear", "--tier", "fs0", "--yes", "-e", started.endpoint]) == 0
    yield started
    started.heal()


@pytest.fixture(name="ask")
def _ask(cli: Any, failing: Failing) -> Any:
    def ask(*arguments: object) -> Any:
        return cli(*arguments, "-e", failing.endpoint, stdin=DATA)

    return ask


def put(ask: Any) -> Any:
    """Store four blocks."""
    return ask("put", "-", "-n", "files", "--block-bytes", SIZE, "-o", "json")


def hashes(ask: Any) -> list[str]:
    """Store four blocks, and return their hashes."""
    stored = put(ask)
    assert stored.code == 0, stored.err
    return [record["block_hash"] for record in json.loads(stored.out)]


def test_blocks_that_a_tier_cannot_keep_are_not_stored(ask: Any, failing: Failing) -> None:
    """The first attempt finds out; the next are refused with the tier's own words."""
    failing.shelf.trouble = TROUBLE

    first, second = put(ask), put(ask)

    assert (first.code, second.code) == (1, 1)
    assert "4 of 4 blocks were not stored: failed; see" in first.err
    assert "kvtier get tiers" in first.err
    assert f"tier fs0 is read-only: {TROUBLE}" in second.err


def test_blocks_that_a_tier_cannot_read_are_no_misses(ask: Any, failing: Failing) -> None:
    """The exit code is not that of blocks that are not there."""
    named = hashes(ask)
    failing.shelf.trouble = "input/output error"

    result = ask("load", *named, "-n", "files")

    assert result.code == 1
    assert "tier fs0 cannot read 4 blocks now" in result.err
    assert DATA[:SIZE] not in result.out


def test_blocks_that_are_damaged_are_told_so(ask: Any, failing: Failing) -> None:
    """The load that finds the damage says it; for the next one they are not there."""
    named = hashes(ask)
    for name, whole in list(failing.shelf.blocks.items()):
        failing.shelf.blocks[name] = whole[:-1]

    first, second = ask("load", *named, "-n", "files"), ask("load", *named, "-n", "files")

    assert (first.code, second.code) == (3, 3)
    assert "tier fs0 found 4 blocks damaged and dropped them" in first.err
    assert "(CORRUPT); put them again" in first.err
    assert "4 blocks are in none of these tiers" in second.err


def test_blocks_that_a_recovering_tier_may_have_are_no_misses(ask: Any, failing: Failing) -> None:
    """Nobody can say yet that they are not there."""
    put(ask)
    failing.store.health.recovering = True
    try:
        result = ask("load", "00" * 32, "-n", "files")
    finally:
        failing.store.health.recovering = False

    assert result.code == 1
    assert "1 blocks were not found yet" in result.err
    assert "tier fs0 is recovering" in result.err
    assert "(RETRY); try again when it is ready" in result.err


@pytest.mark.parametrize("found_out", [False, True])
def test_blocks_that_a_tier_cannot_remove_are_told(
    ask: Any, failing: Failing, *, found_out: bool
) -> None:
    """Also when the tier was known to be in trouble before."""
    named = hashes(ask)
    failing.shelf.trouble = TROUBLE
    if found_out:
        ask("load", *named, "-n", "files")

    result = ask("delete", *named, "-n", "files", "--yes")

    assert result.code == 1
    assert "tier fs0 cannot remove 4 blocks for good now (UNAVAILABLE)" in result.err
    assert result.text.count("unavailable") == 4


@pytest.mark.parametrize("command", [["clear", "--tier", "fs0"], ["delete-namespace", "files"]])
def test_a_clear_that_could_not_remove_all_files_failed(
    ask: Any, failing: Failing, command: list[str]
) -> None:
    """It says what is left; the next one is refused while the trouble lasts."""
    hashes(ask)
    failing.shelf.trouble = TROUBLE

    first, second = ask(*command, "--yes"), ask("clear", "--tier", "fs0", "--yes")

    assert (first.code, second.code) == (1, 1)
    assert "4 could not be deleted yet from tier fs0" in first.err
    assert "is read-only" in second.err
