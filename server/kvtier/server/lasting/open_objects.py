"""Opening the shelf of a tier of objects, whose library is needed for nothing else."""

from typing import TYPE_CHECKING

from kvtier.server.config import TierConfig
from kvtier.server.stores.base import StoreError

if TYPE_CHECKING:
    from kvtier.server.lasting.objects import ObjectShelf


def open_objects(tier: TierConfig, node_id: str) -> "ObjectShelf":
    """Open the shelf that the configuration of an obj tier asks for.

    Args:
        tier: The tier's configuration.
        node_id: The node's id.

    Raises:
        StoreError: When obstore is not installed, or the shelf cannot be opened.
    """
    try:
        from kvtier.server.lasting.objects import ObjectShelf  # noqa: PLC0415 - needs obstore
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise StoreError(
            "an obj tier needs the package obstore, which is not installed; run "
            "pip install 'kvtier[s3]'"
        ) from error
    assert tier.url is not None
    return ObjectShelf(
        tier.url,
        node_id=node_id,
        tier=tier.name,
        endpoint=tier.endpoint,
        region=tier.region,
        io_timeout=tier.io_timeout,
        concurrency=tier.io_threads,
    )
