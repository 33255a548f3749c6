"""What there is to tell of a node as of a proxy."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from kvtier.server.metrics.families import Family, Read, word
from kvtier.v1.event_service_pb2 import ResetReason

Numbers = Mapping[str, float]

# Looked up once: it is read from a file.
_VERSION = version("kvtier")

_BUILD = Family("kvtier_build_info", "1, with the version of the program.", ("version",))
_INFO = Family("kvtier_node_info", "1, with the id of the node or proxy.", ("node_id",))
_READY = Family("kvtier_ready", "Whether its health says SERVING, 0 or 1.")
_DRAINING = Family("kvtier_draining", "Whether it takes no new work any more, 0 or 1.")
_FOLLOWERS = Family("kvtier_followers", "Followers of events now.")
_RESETS = Family(
    "kvtier_resets_total", "Resets that followers were sent of a node's log.", ("reason",)
)
_EXPIRY = Family(
    "kvtier_certificate_expiry_timestamp_seconds",
    "When the certificate of a file ends that ends first, in seconds since 1970.",
    ("file",),
)
_FAILURES = Family("kvtier_auth_failures_total", "Calls refused for who makes them.", ("reason",))
_LIMITED = Family(
    "kvtier_limited_calls_total",
    "Calls refused because there were too many, by the limit that they met.",
    ("limit",),
)
FAMILIES = (
    _BUILD,
    _INFO,
    _READY,
    _DRAINING,
    _FOLLOWERS,
    _RESETS,
    _EXPIRY,
    _FAILURES,
    _LIMITED,
)

_RESET_REASONS = {
    value: word(name, "RESET_REASON_") for name, value in ResetReason.items() if value
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a server knows of itself; each is asked on its loop, and answers at once.

    Attributes:
        node_id: The id of the node or proxy.
        ready: Whether its health says SERVING.
        draining: Whether it takes no new work any more.
        followers: How many follow its events.
        resets: How many resets followers were sent, by `ResetReason`.
        expiries: When what a file holds ends, in seconds since 1970, by cert, client_ca,
            connect_cert and connect_ca, as far as there are such files.
        auth_failures: How many calls were refused for who makes them, by no_identity, bad_token,
            not_allowed and revoked.
        limited_calls: How many calls each limit refused, for every limit that there is.
    """

    node_id: str
    ready: Callable[[], bool]
    draining: Callable[[], bool]
    followers: Callable[[], int]
    resets: Callable[[], Mapping[int, int]]
    expiries: Callable[[], Numbers]
    auth_failures: Callable[[], Numbers]
    limited_calls: Callable[[], Numbers]


def collect_facts(facts: Facts) -> Iterator[Read]:
    """Read what a server knows of itself."""
    yield _BUILD.by({_VERSION: 1})
    yield _INFO.by({facts.node_id: 1})
    yield _READY.alone(facts.ready())
    yield _DRAINING.alone(facts.draining())
    yield _FOLLOWERS.alone(facts.followers())
    resets = facts.resets()
    yield _RESETS.by({name: resets.get(reason, 0) for reason, name in _RESET_REASONS.items()})
    yield _EXPIRY.by(facts.expiries())
    yield _FAILURES.by(facts.auth_failures())
    yield _LIMITED.by(facts.limited_calls())
