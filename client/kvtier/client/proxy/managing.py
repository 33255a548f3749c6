"""What manages the nodes of a proxy: storing, loading, and calling all of them."""

import logging
import time
from collections.abc import Callable

from kvtier.client.index import BlockIndex
from kvtier.client.proxy.cascades.cascading import Cascades
from kvtier.client.proxy.cascades.storing import Storing
from kvtier.client.proxy.clashes import Clashes
from kvtier.client.proxy.descriptions import Descriptions
from kvtier.client.proxy.fan_out import FanningOut
from kvtier.client.proxy.fleet import Endpoint, Fleet
from kvtier.client.proxy.load_leases import LoadLeases
from kvtier.client.proxy.promotions.loading import Loading
from kvtier.client.proxy.promotions.promoting import Promotions
from kvtier.client.proxy.promotions.verdicts import Verdicts
from kvtier.client.proxy.settings import CascadeSettings, PromotionSettings
from kvtier.v1.event_service_pb2 import WatchEventsResponse

_log = logging.getLogger("kvtier.client.proxy")


class Managing:
    """The parts that manage, put together.

    Args:
        fleet: The nodes.
        index: What all of them hold, the primary too.
        cascades: How stores go on to the secondaries.
        promotions: How blocks come from them.
        clock: The time, in seconds.

    Attributes:
        storing: Stores.
        loading: Loads.
        everybody: Calls every node.
        cascades: What is on its way to the secondaries.
        promotions: What is on its way from them.
        verdicts: What they were found not to have.
    """

    def __init__(
        self,
        fleet: Fleet,
        index: BlockIndex,
        *,
        cascades: CascadeSettings | None = None,
        promotions: PromotionSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        sending, bringing = cascades or CascadeSettings(), promotions or PromotionSettings()
        self._leases = LoadLeases()
        descriptions = Descriptions(fleet, index)
        self.verdicts = Verdicts(seconds=bringing.verdict, limit=bringing.verdicts, clock=clock)
        self.cascades = Cascades(fleet, index, self._leases, sending, clock=clock)
        self.promotions = Promotions(fleet, index, self.verdicts, bringing, clock=clock)
        self.storing = Storing(fleet, descriptions, self.cascades)
        self.loading = Loading(
            fleet,
            index,
            descriptions,
            self._leases,
            self.promotions,
            deadline=bringing.deadline,
        )
        self.everybody = FanningOut(fleet)
        self._clashes = Clashes(_log.warning)

    def hear(self, message: WatchEventsResponse) -> None:
        """Take in a message of a node's stream, once the index has."""
        self.verdicts.hear(message)
        self._clashes.hear(message)

    async def leave(self, member: Endpoint) -> None:
        """End what is under way to or from a secondary that is removed, and forget all of it."""
        await self.cascades.leave(member)
        await self.promotions.leave(member)
        for node in member.node_ids:
            self.verdicts.forget(node)

    async def close(self) -> None:
        """End all that is under way, and let go of every lease. Closing twice is harmless."""
        await self.cascades.close()
        await self.loading.close()
        await self.promotions.close()
        await self._leases.close()
