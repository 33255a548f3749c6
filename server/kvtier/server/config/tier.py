"""The settings of one tier, with their meaning, their default and their limits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from kvtier.server.config.values import (
    MIB,
    Count,
    Name,
    Seconds,
    Settings,
    Size,
    check_endpoint,
    split_bucket,
)
from kvtier.wire.sizes import format_size

# Which media a setting is for, where it is not for all.
ONLY_FOR = {
    "slot_bytes": ("gpu", "cpu"),
    "device": ("gpu",),
    "shm_dir": ("cpu",),
    "directory": ("fs",),
    "sync": ("fs",),
    "url": ("obj",),
    "endpoint": ("obj",),
    "region": ("obj",),
    "io_threads": ("fs", "obj"),
    "io_timeout": ("fs", "obj"),
    "scrub_rate": ("fs", "obj"),
}


class TierConfig(Settings):
    """One tier: a store of blocks in one medium."""

    name: Name = Field(
        description="The tier's name on its node: 1 to 63 of a-z, 0-9 and '-', such as cpu0."
    )
    medium: Literal["gpu", "cpu", "fs", "obj"] = Field(
        description="The kind of storage: gpu for GPU memory, cpu for host memory, fs for files, "
        "obj for an object store. Blocks of the last two outlive the process."
    )
    capacity: Annotated[Size, Field(ge=0)] = Field(
        description="Bytes for blocks, such as 64GiB. Memory is set aside at the start; an "
        "emulated gpu tier takes it as it fills. Files and objects count with all that they take. "
        "0 is a tier that holds nothing and refuses every store."
    )
    slot_bytes: Annotated[Size, Field(ge=1)] | None = Field(
        default=None,
        description="Only for gpu and cpu tiers: bytes of one slot, which is the largest block "
        "that fits. Unset: the largest block of the first namespace that is registered.",
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
    directory: Path | None = Field(
        default=None,
        description="Only for an fs tier, which needs it: the directory of its files, an absolute "
        "path. One process at a time has it, and nothing else should write there.",
    )
    sync: Literal["none", "close", "always"] = Field(
        default="none",
        description="Only for an fs tier: what a stored block outlives. none: the end of the "
        "process, however sudden; after a power cut blocks may be gone. close: each file is "
        "flushed before it gets its name, so that after a power cut a block is whole or gone. "
        "always: the directory is flushed too, so that a stored block is still there.",
    )
    url: str | None = Field(
        default=None,
        description="Only for an obj tier, which needs it: s3://BUCKET/PREFIX. One node owns a "
        "prefix. Credentials come from the usual AWS sources: environment, web identity, or "
        "instance metadata.",
    )
    endpoint: str | None = Field(
        default=None,
        description="Only for an obj tier: the URL of an S3-compatible server. Unset: AWS.",
    )
    region: str | None = Field(
        default=None,
        description="Only for an obj tier: the region. Unset: AWS_REGION, or us-east-1.",
    )
    io_threads: Annotated[Count, Field(le=64)] = Field(
        default=4,
        description="Only for fs and obj tiers: operations at one time. Objects want more, such as "
        "16.",
    )
    io_timeout: Annotated[Seconds, Field(ge=0.1, le=300)] = Field(
        default=10.0,
        description="Only for fs and obj tiers: how long an operation may take, in seconds; then "
        "it is given up, and what waits for it goes on without.",
    )
    scrub_rate: Annotated[Size, Field(ge=0)] = Field(
        default=8 * MIB,
        description="Only for fs and obj tiers: bytes a second that are read in the background to "
        "find damage before a load does; a block counts for 64 KiB at least. 0: none.",
    )
    on_evict: Name | None = Field(
        default=None,
        description="The slower tier that evicted blocks go to. Unset: they are dropped. What is "
        "loaded from there comes back by moving; it is copied where it is written through there "
        "too, and out of fs and obj tiers.",
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

    @property
    def lasts(self) -> bool:
        """Whether the tier's blocks outlive the process."""
        return self.medium in {"fs", "obj"}

    def idle(self) -> Mapping[str, str]:
        """Return the settings that do nothing for the medium, or without another setting."""
        idle = {
            setting: f"is for {' and '.join(media)} tiers only; remove it, or change medium"
            for setting, media in ONLY_FOR.items()
            if self.medium not in media
        }
        needed = {} if self.on_evict else {"demote_wait": "on_evict", "free_target": "on_evict"}
        if self.store_threshold == 1:
            needed["store_tracker"] = "store_threshold to 2 or more"
        told = "does nothing here; remove it, or set"
        return idle | {setting: f"{told} {other}" for setting, other in needed.items()}

    @field_validator("shm_dir", "directory")
    @classmethod
    def _paths_are_absolute(cls, directory: Path | None) -> Path | None:
        if directory is not None and not directory.is_absolute():
            raise ValueError(f"'{directory}' is not an absolute path; write one that begins with /")
        return directory

    @field_validator("url")
    @classmethod
    def _url_names_a_prefix(cls, url: str | None) -> str | None:
        if url is not None:
            split_bucket(url)
        return url

    @field_validator("endpoint")
    @classmethod
    def _endpoint_is_a_url(cls, endpoint: str | None) -> str | None:
        if endpoint is not None:
            check_endpoint(endpoint)
        return endpoint

    @model_validator(mode="after")
    def _settings_do_something(self) -> Self:
        for setting, why in self.idle().items():
            if setting in self.model_fields_set:
                raise ValueError(f"{setting} {why}")
        return self

    @model_validator(mode="after")
    def _the_medium_has_its_place(self) -> Self:
        needed = {"fs": "directory", "obj": "url"}.get(self.medium)
        if needed is not None and getattr(self, needed) is None:
            raise ValueError(f"{needed} is missing; an {self.medium} tier needs it")
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
