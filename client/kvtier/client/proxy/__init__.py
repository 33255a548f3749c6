"""One view of many nodes, and one manager over them.

`TieringProxy` is what a scheduler holds. `following` reads the nodes' streams and merges them,
`membership` tells who is there, `cascades` carries stores on, and `promotions` brings what a load
lacks.
"""

from kvtier.client.proxy.blocking import BlockingTieringProxy
from kvtier.client.proxy.cascades.cascade import Cascade, SecondaryOutcome, Skip
from kvtier.client.proxy.cascades.storing import ProxyCompletion, ProxyStore
from kvtier.client.proxy.fan_out import FanOut, TiersCleared
from kvtier.client.proxy.lookup import ProxyLookup
from kvtier.client.proxy.settings import CascadeSettings, PromotionSettings
from kvtier.client.proxy.tiering_proxy import SourceStatus, TieringProxy

__all__ = [
    "BlockingTieringProxy",
    "Cascade",
    "CascadeSettings",
    "FanOut",
    "PromotionSettings",
    "ProxyCompletion",
    "ProxyLookup",
    "ProxyStore",
    "SecondaryOutcome",
    "Skip",
    "SourceStatus",
    "TieringProxy",
    "TiersCleared",
]
