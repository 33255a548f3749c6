"""What a failed call raises."""

import grpc
import pytest

import kvtier.client as package
from kvtier.client import (
    AbortedError,
    DeadlineError,
    ExhaustedError,
    FailedPreconditionError,
    InvalidArgumentError,
    KvtierError,
    NodeClient,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from kvtier.client import errors as module
from kvtier.wire.errors import Reason

from .fakes import FakeNode, fail


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, InvalidArgumentError),
        (grpc.StatusCode.NOT_FOUND, NotFoundError),
        (grpc.StatusCode.FAILED_PRECONDITION, FailedPreconditionError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ExhaustedError),
        (grpc.StatusCode.ABORTED, AbortedError),
        (grpc.StatusCode.UNAVAILABLE, UnavailableError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, DeadlineError),
        (grpc.StatusCode.UNIMPLEMENTED, UnimplementedError),
        (grpc.StatusCode.UNAUTHENTICATED, UnauthenticatedError),
        (grpc.StatusCode.PERMISSION_DENIED, PermissionDeniedError),
        (grpc.StatusCode.INTERNAL, KvtierError),
        (grpc.StatusCode.DATA_LOSS, KvtierError),
    ],
)
async def test_a_code_has_its_exception(
    node: FakeNode, client: NodeClient, code: grpc.StatusCode, kind: type[KvtierError]
) -> None:
    """The exception's type tells the code, and everything that the node said is in it."""
    told = KvtierError(
        code, Reason.TIER_FULL, "no room", retry_after=0.25, metadata={"leases": "3"}
    )
    node.on("DeleteBlocks", fail(told))

    with pytest.raises(KvtierError) as caught:
        await client.delete(b"", [])

    assert type(caught.value) is kind
    assert caught.value.code is code
    assert caught.value.reason == Reason.TIER_FULL
    assert caught.value.message == "no room"
    assert caught.value.retry_after == 0.25
    assert caught.value.metadata == {"leases": "3", "endpoint": node.endpoint}


async def test_a_node_that_is_not_there_is_named() -> None:
    """An endpoint where nobody serves is told in words, quickly."""
    async with FakeNode() as gone:
        endpoint = gone.endpoint

    async with NodeClient(endpoint) as client:
        with pytest.raises(UnavailableError, match=f"^{endpoint} cannot be reached"):
            await client.get_node()


async def test_a_call_that_the_other_side_broke_off_may_be_tried_elsewhere(
    node: FakeNode, client: NodeClient
) -> None:
    """A node that closes ends some calls with no more than CANCELLED."""
    node.on("DeleteBlocks", fail(KvtierError(grpc.StatusCode.CANCELLED, "", "")))

    with pytest.raises(UnavailableError, match=f"{node.endpoint} broke the call off"):
        await client.delete(b"", [])


async def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """Every exception of the module is drawn in its docstring and exported."""
    kinds = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, KvtierError)
    }

    assert all(name in (module.__doc__ or "") for name in kinds)
    assert kinds <= set(package.__all__)


async def test_a_write_that_failed_is_a_connection_that_broke() -> None:
    """GRPC's word for it stands for no failure inside anything."""
    nothing = grpc.aio.Metadata()
    broken = grpc.aio.AioRpcError(
        grpc.StatusCode.INTERNAL, nothing, nothing, "Internal error from Core"
    )

    error = module.from_told(module.told_by(broken), "n:1", 1.0)

    assert isinstance(error, UnavailableError)
    assert "n:1 broke the call off; what became of it is unknown" in error.message
