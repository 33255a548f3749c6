"""What a start may fail with, and what it binds."""

from typing import Protocol

import grpc


class StartError(Exception):
    """The server cannot start; the message says why and what to do."""


class Binding(Protocol):
    """A gRPC server of either kind, as far as addresses go."""

    def add_insecure_port(self, address: str) -> int:
        """Bind an address and return the port; RuntimeError when it cannot be bound."""
        ...

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        """Bind an address for TLS and return the port; RuntimeError when it cannot be bound."""
        ...
