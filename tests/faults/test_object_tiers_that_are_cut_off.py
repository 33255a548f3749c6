"""A node of objects is killed, and its store cut off: what was confirmed is there afterwards."""

import asyncio
import random

import pytest

from kvtier.client import NodeClient
from tests.contract.folding import listed
from tests.contract.viewing import watching
from tests.s3.relay import Relay
from tests.s3.shelves import Place

from .conftest import StartNode
from .ledger import Fate, Ledger, exact, names_in, working
from .objects import OBJECTS, WITH_CREDENTIALS, objects_tier
from .processes import ready

LIVES = 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
async def test_what_was_confirmed_outlives_kills_and_cuts(
    start_node: StartNode, place: Place, relay: Relay, seed: int
) -> None:
    """Five times over: the store is cut off, the node killed, and both come back."""
    dice, ledger = random.Random(seed), Ledger()
    node = await start_node(prefix=WITH_CREDENTIALS, tiers=[objects_tier(place, relay)])
    async with NodeClient(node.endpoint) as client, watching(client) as view:
        name = (await client.get_node()).node_id
        await ready(client)
        for life in range(LIVES):
            async with working(client, OBJECTS, ledger, dice, reliable=False):
                await asyncio.sleep(dice.uniform(0.1, 0.5))
                relay.down()
                await asyncio.sleep(dice.uniform(0, 0.3))
                if life % 2:
                    relay.up()
                    await ready(client)
                    await asyncio.sleep(dice.uniform(0, 0.3))
                node.process.kill()
            await node.kill()
            node = await start_node(node)
            if not life % 2:
                relay.up()
            await ready(client)
            listing = await listed(client)
            there = names_in(listing, OBJECTS)
            await view.settle(client)

            assert ledger.are(Fate.STORED) - there == set()
            assert there & ledger.are(Fate.GONE) == set()
            assert await exact(client, OBJECTS, there)
            assert view.held(name) == set(listing)
            ledger.begin_life(there)
