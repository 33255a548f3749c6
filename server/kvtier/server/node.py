"""A node: its tiers, its leases and its event log."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from kvtier.server.accounts import Accounts
from kvtier.server.channel_options import peer_options
from kvtier.server.clock import Clock
from kvtier.server.config import NodeConfig, TierConfig
from kvtier.server.demand import Demand
from kvtier.server.descriptions import Descriptions
from kvtier.server.events.log import EventLog
from kvtier.server.events.parts import Part
from kvtier.server.events.source import News, TierInfo
from kvtier.server.lasting.store import LastingStore
from kvtier.server.leases import Leases
from kvtier.server.mappings import Mappings
from kvtier.server.namespaces import Namespaces
from kvtier.server.peers.peers import Peers
from kvtier.server.quarantine import Quarantine
from kvtier.server.stores.base import BlockStore
from kvtier.server.tiering.tiering import Tiering
from kvtier.server.tiers.announce import Announcer
from kvtier.server.tiers.policy import Stamps
from kvtier.server.tiers.scan import snapshot
from kvtier.server.tiers.spaces import NamespaceInfo, Spaces
from kvtier.server.tiers.threshold import Threshold
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.budget import Budget
from kvtier.server.turns import Turns
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.credentials import Credentials
from kvtier.wire.errors import KvtierError, Reason, not_found, quote, unavailable

_DRAIN_RETRY = 5.0
_COPY_THREADS = 4


class Node:
    """Everything that one tier server holds. All of it belongs to one event loop.

    Args:
        config: The configuration.
        stores: One open store for each tier of the configuration, in its order.
        clock: The clock of leases and ages.
        rng: Source of the epoch, the incarnation, the first lease generation, and the ids of the
            node's own leases.
        limited: Where it is counted how often each limit refused somebody.
        credentials: TLS and identity towards peers; None for plaintext.

    Attributes:
        config: As given.
        node_id: The node's stable id.
        incarnation: Random, new with each start.
        start_time: When the node started, in seconds since 1970.
        log: The event log.
        tiers: The tiers, from fastest to slowest.
        spaces: The spaces that have blocks.
        stamps: Where the policies of all tiers get the numbers of their stamps.
        leases: Every reservation and pin.
        demand: What callers asked for.
        random_bytes: Gives so many random bytes.
        tiering: Moves blocks between the tiers.
        peers: The nodes that blocks may be pulled from.
        turns: Lets calls with one lease id go one after the other.
        mappings: The numbers of mappings of tiers.
        registry: The registered namespaces.
        state_changes: How often the states of tiers have changed.
        states_at: The log's head when they changed last.
        draining: Set when the last event is in the log and followers are to be sent off.
        followers: Followers connected now; kept by the event service.
        limited: As given.
        large_lookups: Held by the lookup of many blocks that is under way.
        transfers: Transfers under way; kept by `transfers.limit`.
        read_bytes: What reads have in memory: half of what transfers may have, so that those who
            do not read hold up no store.
        write_bytes: What writes have in memory: the other half.
        threads: Where bytes are copied.
    """

    def __init__(
        self,
        config: NodeConfig,
        stores: Sequence[BlockStore | LastingStore],
        clock: Clock,
        rng: random.Random,
        *,
        limited: Counter[str],
        credentials: Credentials | None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.node_id = config.node_id
        self.version = version("kvtier")
        self.incarnation = rng.randrange(1, 1 << 64)
        self.start_time = clock.time()
        self.random_bytes = rng.randbytes
        self.log = EventLog(
            epoch=rng.randrange(1, 1 << 64),
            max_batches=config.events.max_batches,
            max_bytes=config.events.max_bytes,
        )
        self.spaces = Spaces()
        self.stamps = Stamps()
        self.registry = Namespaces(config.limits.namespaces, config.limits.block_bytes)
        self._descriptions = Descriptions(self.log, config.limits.namespaces)
        self.mappings = Mappings(rng.randrange(1, 1 << 62))
        self.leases = Leases(
            clock,
            rng.randrange(1, 1 << 63),
            Accounts(
                most=config.limits.leases,
                per_caller=config.limits.leases_per_caller,
                per_owner=config.limits.leases_per_owner,
                leased_bytes=config.limits.leased_bytes_per_owner,
                pinned_bytes=config.limits.pinned_bytes_per_owner,
            ),
            Quarantine(self.mappings, clock, config.slot_quarantine),
        )
        self.tiers = [
            self._tier(place, tier, store)
            for place, (tier, store) in enumerate(zip(config.tiers, stores, strict=True))
        ]
        self.state_changes = self.states_at = 0
        for tier in self.tiers:
            tier.health.listen(self._note_state)
        self.demand = Demand()
        self._by_name = {tier.name: tier for tier in self.tiers}
        self.threads = ThreadPoolExecutor(_COPY_THREADS, thread_name_prefix="kvtier-copy")
        self.tiering = Tiering(config.tiers, self.tiers, self.log, self.threads)
        self.peers = Peers(
            config.listen,
            config.peers,
            timeout=config.peer_timeout,
            pause=config.peer_pause,
            options=peer_options(config.limits),
            credentials=credentials,
        )
        self.turns = Turns()
        self.draining = asyncio.Event()
        self.closing = False
        self.followers = 0
        self.limited = limited
        self.transfers = 0
        self.large_lookups = asyncio.Lock()
        self.read_bytes = Budget(config.limits.transfer_bytes // 2)
        self.write_bytes = Budget(config.limits.transfer_bytes // 2)

    def _tier(self, place: int, config: TierConfig, store: BlockStore | LastingStore) -> Tier:
        log, threshold = self.log if config.events else None, config.store_threshold
        tier = Tier(
            config.name,
            store,
            capacity_bytes=config.capacity,
            policy_name=config.policy,
            announcer=Announcer(place, config.name, store.medium, log),
            spaces=self.spaces,
            stamps=self.stamps,
            clock=self.clock,
            threshold=Threshold(threshold, config.store_tracker) if threshold > 1 else None,
        )
        if config.slot_bytes:
            tier.fix_slots(config.slot_bytes)
        return tier

    def tier(self, name: str) -> Tier:
        """Return a tier by name, or raise NOT_FOUND."""
        tier = self._by_name.get(name)
        if tier is None:
            raise not_found(
                f"tier {quote(name)} does not exist on node {self.node_id}; it has "
                f"{', '.join(self._by_name)}",
                Reason.TIER_UNKNOWN,
            )
        return tier

    def some_tiers(self, names: Sequence[str]) -> list[Tier]:
        """Return the named tiers in the node's order, or all when no name is given."""
        wanted = {self.tier(name).name for name in names}
        return [tier for tier in self.tiers if not wanted or tier.name in wanted]

    def register(self, description: Namespace) -> NamespaceInfo:
        """Register a namespace; the first one fixes the slots of tiers that left them open."""
        info = self.registry.register(description)
        self._descriptions.add(info.fingerprint, info.description.SerializeToString())
        for tier in self.tiers:
            tier.admit(info)
        self.log.wake()
        return info

    @property
    def busy(self) -> bool:
        """Whether leases are open, or bytes are being moved.

        A pin may last for days, and nobody is at work under it.
        """
        at_work = len(self.leases) > self.leases.accounts.pins
        return bool(at_work or self.transfers or self.tiering.jobs)

    def forget(self, namespace: NamespaceInfo) -> None:
        """Forget a namespace of which no tier has a readable block; slots stay as they are."""
        self.registry.forget(namespace)
        self._descriptions.retire(namespace.fingerprint)
        for keeping in filter(None, (tier.keeping for tier in self.tiers)):
            keeping.store.forget(namespace.fingerprint)

    def expire_leases(self) -> None:
        """End the leases whose time has come."""
        self.leases.expire()

    def refuse_when_closing(self) -> None:
        """Raise UNAVAILABLE when the node takes no new work any more."""
        if self.closing:
            raise self.draining_error()

    def draining_error(self) -> KvtierError:
        """Return what callers are told when the node takes no work any more."""
        return unavailable(
            f"node {self.node_id} is draining: use another node",
            Reason.DRAINING,
            retry_after=_DRAIN_RETRY,
        )

    def refuse_when_drained(self) -> None:
        """Raise UNAVAILABLE once the followers were sent off: nothing may change unheard."""
        if self.draining.is_set():
            self.refuse_when_closing()

    # What the event service needs

    def tier_infos(self) -> list[TierInfo]:
        """Return the tiers as followers see them."""
        return [_tier_info(place, tier) for place, tier in enumerate(self.tiers)]

    def _note_state(self) -> None:
        self.state_changes += 1
        self.states_at = self.log.head
        self.log.wake()

    def namespaces(self, number: int, position: int) -> News:
        """Return the namespaces that a follower must be told of, as `EventSource` says."""
        return self._descriptions.after(number, position)

    def snapshot(self, tier: int) -> Iterator[list[Part]]:
        """Walk one tier's live table, a slice at a time."""
        return snapshot(self.tiers[tier])

    def ready_blocks(self, tier: int, namespaces: frozenset[bytes] | None) -> int:
        """Return the number of readable blocks of a tier, over all or some namespaces."""
        return self.tiers[tier].occupancy.ready_blocks(namespaces)


def _tier_info(place: int, tier: Tier) -> TierInfo:
    state, reason = tier.health.state, tier.health.reason
    if tier.announcer.silent:
        # Whatever else it is, what it holds cannot be known from events.
        state, reason = TierState.TIER_STATE_SILENT, "events are switched off for this tier"
    return TierInfo(place, tier.name, tier.store.medium, state, reason, tier.locality)
