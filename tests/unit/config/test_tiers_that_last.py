"""Tiers of files and objects: each setting is checked, and each tier has a place of its own."""

from pathlib import Path

import pytest

from kvtier.server.config import ConfigError, NodeConfig, TierConfig, load_config


def fs(name: str = "fs0", **settings: object) -> dict[str, object]:
    tier = {"name": name, "medium": "fs", "capacity": "1GiB", "directory": "/data/kv", **settings}
    return {setting: value for setting, value in tier.items() if value is not None}


def obj(name: str = "obj0", **settings: object) -> dict[str, object]:
    tier = {"name": name, "medium": "obj", "capacity": "1GiB", "url": "s3://cache/a", **settings}
    return {setting: value for setting, value in tier.items() if value is not None}


def memory(medium: str, **settings: object) -> dict[str, object]:
    return {"name": f"{medium}0", "medium": medium, "capacity": "1MiB", **settings}


def load(*tiers: dict[str, object]) -> NodeConfig:
    return load_config(None, {}, {"tiers": list(tiers)})


def refusal(*tiers: dict[str, object]) -> str:
    with pytest.raises(ConfigError) as error:
        load(*tiers)
    message = str(error.value)
    assert "\n" not in message
    return message.removeprefix("command line: ")


def test_a_tier_of_files_needs_no_more_than_a_directory() -> None:
    """The rest has defaults that do for a local disk."""
    (tier,) = load(fs()).tiers

    assert tier.directory == Path("/data/kv")
    assert (tier.sync, tier.io_threads, tier.io_timeout) == ("none", 4, 10.0)
    assert tier.scrub_rate == 8 << 20
    assert tier.lasts


def test_a_tier_of_objects_needs_no_more_than_a_url() -> None:
    """Server and region are those of AWS then."""
    (tier,) = load(obj()).tiers

    assert (tier.url, tier.endpoint, tier.region) == ("s3://cache/a", None, None)
    assert tier.lasts


def test_what_a_tier_may_have_is_taken() -> None:
    """Rates are sizes, as everywhere; 0 is none."""
    files, objects = load(
        fs(sync="always", io_threads=1, io_timeout=0.1, scrub_rate=0),
        obj(endpoint="https://minio:9000", region="eu-west-1", scrub_rate="1MiB"),
    ).tiers

    assert (files.sync, files.scrub_rate) == ("always", 0)
    assert (objects.endpoint, objects.scrub_rate) == ("https://minio:9000", 1 << 20)


@pytest.mark.parametrize(
    ("tier", "told"),
    [
        (fs(directory=None), "directory is missing; an fs tier needs it"),
        (obj(url=None), "url is missing; an obj tier needs it"),
        (fs(url="s3://cache/a"), "url is for obj tiers only"),
        (fs(endpoint="http://h"), "endpoint is for obj tiers only"),
        (fs(region="x"), "region is for obj tiers only"),
        (fs(slot_bytes="1MiB"), "slot_bytes is for gpu and cpu tiers only"),
        (fs(device="auto"), "device is for gpu tiers only"),
        (fs(shm_dir="/dev/shm"), "shm_dir is for cpu tiers only"),
        (obj(directory="/data"), "directory is for fs tiers only"),
        (obj(sync="none"), "sync is for fs tiers only"),
        (memory("cpu", directory="/data"), "directory is for fs tiers only"),
        (memory("cpu", io_threads=2), "io_threads is for fs and obj tiers only"),
        (memory("gpu", io_timeout=2), "io_timeout is for fs and obj tiers only"),
        (memory("cpu", scrub_rate=0), "scrub_rate is for fs and obj tiers only"),
        (memory("gpu", url="s3://cache/a"), "url is for obj tiers only"),
    ],
    ids=str,
)
def test_a_setting_of_another_medium_and_one_that_is_missing_are_told(
    tier: dict[str, object], told: str
) -> None:
    """The message names the setting, the media that it is for, and what to do."""
    assert refusal(tier).startswith(f"tiers[0]: {told}")


@pytest.mark.parametrize(
    ("tier", "told"),
    [
        (fs(directory="data"), "directory: 'data' is not an absolute path; write one that begins"),
        (fs(directory=""), "directory: '.' is not an absolute path"),
        (fs(sync="often"), "sync: 'often' is refused: it should be 'none', 'close' or 'always'"),
        (fs(io_threads=0), "io_threads: 0 is refused"),
        (fs(io_threads=65), "io_threads: 65 is refused"),
        (fs(io_timeout=0), "io_timeout: 0 is refused"),
        (fs(io_timeout=301), "io_timeout: 301 is refused"),
        (fs(scrub_rate=-1), "scrub_rate: -1 is negative"),
        (fs(scrub_rate="8MB/s"), "scrub_rate: '8MB/s' is not a size"),
    ],
    ids=str,
)
def test_a_wrong_value_is_told(tier: dict[str, object], told: str) -> None:
    """With the setting's place, the value and what would do."""
    assert refusal(tier).startswith(f"tiers[0].{told}")


@pytest.mark.parametrize(
    "url",
    [
        "kv/a",
        "s3://cache",
        "s3://cache/",
        "gs://kv/a",
        "s3:///a",
        "s3://KV/a",
        "s3://cache/a/../b",
        "s3://cache/a//b",
        "s3://cache/a b",
        "https://cache.s3.amazonaws.com/a",
        "",
    ],
)
def test_a_url_that_names_no_bucket_and_prefix_is_refused(url: str) -> None:
    """A whole bucket is not given away, and no prefix climbs out of its place."""
    told = refusal(obj(url=url))

    assert told.startswith(f"tiers[0].url: {url!r} is not s3://BUCKET/PREFIX; write a bucket and")


@pytest.mark.parametrize("url", ["s3://AKIA:SECRET@cache/a", "s3://cache/a?X-Amz-Signature=SECRET"])
def test_a_secret_in_a_url_is_not_repeated(url: str) -> None:
    """What is refused goes to the log, where no secret belongs."""
    told = refusal(obj(url=url))

    assert told.startswith("tiers[0].url: this is not s3://BUCKET/PREFIX")
    assert "SECRET" not in told


@pytest.mark.parametrize(
    "endpoint",
    [
        "minio:9000",
        "ftp://minio",
        "http://",
        "http://minio:0",
        "http://minio:99999",
        "http://[::1",
        "http://mi nio",
        "http://minio?SECRET",
        "http://minio#SECRET",
        "https://AKIA:SECRET@minio:9000",
        "https://SECRET@minio",
        "https://@minio",
        # Python's own message for this one repeats what it was given.
        "http://SECRET℀:x@minio",
        "",
    ],
)
def test_an_endpoint_that_is_more_or_less_than_a_server_is_refused(endpoint: str) -> None:
    """It may hold credentials, so that it is not repeated; the message says where they belong."""
    told = refusal(obj(endpoint=endpoint))

    assert told.startswith("tiers[0].endpoint: the endpoint is not http://HOST:PORT or https://")
    assert told.endswith("without credentials: these come from the usual AWS sources")
    assert "SECRET" not in told


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (fs("a"), fs("b"), "tiers a and b: both have the directory /data/kv; give each a place"),
        (fs("a"), fs("b", directory="/data/x/../kv/"), "both have the directory /data/kv"),
        (
            fs("a"),
            fs("b", directory="/data/kv/b"),
            "tiers a and b: their directory settings /data/kv and /data/kv/b lie one in the other",
        ),
        (fs("a", directory="/data/kv/b"), fs("b"), "lie one in the other; give each a place of"),
        (fs("a", directory="/"), fs("b"), "lie one in the other"),
        (obj("a"), obj("b", url="s3://cache/a/"), "tiers a and b: both have the url s3://cache/a"),
        (
            obj("a"),
            obj("b", url="s3://cache/a/b"),
            "their url settings s3://cache/a and s3://cache/a/b lie",
        ),
        (
            obj("a", endpoint="http://minio"),
            obj("b", endpoint="http://minio/"),
            "both have the url s3://cache/a",
        ),
    ],
)
def test_two_tiers_in_one_place_are_refused(
    one: dict[str, object], other: dict[str, object], told: str
) -> None:
    """Each would take the other's blocks for its own, or for a stranger's."""
    refused = refusal(one, other)

    assert refused.startswith("tiers: tiers a and b: ")
    assert told in refused


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (fs("a"), fs("b", directory="/data/kv2")),
        (fs("a", directory="/data/kv/a"), fs("b", directory="/data/kv/b")),
        (obj("a"), obj("b", url="s3://cache/ab")),
        (obj("a"), obj("b", url="s3://other/a")),
        (obj("a"), obj("b", endpoint="http://minio")),
        (fs("a", directory="/kv/a"), obj("b")),
    ],
)
def test_tiers_in_places_of_their_own_are_taken(
    one: dict[str, object], other: dict[str, object]
) -> None:
    """Beside one another is fine, and so is one prefix at two servers."""
    assert [tier.name for tier in load(one, other).tiers] == ["a", "b"]


def test_faster_tiers_hand_blocks_to_tiers_that_last() -> None:
    """A file takes a block of any size, so that slots need not fit."""
    config = load(
        memory("gpu", slot_bytes="64KiB", on_evict="cpu0"),
        memory("cpu", slot_bytes="64KiB", on_evict="fs0", write_through=["obj0"]),
        fs(on_evict="obj0"),
        obj(),
    )

    assert [tier.on_evict for tier in config.tiers] == ["cpu0", "fs0", "obj0", None]
    # Only tiers in memory change blocks through spare slots.
    assert [config.spare_bytes(tier) for tier in config.tiers] == [1 << 20, 1 << 20, 0, 0]


@pytest.mark.parametrize("medium", ["gpu", "cpu"])
def test_tiers_in_memory_do_not_last(medium: str) -> None:
    """Their blocks end with the process."""
    tier = memory(medium)

    assert not TierConfig.model_validate(tier).lasts
