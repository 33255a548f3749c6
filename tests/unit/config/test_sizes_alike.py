"""A size means the same on the command line, in the environment, in a file and in the schema."""

from pathlib import Path

import click
import pytest
from jsonschema import Draft202012Validator

from kvtier.cli.params import block_size
from kvtier.server.config import ConfigError, NodeConfig, load_config
from kvtier.server.config.schema import schema_of

FILE = "tiers: [{{name: cpu0, medium: cpu, capacity: {}}}]"


def in_a_file(folder: Path, text: str) -> int:
    path = folder / "node.yaml"
    path.write_text(FILE.format(text))
    return load_config(path, {}, {}).tiers[0].capacity


def in_the_environment(text: str) -> int:
    return load_config(None, {"KVTIER_EVENTS__MAX_BYTES": text}, {}).events.max_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MB", 512_000_000),
        ("512MiB", 512 << 20),
        ("0.5GiB", 512 << 20),
        ("536870912", 512 << 20),
        ("512 MB", 512_000_000),
        ("512 mib", 512 << 20),
        ("1e9", 10**9),
        ("10 GB", 10**10),
        ("10GiB", 10 << 30),
    ],
)
def test_a_size_is_the_same_everywhere(tmp_path: Path, text: str, size: int) -> None:
    """The units are those that operations.md tells."""
    assert block_size(text) == size
    assert in_the_environment(text) == size
    assert in_a_file(tmp_path, text) == size
    assert in_a_file(tmp_path, f"'{text}'") == size
    assert Draft202012Validator(schema_of(NodeConfig)).is_valid({"events": {"max_bytes": text}})


@pytest.mark.parametrize("text", ["512m", "512MBx", "-512MB", "-1", "1.5", "64G", "1e999", "MiB"])
def test_what_is_no_size_is_refused_everywhere_by_its_text(tmp_path: Path, text: str) -> None:
    """Each place names itself, the setting and the value."""
    with pytest.raises(click.BadParameter, match=f"'{text}'"):
        block_size(text)
    with pytest.raises(ConfigError, match=f"^KVTIER_EVENTS__MAX_BYTES: .*'{text}'"):
        in_the_environment(text)
    with pytest.raises(ConfigError, match=rf"node.yaml: tiers\[0\].capacity: '{text}'"):
        in_a_file(tmp_path, f"'{text}'")


def test_nothing_is_a_capacity_and_no_size_of_a_block(tmp_path: Path) -> None:
    """0 is a tier that holds nothing; what must hold something is refused by name."""
    assert in_a_file(tmp_path, "0") == 0
    with pytest.raises(click.BadParameter, match="'0' is no size of a block"):
        block_size("0")
    with pytest.raises(ConfigError, match=r"^KVTIER_EVENTS__MAX_BYTES: events\.max_bytes: '0'"):
        in_the_environment("0")
