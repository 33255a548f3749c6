"""The namespaces that a node knows."""

from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.errors import Reason, failed_precondition, invalid, not_found, over_limit, quote
from kvtier.wire.namespaces import FINGERPRINT_BYTES, differing_fields, fingerprint, problem

_FULL_RETRY = 60.0


class Namespaces:
    """Registered namespaces, by name and by fingerprint, in the order of registration.

    Args:
        max_namespaces: How many may be registered.
        max_block_bytes: The largest block that a description may state.
    """

    def __init__(self, max_namespaces: int, max_block_bytes: int) -> None:
        self._max = max_namespaces
        self._max_block_bytes = max_block_bytes
        self._by_name: dict[str, NamespaceInfo] = {}
        self._by_fingerprint: dict[bytes, NamespaceInfo] = {}

    def register(self, description: Namespace) -> NamespaceInfo:
        """Make a namespace known; an equal description again changes nothing.

        Raises:
            KvtierError: As RegisterNamespace says.
        """
        wrong = problem(description, self._max_block_bytes)
        if wrong is not None:
            raise invalid(f"namespace {quote(description.name)}: {wrong}")
        known = self._by_name.get(description.name)
        if known is None:
            return self._add(description)
        differences = differing_fields(known.description, description)
        if differences:
            told = "; ".join(f"{f} is {a!r} here, {b!r} there" for f, (a, b) in differences.items())
            raise failed_precondition(
                f"namespace {description.name} is registered with another description: {told}. "
                "Use another name, or the same description",
                Reason.NAMESPACE_DIFFERS,
                {field: f"{here!r} != {there!r}" for field, (here, there) in differences.items()},
            )
        return known

    def get(self, print_: bytes) -> NamespaceInfo:
        """Return a namespace by its fingerprint.

        Raises:
            KvtierError: INVALID_ARGUMENT or NOT_FOUND.
        """
        info = self._by_fingerprint.get(print_)
        if info is not None:
            return info
        if len(print_) != FINGERPRINT_BYTES:
            raise invalid(
                f"namespace has {len(print_)} bytes; it must be a fingerprint of "
                f"{FINGERPRINT_BYTES} bytes, as RegisterNamespace returns it"
            )
        raise not_found(
            f"namespace {quote(print_, 16)} is not registered: call RegisterNamespace first",
            Reason.NAMESPACE_UNKNOWN,
        )

    def find(self, print_: bytes) -> NamespaceInfo | None:
        """Return a namespace by its fingerprint, if it is registered."""
        return self._by_fingerprint.get(print_)

    def by_name(self) -> list[NamespaceInfo]:
        """Return all namespaces, sorted by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def check_known(self, info: NamespaceInfo) -> None:
        """Raise NOT_FOUND when a namespace was deleted since it was looked up."""
        if self.get(info.fingerprint) is not info:
            raise not_found(
                f"namespace {info.description.name} was deleted, and registered again: try again",
                Reason.NAMESPACE_UNKNOWN,
            )

    def forget(self, info: NamespaceInfo) -> None:
        """Take a namespace off the register."""
        del self._by_name[info.description.name], self._by_fingerprint[info.fingerprint]

    def _add(self, description: Namespace) -> NamespaceInfo:
        if len(self._by_name) >= self._max:
            raise over_limit(
                "namespaces",
                f"{self._max} namespaces are registered, which is the limit: delete one, or raise "
                "limits.namespaces",
                Reason.NAMESPACE_LIMIT,
                retry_after=_FULL_RETRY,
            )
        info = NamespaceInfo.of(fingerprint(description), description)
        self._by_name[description.name] = info
        self._by_fingerprint[info.fingerprint] = info
        return info
