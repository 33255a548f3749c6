"""Every setting of a node, with its meaning, its default and its limits."""

import socket
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from kvtier.server.config.targets import check_targets
from kvtier.server.config.values import (
    Count,
    Name,
    NodeId,
    Seconds,
    Size,
    is_loopback,
    split_endpoint,
)
from kvtier.wire.sizes import format_size

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
DAY, YEAR = 86_400.0, 365 * 86_400.0
MAX_TIERS = 16
_MOST_SPARE_BYTES = 16 * MIB

LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    BeforeValidator(lambda level: level.lower() if isinstance(level, str) else level),
]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class TierConfig(_Settings):
    """One tier: a store of blocks in one medium."""

    name: Name = Field(
        description="The tier's name on its node: 1 to 63 of a-z, 0-9 and '-', such as cpu0."
    )
    medium: Literal["gpu", "cpu"] = Field(
        description="The kind of storage: gpu for GPU memory, cpu for host memory."
    )
    capacity: Annotated[Size, Field(ge=0)] = Field(
        description="Bytes for blocks, such as 64GiB, set aside at the start; an emulated gpu tier "
        "takes them as it fills. 0 is a tier that holds nothing and refuses every store."
    )
    slot_bytes: Annotated[Size, Field(ge=1)] | None = Field(
        default=None,
        description="Bytes of one slot, which is the largest block that fits. "
        "Unset: the largest block of the first namespace that is registered.",
    )
    policy: Annotated[str, StringConstraints(min_length=1, max_length=63)] = Field(
        default="lru",
        description="The replacement policy, by name: lru or arc, or one that was registered.",
    )
    store_threshold: Annotated[Count, Field(le=1000)] = Field(
        default=1,
        description="From which offer on a block is stored: 1 stores every block at once, 2 those "
        "that are offered again. An offer before that is answered DEFERRED for the block.",
    )
    store_tracker: Annotated[Count, Field(le=1 << 20)] = Field(
        default=65_536,
        description="With a store_threshold above 1: blocks whose offers are remembered. When "
        "there are more, those offered longest ago are forgotten.",
    )
    events: bool = Field(
        default=True,
        description="Whether the tier tells followers what it stores and removes. Without events "
        "it is SILENT, and no follower can know what it holds.",
    )
    device: Annotated[str, StringConstraints(pattern=r"^(auto|emulated|cuda:[0-9]{1,3})$")] = Field(
        default="auto",
        description="Only for a gpu tier: cuda:N is the GPU of that number, emulated is host "
        "memory in its place, auto is cuda:0 where there is a usable GPU and emulated elsewhere.",
    )
    shm_dir: Path = Field(
        default=Path("/dev/shm"),  # noqa: S108 - a tmpfs; the store takes it over safely
        description="Only for a cpu tier: the directory of its shared-memory file.",
    )

    on_evict: Name | None = Field(
        default=None,
        description="The slower tier that evicted blocks go to. Unset: they are dropped. What is "
        "loaded from there comes back by moving, unless it is written through there too.",
    )
    write_through: tuple[Name, ...] = Field(
        default=(),
        description="Slower tiers that every stored block is copied to, in the background.",
    )
    demote_wait: Annotated[Seconds, Field(ge=0, le=10)] = Field(
        default=0.05,
        description="Only with on_evict: how long a store waits for the copy of a block whose room "
        "it needs, in seconds; then that block is dropped uncopied, and counted.",
    )
    free_target: Annotated[float, Field(ge=0, le=0.5)] = Field(
        default=0.01,
        description="Only with on_evict: the part of the slots that is kept free by moving blocks "
        "down ahead of need, so that stores seldom wait. 0: blocks move when their room is needed.",
    )
    promotion_limit: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.75,
        description="The part of the slots that leases, stores under way and promotions together "
        "may hold for a promotion to begin; the rest is for stores.",
    )

    @field_validator("shm_dir")
    @classmethod
    def _shm_dir_is_absolute(cls, directory: Path) -> Path:
        if not directory.is_absolute():
            raise ValueError(f"'{directory}' is not an absolute path; write one, such as /dev/shm")
        return directory

    @model_validator(mode="after")
    def _settings_fit_the_medium(self) -> Self:
        other = {"gpu": "cpu", "cpu": "gpu"}[self.medium]
        foreign = {"gpu": "shm_dir", "cpu": "device"}[self.medium]
        if foreign in self.model_fields_set:
            raise ValueError(f"{foreign} is for {other} tiers only; remove it, or change medium")
        return self

    @model_validator(mode="after")
    def _settings_do_something(self) -> Self:
        idle = [] if self.on_evict else [("demote_wait", "on_evict"), ("free_target", "on_evict")]
        if self.store_threshold == 1:
            idle.append(("store_tracker", "store_threshold to 2 or more"))
        for setting, other in idle:
            if setting in self.model_fields_set:
                raise ValueError(f"{setting} does nothing here; remove it, or set {other}")
        return self

    @model_validator(mode="after")
    def _a_slot_fits(self) -> Self:
        if self.slot_bytes and 0 < self.capacity < self.slot_bytes:
            raise ValueError(
                f"capacity {format_size(self.capacity)} is less than one slot of "
                f"{format_size(self.slot_bytes)}; raise capacity, or set it to 0 for a tier that "
                "holds nothing"
            )
        return self


class LimitsConfig(_Settings):
    """What a request may ask for. Requests beyond a limit are refused and change nothing."""

    message_bytes: Annotated[Size, Field(ge=4 * MIB, le=GIB)] = Field(
        default=16 * MIB, description="Bytes of one request message."
    )
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
    followers: Count = Field(default=256, description="Followers of events at one time.")
    namespaces: Annotated[Count, Field(le=4096)] = Field(
        default=1024, description="Registered namespaces."
    )
    snapshots: Count = Field(default=8, description="Snapshots under way at one time.")
    transfers: Count = Field(default=256, description="Calls that move bytes at one time.")
    transfer_bytes: Annotated[Size, Field(ge=4 * MIB)] = Field(
        default=512 * MIB,
        description="Bytes of payloads that calls which move bytes have in memory at one time, "
        "half of them for reads and half for writes. A write takes 4 MiB; a read takes 4 MiB, and "
        "the largest block besides when it reads from a GPU. Who finds too few waits in turn.",
    )


class EventsConfig(_Settings):
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


class NodeConfig(_Settings):
    """A node: its identity, where it listens, its tiers and its limits."""

    node_id: NodeId = Field(
        default_factory=lambda: socket.gethostname(),  # noqa: PLW0108 - looked up when it is needed
        description="The node's stable id: 1 to 253 of letters, digits, '.' and '-'. "
        "Unset: the host name.",
    )
    insecure: bool = Field(
        default=False,
        description="Whether the node may listen beyond loopback, where anyone who reaches the "
        "port can read and change every block: there is no TLS and no authentication.",
    )
    listen: str = Field(
        default="127.0.0.1:7600",
        description="Address and port to listen on; an IPv6 address in brackets, and port 0 for "
        "any free port.",
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
        changes = tier.on_evict or any(other.on_evict == tier.name for other in self.tiers)
        return min(_MOST_SPARE_BYTES, tier.capacity) if changes else 0

    @field_validator("listen")
    @classmethod
    def _listens_on_loopback_or_is_insecure(cls, listen: str, info: ValidationInfo) -> str:
        host, _ = split_endpoint(listen)
        # A flag that was refused is told by its own error.
        if not is_loopback(host) and not info.data.get("insecure", True):
            raise ValueError(
                f"{listen!r} can be reached from other machines, and there is no TLS and no "
                "authentication; listen on 127.0.0.1, or set insecure (--insecure) to accept it"
            )
        return listen

    @field_validator("peers")
    @classmethod
    def _peers_are_distinct_addresses(cls, peers: tuple[str, ...]) -> tuple[str, ...]:
        for peer, count in Counter(peers).items():
            _, port = split_endpoint(peer)
            if not port:
                raise ValueError(f"{peer!r} has port 0; write the port that the peer listens on")
            if count > 1:
                raise ValueError(f"{peer!r} is listed {count} times; list each peer once")
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
