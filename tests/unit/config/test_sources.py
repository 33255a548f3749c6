"""Where settings come from, and which place wins."""

from pathlib import Path

import pytest

from kvtier.server.config import ConfigError, NodeConfig, load_config

GIB = 1 << 30


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "node.yaml"


def write(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


def test_without_any_configuration_there_is_a_useful_node() -> None:
    """One host tier of 1 GiB, on loopback."""
    config = load_config(None, {}, {})

    (tier,) = config.tiers
    assert (tier.name, tier.medium, tier.capacity) == ("cpu0", "cpu", GIB)
    assert (config.listen, config.insecure) == ("127.0.0.1:7600", False)
    assert config == NodeConfig()


def test_flags_win_over_the_environment_and_that_over_the_file(file: Path) -> None:
    """Groups of settings are merged, so that one setting can be changed alone."""
    write(file, "node_id: file\nlisten: 127.0.0.1:1\nevents: {linger: 0.5, max_batches: 7}")
    env = {"KVTIER_NODE_ID": "env", "KVTIER_LISTEN": "127.0.0.1:2", "KVTIER_EVENTS__LINGER": "0.25"}

    config = load_config(file, env, {"node_id": "flag", "listen": None})

    assert (config.node_id, config.listen) == ("flag", "127.0.0.1:2")
    assert (config.events.linger, config.events.max_batches) == (0.25, 7)


def test_a_variable_that_nothing_reads_is_refused() -> None:
    """The file is named by --config alone, and whoever thinks otherwise is told."""
    with pytest.raises(ConfigError, match=r"^KVTIER_CONFIG: config: unknown setting"):
        load_config(None, {"KVTIER_CONFIG": "node.yaml"}, {})


def test_a_list_is_taken_whole_from_the_place_that_wins(file: Path) -> None:
    """Tiers of two places are never mixed."""
    write(file, "tiers: [{name: cpu0, medium: cpu, capacity: 1GiB, policy: arc}]")
    env = {"KVTIER_TIERS": "[{name: cpu1, medium: cpu, capacity: 10 GB}]"}

    (tier,) = load_config(file, env, {}).tiers

    assert (tier.name, tier.capacity, tier.policy) == ("cpu1", 10**10, "lru")


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("0", 0),
        ("10 GB", 10**10),
        ("10GiB", 10 << 30),
        ("1e9", 10**9),
        ("-1", "is negative"),
        ("64G", "is not a size"),
        ("1.5", "is not a whole number of bytes"),
    ],
)
def test_a_size_means_the_same_wherever_it_stands(file: Path, text: str, means: object) -> None:
    """In the file, in the environment and among the settings of a command line."""
    tiers = f"[{{name: cpu0, medium: cpu, capacity: {text}}}]"
    write(file, f"tiers: {tiers}")
    places: list[tuple[Path | None, dict[str, str], dict[str, object]]] = [
        (file, {}, {}),
        (None, {"KVTIER_TIERS": tiers}, {}),
        (None, {}, {"tiers": [{"name": "cpu0", "medium": "cpu", "capacity": text}]}),
    ]

    if isinstance(means, int):
        assert [load_config(*place).tiers[0].capacity for place in places] == [means] * 3
        return
    for place in places:
        with pytest.raises(ConfigError) as refused:
            load_config(*place)
        for told in ("tiers[0].capacity: ", text, str(means)):
            assert told in str(refused.value)


def test_a_setting_without_a_value_is_not_given(file: Path) -> None:
    """A group whose lines are all commented out is the default."""
    write(file, "limits:\nnode_id: ~\nevents:\n  linger:\n")

    assert load_config(file, {}, {}) == NodeConfig()


@pytest.mark.parametrize(
    "name",
    [
        "KVTIER_SERVICE_HOST",
        "KVTIER_SERVICE_PORT_GRPC",
        "KVTIER_PORT",
        "KVTIER_PORT_7600_TCP_ADDR",
        "KVTIER_NODES_PORT_7600_TCP",
        "KVTIER_ENDPOINTS",
        "KVTIER_CACERT",
        "KVTIER_CERT",
        "KVTIER_KEY",
        "KVTIER_TOKEN_FILE",
        "KVTIER_USE_TLS",
        "KVTIER_TLS_SERVER_NAME",
        "OTHER_LISTEN",
    ],
)
def test_variables_of_others_are_passed_over(name: str) -> None:
    """Kubernetes sets some by itself for a service named kvtier; the CLI has its own."""
    assert load_config(None, {name: "tcp://10.0.0.1:7600"}, {}) == NodeConfig()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tiers: [", "is not valid YAML: line 1, column 9"),
        (
            "listen: a:1\nlisten: b:2",
            "is not valid YAML: line 2, column 1: 'listen' is given twice",
        ),
        ("- a", "holds no settings; write lines such as"),
        ("just text", "holds no settings; write lines such as"),
        ("a: 2020-13-45", "is not valid YAML"),
        ("\x00", "is not valid YAML"),
    ],
)
def test_a_file_that_is_no_yaml_is_told_with_its_line(file: Path, text: str, told: str) -> None:
    """A key given twice is refused too: one of the two would be lost unseen."""
    with pytest.raises(ConfigError) as error:
        load_config(write(file, text), {}, {})

    assert str(error.value).startswith(f"{file}: {told}")
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Missing, a directory, or no text."""
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")

    with pytest.raises(ConfigError, match="none: cannot be read: No such file"):
        load_config(tmp_path / "none", {}, {})
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, {}, {})
    with pytest.raises(ConfigError, match="binary: is not UTF-8 text"):
        load_config(binary, {}, {})


def test_an_error_names_the_place_that_the_value_came_from(file: Path) -> None:
    """The place that wins is the one to mend."""
    write(file, "listen: 127.0.0.1:1\nnode_id: a_b")

    with pytest.raises(ConfigError, match=r"^KVTIER_LISTEN: listen: 'x' is not HOST:PORT"):
        load_config(None, {"KVTIER_LISTEN": "x"}, {})
    with pytest.raises(ConfigError, match=r"^command line: listen: 'y' is not HOST:PORT"):
        load_config(None, {"KVTIER_LISTEN": "x"}, {"listen": "y"})
    with pytest.raises(ConfigError, match=r"node\.yaml: node_id: 'a_b' is refused"):
        load_config(file, {}, {})


def test_one_tier_cannot_be_changed_by_its_place_in_the_list() -> None:
    """The message says that a list is wanted."""
    with pytest.raises(ConfigError, match=r"^KVTIER_TIERS__0__CAPACITY: tiers: .* write a list"):
        load_config(None, {"KVTIER_TIERS__0__CAPACITY": "5GiB"}, {})
    with pytest.raises(ConfigError, match=r"^KVTIER_TIERS: is not valid YAML: line 1"):
        load_config(None, {"KVTIER_TIERS": "[{"}, {})
