"""Every setting of a node but those of its tiers: meaning, default and limits."""

import socket
from collections import Counter
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from kvtier.server.config.addresses import check_servers
from kvtier.server.config.outside import HealthListen, MetricsListen, Reflection, Tracing
from kvtier.server.config.places import check_places
from kvtier.server.config.security import CheckedAuth, ConnectConfig, Listen, ServedTls
from kvtier.server.config.targets import check_targets
from kvtier.server.config.tier import TierConfig
from kvtier.server.config.values import (
    GIB,
    KIB,
    MIB,
    Count,
    NodeId,
    Seconds,
    Settings,
    Size,
    in_any_case,
)

DAY, YEAR = 86_400.0, 365 * 86_400.0
MAX_TIERS = 16
_MOST_SPARE_BYTES = 16 * MIB

LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(in_any_case)]


class CommonLimits(Settings):
    """What may be asked of a node as of a proxy."""

    message_bytes: Annotated[Size, Field(ge=4 * MIB, le=GIB)] = Field(
        default=16 * MIB, description="Bytes of one request message."
    )
    metadata_bytes: Annotated[Size, Field(ge=8 * KIB, le=MIB)] = Field(
        default=16 * KIB, description="Bytes of one request's metadata, with 32 more for each."
    )
    calls: Count = Field(
        default=16_384, description="Calls under way at one time, streams among them."
    )
    calls_per_caller: Count = Field(
        default=4096,
        description="The same of one caller: of an identity, else of the address that calls come "
        "from, whatever the port. Clients behind one address translator are one caller.",
    )
    followers: Count = Field(default=512, description="Followers of events at one time.")
    followers_per_caller: Count = Field(
        default=256,
        description="The same of one caller, and calls of followers that were given up and that "
        "it did not end.",
    )


class LimitsConfig(CommonLimits):
    """What a request may ask for. Requests beyond a limit are refused and change nothing."""

    hashes: Annotated[Count, Field(le=1 << 20)] = Field(
        default=131_072,
        description="Block hashes in one request. An offer has at most 16,384 all the same: its "
        "answer must fit 4 MiB.",
    )
    block_bytes: Annotated[Size, Field(ge=1, le=GIB)] = Field(
        default=GIB, description="Bytes of one block."
    )
    lease_ttl_max: Annotated[Seconds, Field(ge=1, le=300)] = Field(
        default=300.0, description="Longest time to live of a lease, in seconds."
    )
    leases: Count = Field(
        default=32_768,
        description="Open leases of all owners, and beside them as many pins.",
    )
    leases_per_caller: Count = Field(
        default=16_384,
        description="The same of one caller, whatever owners it names.",
    )
    leases_per_owner: Count = Field(
        default=4096, description="Open leases of one owner, and beside them as many pins."
    )
    leased_bytes_per_owner: Annotated[Size, Field(ge=1, le=1 << 60)] = Field(
        default=64 * GIB, description="Bytes of blocks under one owner's leases, without pins."
    )
    pin_ttl: Annotated[Seconds, Field(ge=1, le=YEAR)] = Field(
        default=DAY, description="Time to live of a pin that states none, in seconds."
    )
    pin_ttl_max: Annotated[Seconds, Field(ge=1, le=YEAR)] = Field(
        default=7 * DAY, description="Longest time to live of a pin, in seconds."
    )
    pinned_bytes_per_owner: Annotated[Size, Field(ge=1, le=1 << 60)] = Field(
        default=16 * GIB, description="Bytes of blocks under one owner's pins."
    )
    namespaces: Annotated[Count, Field(le=4096)] = Field(
        default=1024, description="Registered namespaces."
    )
    snapshots: Count = Field(default=8, description="Snapshots under way at one time.")
    transfers: Count = Field(default=256, description="Calls that move bytes at one time.")
    transfer_bytes: Annotated[Size, Field(ge=4 * MIB)] = Field(
        default=512 * MIB,
        description="Bytes of payloads that calls which move bytes have in memory at one time, "
        "half of them for reads and half for writes. A write takes 4 MiB, and the largest block "
        "besides in a tier of files or objects. A read takes 4 MiB, and besides the largest block "
        "when it reads from a GPU, or from files or objects, there at least 4 MiB. "
        "Who finds too few waits in turn.",
    )


class EventsConfig(Settings):
    """The event log, and how it is sent to followers."""

    max_batches: Count = Field(
        default=65_536, description="Batches that the log keeps for followers that lag or resume."
    )
    max_bytes: Annotated[Size, Field(ge=1)] = Field(
        default=64 * MIB, description="Bytes of batches that the log keeps."
    )
    heartbeat_interval: Annotated[Seconds, Field(ge=0.05, le=1)] = Field(
        default=1.0,
        description="Longest silence on an idle stream, in seconds, at most 1: followers do not "
        "know the setting, and suspect a node that is silent for three seconds.",
    )
    linger: Annotated[Seconds, Field(ge=0, le=1)] = Field(
        default=0.002,
        description="Longest time that a busy stream waits to send more at once, in seconds.",
    )
    message_bytes: Annotated[Size, Field(ge=KIB, le=4 * MIB)] = Field(
        default=256 * KIB,
        description="Bytes at which a message to a follower is full. Clients of any make accept "
        "messages of 4 MiB.",
    )
    stall_timeout: Annotated[Seconds, Field(ge=0.1, le=3600)] = Field(
        default=60.0,
        description="How long a follower may leave a message unread, in seconds; then its stream "
        "ends with FOLLOWER_STALLED.",
    )
    snapshot_stall_timeout: Annotated[Seconds, Field(ge=0.1, le=3600)] = Field(
        default=10.0,
        description="The same while it is sent a snapshot, in seconds: it keeps others from one "
        "of the few places for snapshots.",
    )


class NodeConfig(Settings):
    """A node: its identity, where it listens, its tiers and its limits."""

    node_id: NodeId = Field(
        default_factory=lambda: socket.gethostname(),  # noqa: PLW0108 - looked up when it is needed
        description="The node's stable id: 1 to 253 of letters, digits, '.' and '-'. "
        "Unset: the host name.",
    )
    insecure: bool = Field(
        default=False,
        description="Whether the node may listen beyond loopback without TLS, where anyone who "
        "reaches the port can read and change every block. Not together with tls.",
    )
    tls: ServedTls = None
    auth: CheckedAuth = None
    listen: Listen = Field(
        default="127.0.0.1:7600",
        description="Address and port to listen on; an IPv6 address in brackets, and port 0 for "
        "any free port. Or unix:/PATH, a socket for the process's user and group.",
    )
    connect: ConnectConfig | None = Field(
        default=None,
        description="TLS and identity towards peers. Unset: plaintext.",
    )
    reflection: Reflection = False
    health_listen: HealthListen = None
    metrics_listen: MetricsListen = None
    tracing: Tracing = False
    drain_delay: Annotated[Seconds, Field(ge=0, le=300)] = Field(
        default=0.0,
        description="How long a stop, or a drain, goes on serving as NOT_SERVING before it refuses "
        "work, in seconds, so that others have heard of it.",
    )
    drain_timeout: Annotated[Seconds, Field(ge=0, le=3600)] = Field(
        default=10.0,
        description="Longest time that a stop waits for open leases and transfers, in seconds.",
    )
    slot_quarantine: Annotated[Seconds, Field(ge=0, le=3600)] = Field(
        default=60.0,
        description="How long the slots of a caller that mapped a tier are not used again after "
        "its store lease ended without its word, in seconds: it may still be writing there. They "
        "are free sooner when it completes or releases the lease, or is seen dead.",
    )
    peers: tuple[str, ...] = Field(
        default=(),
        description="Addresses of other nodes, HOST:PORT, that CopyBlocks may pull blocks from. "
        "The node connects to no other.",
    )
    peer_timeout: Annotated[Seconds, Field(ge=0.1, le=300)] = Field(
        default=5.0,
        description="How long a peer may send nothing while blocks are pulled from it, in seconds; "
        "then it is given up.",
    )
    peer_pause: Annotated[Seconds, Field(ge=0, le=3600)] = Field(
        default=5.0,
        description="How long a peer that failed is left alone, in seconds: what would be pulled "
        "from it is refused at once.",
    )
    log_level: LogLevel = Field(
        default="info", description="The least severe log lines: debug, info, warning or error."
    )
    tiers: tuple[TierConfig, ...] = Field(
        default_factory=lambda: (TierConfig(name="cpu0", medium="cpu", capacity=GIB),),
        description="The tiers from fastest to slowest, 1 to 16. Unset: cpu0, of 1 GiB.",
    )
    limits: LimitsConfig = Field(
        default_factory=LimitsConfig, description="What a request may ask for."
    )
    events: EventsConfig = Field(
        default_factory=EventsConfig, description="The event log and its followers."
    )

    def spare_bytes(self, tier: TierConfig) -> int:
        """Return the bytes beyond a tier's capacity in which blocks change places with others."""
        memory = [other for other in self.tiers if not other.lasts]
        below = {other.name for other in memory}
        changes = tier.on_evict in below or any(other.on_evict == tier.name for other in memory)
        return min(_MOST_SPARE_BYTES, tier.capacity) if changes and not tier.lasts else 0

    @field_validator("peers")
    @classmethod
    def _peers_are_distinct_addresses(cls, peers: tuple[str, ...]) -> tuple[str, ...]:
        check_servers(peers, "peer")
        return peers

    @field_validator("tiers")
    @classmethod
    def _tiers_are_few_and_distinct(cls, tiers: tuple[TierConfig, ...]) -> tuple[TierConfig, ...]:
        if not 1 <= len(tiers) <= MAX_TIERS:
            raise ValueError(f"there are {len(tiers)} tiers; a node has 1 to {MAX_TIERS}")
        for name, count in Counter(tier.name for tier in tiers).items():
            if count > 1:
                raise ValueError(f"{count} tiers are named {name!r}; give each a name of its own")
        return tiers

    @field_validator("tiers")
    @classmethod
    def _blocks_go_to_slower_tiers(cls, tiers: tuple[TierConfig, ...]) -> tuple[TierConfig, ...]:
        check_targets(tiers)
        return tiers

    @field_validator("tiers")
    @classmethod
    def _blocks_that_last_have_places_of_their_own(
        cls, tiers: tuple[TierConfig, ...]
    ) -> tuple[TierConfig, ...]:
        check_places(tiers)
        return tiers
