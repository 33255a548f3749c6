"""The client of kvtier: nodes, their events, and a proxy over several of them.

It needs neither torch nor NumPy nor the server. Requests and answers are the generated messages of
`kvtier.v1`, documented there; everything raises the errors of `kvtier.client.errors`.
"""

from kvtier.client.answers import BestCopies, BlockKey, PrefixLengths, TierOf
from kvtier.client.backoff import Backoff
from kvtier.client.blocking import BlockingNodeClient
from kvtier.client.chunks import block_sizes
from kvtier.client.errors import (
    AbortedError,
    DeadlineError,
    DeniedError,
    ExhaustedError,
    FailedPreconditionError,
    InvalidArgumentError,
    KvtierError,
    NotFoundError,
    PermissionDeniedError,
    Reason,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from kvtier.client.index import BlockIndex
from kvtier.client.mapped.blocks import Blocks
from kvtier.client.node import NodeClient
from kvtier.client.placement import Chain, ChainHeld, Placement, rank_nodes
from kvtier.client.proxy import (
    BlockingTieringProxy,
    CascadeSettings,
    PromotionSettings,
    ProxyLookup,
    TieringProxy,
)
from kvtier.client.reports import BlockViews, DataPath, LoadReport, StoreReport
from kvtier.client.scope import scope_of
from kvtier.client.source import Quality, TierInfo
from kvtier.client.stream import EventStream
from kvtier.client.watch import Watch
from kvtier.wire.credentials import Credentials, CredentialsError

__all__ = [
    "AbortedError",
    "Backoff",
    "BestCopies",
    "BlockIndex",
    "BlockKey",
    "BlockViews",
    "BlockingNodeClient",
    "BlockingTieringProxy",
    "Blocks",
    "CascadeSettings",
    "Chain",
    "ChainHeld",
    "Credentials",
    "CredentialsError",
    "DataPath",
    "DeadlineError",
    "DeniedError",
    "EventStream",
    "ExhaustedError",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "KvtierError",
    "LoadReport",
    "NodeClient",
    "NotFoundError",
    "PermissionDeniedError",
    "Placement",
    "PrefixLengths",
    "PromotionSettings",
    "ProxyLookup",
    "Quality",
    "Reason",
    "StoreReport",
    "TierInfo",
    "TierOf",
    "TieringProxy",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "Watch",
    "block_sizes",
    "rank_nodes",
    "scope_of",
]
