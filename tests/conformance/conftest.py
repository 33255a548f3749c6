"""The nodes of the contract tests, here too."""

from tests.contract.conftest import Follow, Serve, follow, serve

__all__ = ["Follow", "Serve", "follow", "serve"]
