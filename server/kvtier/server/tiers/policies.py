"""Replacement policies by name."""

from collections.abc import Callable, Sequence

from kvtier.server.tiers.lru import LruPolicy
from kvtier.server.tiers.policy import Policy

PolicyFactory = Callable[[Sequence[int], Sequence[int]], Policy]
_POLICIES: dict[str, PolicyFactory] = {"lru": LruPolicy}


def register_policy(name: str, factory: PolicyFactory) -> None:
    """Make a policy known by a name, for the configuration.

    Args:
        name: The name, such as "lru".
        factory: Called with two columns, by slot: start positions in tokens, and lease counts.
    """
    _POLICIES[name] = factory


def policy_names() -> list[str]:
    """Return the names of the known policies, sorted."""
    return sorted(_POLICIES)


def make_policy(name: str, starts: Sequence[int], leases: Sequence[int]) -> Policy:
    """Return a new policy over the columns of a block table.

    Raises:
        KeyError: When no policy has that name.
    """
    return _POLICIES[name](starts, leases)
