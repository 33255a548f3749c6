"""The configuration of a node: one YAML file, `KVTIER_` environment over it, flags over both."""

from kvtier.server.config.load import load_config
from kvtier.server.config.models import (
    EventsConfig,
    LimitsConfig,
    NodeConfig,
)
from kvtier.server.config.sources import ConfigError
from kvtier.server.config.tier import TierConfig

__all__ = [
    "ConfigError",
    "EventsConfig",
    "LimitsConfig",
    "NodeConfig",
    "TierConfig",
    "load_config",
]
