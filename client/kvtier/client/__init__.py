"""The client of kvtier: nodes, their events, and a proxy over several of them.

It needs neither torch nor NumPy nor the server. Requests and answers are the generated messages of
`kvtier.v1`, documented there; everything raises the errors of `kvtier.client.errors`.
"""

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
    Reason,
    UnavailableError,
    UnimplementedError,
)
from kvtier.client.index import BlockIndex, BlockKey, PrefixLengths, TierOf
from kvtier.client.lookup import ProxyLookup
from kvtier.client.mapped.blocks import Blocks
from kvtier.client.node import NodeClient
from kvtier.client.proxy import TieringProxy
from kvtier.client.reports import BlockViews, DataPath, LoadReport, StoreReport
from kvtier.client.scope import scope_of
from kvtier.client.source import Quality
from kvtier.client.stream import EventStream
from kvtier.client.watch import Watch

__all__ = [
    "AbortedError",
    "Backoff",
    "BlockIndex",
    "BlockKey",
    "BlockViews",
    "BlockingNodeClient",
    "Blocks",
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
    "PrefixLengths",
    "ProxyLookup",
    "Quality",
    "Reason",
    "StoreReport",
    "TierOf",
    "TieringProxy",
    "UnavailableError",
    "UnimplementedError",
    "Watch",
    "block_sizes",
    "scope_of",
]
