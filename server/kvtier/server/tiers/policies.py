"""Replacement policies by name."""

from collections.abc import Callable

from kvtier.server.tiers.arc import ArcPolicy
from kvtier.server.tiers.lru import LruPolicy
from kvtier.server.tiers.policy import Columns, Policy, Stamps

PolicyFactory = Callable[[Columns, Stamps], Policy]
_POLICIES: dict[str, PolicyFactory] = {"arc": ArcPolicy, "lru": LruPolicy}


def register_policy(name: str, factory: PolicyFactory) -> None:
    """Make a policy known by a name, for the configuration.

    Args:
        name: The name, such as "lru".
        factory: Called with what a policy may read, and where its stamps get their numbers.
    """
    _POLICIES[name] = factory


def policy_names() -> list[str]:
    """Return the names of the known policies, sorted."""
    return sorted(_POLICIES)


def make_policy(name: str, columns: Columns, stamps: Stamps) -> Policy:
    """Return a new policy over the columns of a block table.

    Raises:
        KeyError: When no policy has that name.
    """
    return _POLICIES[name](columns, stamps)
