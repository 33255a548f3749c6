"""Walks of random steps, each of which can be taken again."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import NamedTuple

from . import follower_steps, store_steps, trouble_steps
from .world import World

Act = Callable[[World, Random], Awaitable[str]]

# The steps before a failure that are told.
_TOLD_STEPS = 40
# In seconds, on a machine that is busy with other things.
_LONGEST_STEP = 100.0


async def quiet(world: World, random: Random) -> str:
    """Let everybody catch up, and compare."""
    await world.quiet()
    return ""


# How often each step comes in a thousand.
_OFTEN: dict[Act, int] = {
    store_steps.store: 525,
    store_steps.store_at_once: 30,
    store_steps.store_in_vain: 30,
    store_steps.delete: 90,
    store_steps.touch: 40,
    store_steps.clear_tier: 12,
    store_steps.clear_namespace: 18,
    store_steps.delete_namespace: 20,
    trouble_steps.cut: 30,
    trouble_steps.cut_all: 5,
    trouble_steps.stall: 20,
    trouble_steps.go_on: 20,
    trouble_steps.stall_until_suspect: 2,
    trouble_steps.stop_reading: 20,
    trouble_steps.read_on: 20,
    trouble_steps.outrun_a_reader: 2,
    trouble_steps.proxy_stands_still: 5,
    trouble_steps.proxy_takes: 8,
    trouble_steps.proxy_reads_on: 5,
    trouble_steps.proxy_is_abandoned: 2,
    trouble_steps.restart_empty: 5,
    trouble_steps.restart_full: 3,
    trouble_steps.drain: 2,
    follower_steps.join: 14,
    follower_steps.join_under_load: 3,
    follower_steps.join_from_nowhere: 2,
    follower_steps.leave: 22,
    follower_steps.come_back: 22,
    follower_steps.miss_too_much: 3,
    follower_steps.break_a_snapshot: 12,
    quiet: 8,
}
ACTS = {act.__name__: act for act in _OFTEN}


class Step(NamedTuple):
    """One step: which act, and the seed of its choices."""

    act: str
    seed: int


def a_thousand_steps(seed: int) -> list[Step]:
    """Return as many steps in random order, in which every act comes as often as it should."""
    random = Random(seed)
    acts = [act.__name__ for act, count in _OFTEN.items() for _ in range(count)]
    random.shuffle(acts)
    return [Step(act, random.getrandbits(32)) for act in acts]


async def take(steps: Sequence[Step], replay: str) -> Counter[str]:
    """Take steps in a new world, and compare at the end; return how often what happened.

    Args:
        steps: The steps.
        replay: How the same steps are taken again.

    Raises:
        Exception: Whatever went wrong, with the last steps as its notes.
    """
    journal: list[str] = []
    async with World() as world:
        try:
            for number, step in enumerate((*steps, Step(quiet.__name__, 0)), 1):
                journal.append(f"{number}. {step.act}")
                async with asyncio.timeout(_LONGEST_STEP):
                    told = await ACTS[step.act](world, Random(step.seed))
                journal[-1] += f": {told}" if told else ""
                world.check()
        except Exception as error:
            for line in (replay, *journal[-_TOLD_STEPS:]):
                error.add_note(line)
            raise
        return world.seen()
