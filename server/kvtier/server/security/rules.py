"""What each RPC needs: a role, and the namespaces that its requests are about."""

from typing import NamedTuple

from kvtier.server.security import scopes
from kvtier.server.security.grants import Role
from kvtier.server.security.scopes import Scope


class Rule(NamedTuple):
    """What a caller needs for an RPC.

    Attributes:
        role: The least role.
        scope: Which namespaces a request is about.
    """

    role: Role
    scope: Scope


_R, _W, _A = Role
_STREAMS = "use WriteBlocks and ReadBlocks"
_NO_DRAIN = "let somebody whose grant is for all namespaces do it"

RULES: dict[str, Rule] = {
    "grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo": Rule(_R, scopes.no_namespace),
    "kvtier.v1.EventService.WatchEvents": Rule(_R, scopes.watched),
    "kvtier.v1.NodeService.Drain": Rule(_A, scopes.every_namespace(_NO_DRAIN)),
    "kvtier.v1.TierService.GetNode": Rule(_R, scopes.no_namespace),
    "kvtier.v1.TierService.ListTiers": Rule(_R, scopes.no_namespace),
    "kvtier.v1.TierService.ListNamespaces": Rule(_R, scopes.no_namespace),
    "kvtier.v1.TierService.LookupBlocks": Rule(_R, scopes.the_namespace),
    "kvtier.v1.TierService.ListBlocks": Rule(_R, scopes.the_namespace_or_all),
    "kvtier.v1.TierService.DescribeBlock": Rule(_R, scopes.the_namespace),
    "kvtier.v1.TierService.PrepareStore": Rule(_W, scopes.the_namespace),
    "kvtier.v1.TierService.CompleteStore": Rule(_W, scopes.the_lease),
    "kvtier.v1.TierService.PrepareLoad": Rule(_W, scopes.the_namespace),
    "kvtier.v1.TierService.CompleteLoad": Rule(_W, scopes.the_lease),
    "kvtier.v1.TierService.RenewLeases": Rule(_W, scopes.the_leases),
    "kvtier.v1.TierService.ReleaseLeases": Rule(_W, scopes.leases_or_all_of_an_owner),
    "kvtier.v1.TierService.TouchBlocks": Rule(_W, scopes.the_namespace),
    "kvtier.v1.TierService.PinBlocks": Rule(_W, scopes.the_namespace),
    "kvtier.v1.TierService.UnpinBlocks": Rule(_W, scopes.leases_or_all_of_an_owner),
    "kvtier.v1.TierService.RegisterNamespace": Rule(_A, scopes.described),
    "kvtier.v1.TierService.DeleteNamespace": Rule(_A, scopes.the_namespace),
    "kvtier.v1.TierService.CopyBlocks": Rule(_A, scopes.the_namespace),
    "kvtier.v1.TierService.DeleteBlocks": Rule(_A, scopes.the_namespace),
    "kvtier.v1.TierService.ClearTier": Rule(_A, scopes.the_namespace_or_all),
    "kvtier.v1.TransferService.WriteBlocks": Rule(_W, scopes.written),
    "kvtier.v1.TransferService.ReadBlocks": Rule(_W, scopes.read),
    "kvtier.v1.TransferService.MapTier": Rule(_W, scopes.every_namespace(_STREAMS)),
    "kvtier.v1.TransferService.LeaseBlocks": Rule(_W, scopes.calls),
}
