"""The table of what each RPC needs."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from google.protobuf.descriptor import Descriptor, MethodDescriptor
from grpc_reflection.v1alpha import reflection_pb2

import kvtier.v1
from kvtier.server.security.rules import RULES
from kvtier.server.security.scopes import CALLS, no_namespace
from kvtier.v1.lease_stream_pb2 import LeaseCall

MODULES: list[Any] = [
    *(
        import_module(f"kvtier.v1.{module.name}")
        for module in iter_modules(kvtier.v1.__path__)
        if module.name.endswith("_pb2")
    ),
    reflection_pb2,
]
METHODS: dict[str, MethodDescriptor] = {
    method.full_name: method
    for module in MODULES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


def test_every_rpc_has_a_rule() -> None:
    """And no rule is for an RPC that is not there: one that is added needs one here, too."""
    assert set(RULES) == set(METHODS)


def speaks_of_namespaces(message: Descriptor) -> bool:
    fields: Any = message.fields
    return any(
        field.name in {"namespace", "namespaces", "lease", "leases", "owner"}
        or (field.message_type is not None and speaks_of_namespaces(field.message_type))
        for field in fields
    )


def test_every_request_that_could_name_a_namespace_is_looked_at() -> None:
    """Also one that names it by a lease, or deep within."""
    for name, method in METHODS.items():
        if speaks_of_namespaces(method.input_type):
            assert RULES[name].scope is not no_namespace, name


def test_every_call_on_a_stream_of_leases_is_looked_at() -> None:
    """As the RPC of its own is."""
    kinds = {field.name for field in LeaseCall.DESCRIPTOR.oneofs_by_name["request"].fields}

    assert set(CALLS) == kinds
    for kind, scope in CALLS.items():
        rpc = "".join(word.title() for word in kind.split("_"))
        assert RULES[f"kvtier.v1.TierService.{rpc}"].scope is scope
