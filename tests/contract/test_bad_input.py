"""Every RPC answers every bad value with a clear status, and is left exactly as it was.

The RPCs, their fields and the bad values come from the descriptors: an RPC or a field that is new
needs a good request in `good_requests`, from which its bad ones are made.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from itertools import chain, islice
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor

from kvtier.wire.errors import KvtierError, Reason
from tests.waiting import until

from .conftest import Serve
from .damage import Bad, damaged, fields_that_are_set
from .good_requests import GOOD
from .harmless import is_harmless
from .lease_stream import error_in
from .scene import NEW_LEASE, Scene, serve_scene, set_scene
from .support import blocks_of, payloads
from .wire import METHODS, Outcome, Wire, wire

REFUSALS = {
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "FAILED_PRECONDITION",
    "RESOURCE_EXHAUSTED",
    "ABORTED",
    "PERMISSION_DENIED",
}
REASONS = {reason.value for reason in Reason} - {Reason.INTERNAL}
UNPARSABLE = {"claims more than comes", "endless number", "not UTF-8"}
# What a refusal may speak of in place of a field's name.
ALIASES = {"media": "medium", "from_tier": "tier", "to_tier": "tier"} | dict.fromkeys(
    ("block_index", "block_hash", "block_hashes", "data", "offset"), "block"
)
ENDLESS = "EventService.WatchEvents"
MANY_CALLS = "TransferService.LeaseBlocks"

every_rpc = pytest.mark.parametrize("rpc", METHODS)


async def call(raw: Wire, rpc: str, *requests: bytes) -> Outcome:
    """Call an RPC with a lease id of its own, and read all that it answers."""
    new = os.urandom(len(NEW_LEASE))
    sent = [request.replace(NEW_LEASE, new) for request in requests]
    outcome = await raw.call(METHODS[rpc], *sent, answers=1 if rpc == ENDLESS else None)
    if rpc == MANY_CALLS:
        # A refused call is an answer there, and does not end the stream.
        outcome.error = outcome.error or error_in(outcome.answers)
    return outcome


async def at_rest(scene: Scene) -> None:
    """Wait until the node has noticed that the calls are over."""
    node = scene.node.node
    await until(lambda: not node.followers and not node.transfers)


async def set_again(serve: Serve, scene: Scene) -> Scene:
    """Set the scene anew once nothing is left of it: elsewhere, when its node was drained."""
    if scene.node.node.closing:
        return await serve_scene(serve)
    await scene.strike()
    return await set_scene(scene.node)


def good_calls(scene: Scene, rpc: str) -> list[list[bytes]]:
    return [[each.SerializeToString() for each in messages] for messages in GOOD[rpc](scene)]


def bad_requests(scene: Scene, rpc: str) -> Iterator[tuple[list[bytes], Bad]]:
    """Yield bad messages of a call, each with the good ones that go before it."""
    for messages in GOOD[rpc](scene):
        first = [each.SerializeToString() for each in messages[:-1]]
        for bad in damaged(messages[-1]):
            yield first, bad


def fields_of(message: Descriptor) -> Iterator[str]:
    fields: Any = message.fields
    for field in fields:
        yield f"{message.name}.{field.name}"
        if field.message_type is not None:
            yield from fields_of(field.message_type)


def problem(rpc: str, bad: Bad, outcome: Outcome) -> str:
    """Return what is wrong with how a bad request was answered; nothing if it is fine."""
    error, message = outcome.error, METHODS[rpc].input_type
    if error is None:
        return "" if is_harmless(message.name, bad) else "was accepted"
    if error.code.name not in REFUSALS:
        return f"was answered {error.code.name}"
    if error.reason not in REASONS:
        return f"has the reason {error.reason!r}"
    if error.code.name == "RESOURCE_EXHAUSTED" and not error.retry_after:
        return "is not told when to try again"
    if not names_it(bad, error, message):
        return f"is not named in {error.message!r}"
    return ""


def names_it(bad: Bad, error: KvtierError, message: Descriptor) -> bool:
    """Tell whether a refusal says what it is about."""
    if bad.kind in UNPARSABLE:
        return message.name in error.message
    names = list(bad.path)
    if bad.kind == "empty":
        names += [name.partition(".")[2] for name in fields_of(message)]
    told = error.message.replace("_", " ")
    words = [ALIASES.get(n, n).removesuffix("s").replace("_", " ") for n in names]
    return not bad.path or any(word in told for word in words)


def test_every_rpc_has_good_requests() -> None:
    """Whoever adds an RPC says here how it is called well."""
    assert set(GOOD) == set(METHODS)


@every_rpc
async def test_good_requests_set_every_field_and_are_accepted(serve: Serve, rpc: str) -> None:
    """What the bad requests are made from is complete, and good."""
    scene = await serve_scene(serve)
    messages = chain.from_iterable(GOOD[rpc](scene))
    fields = set(chain.from_iterable(map(fields_that_are_set, messages)))
    assert fields == set(fields_of(METHODS[rpc].input_type))

    async with wire(scene.node.endpoint) as raw:
        for place in range(len(GOOD[rpc](scene))):
            outcome = await call(raw, rpc, *good_calls(scene, rpc)[place])

            assert outcome.code == "OK"
            await at_rest(scene)
            scene = await set_again(serve, scene)


@every_rpc
async def test_bad_requests_are_refused_and_change_nothing(serve: Serve, rpc: str) -> None:
    """No block, lease, space, event or call is left; what is odd but harmless leaks nothing."""
    scene = await serve_scene(serve)
    before, requests, tried = scene.state(), bad_requests(scene, rpc), 0
    problems: list[str] = []
    async with wire(scene.node.endpoint) as raw:
        while request := next(requests, None):
            tried += 1
            first, bad = request
            outcome = await call(raw, rpc, *first, bad.data)
            await at_rest(scene)
            wrong = problem(rpc, bad, outcome)
            changed = scene.state() != before
            if changed:
                wrong += " and changed the node" if outcome.error else ""
                scene = await set_again(serve, scene)
                before, requests = scene.state(), islice(bad_requests(scene, rpc), tried, None)
            if wrong:
                problems.append(f"{bad} {wrong}")

    assert problems == []
    await scene.strike()
    await scene.node.store(1, 2)
    loaded = await scene.node.client.load("cpu0", scene.node.namespace, [blocks_of(1, 2)])
    assert list(loaded.payloads) == payloads(1, 2)


@every_rpc
async def test_a_call_without_a_request_is_answered(serve: Serve, rpc: str) -> None:
    """A caller that ends its half before it said anything is told so, not left to wait."""
    scene = await serve_scene(serve)
    before = scene.state()
    async with wire(scene.node.endpoint) as raw:
        outcome = await call(raw, rpc)

    assert (outcome.code, outcome.error and outcome.error.reason) == (
        "INVALID_ARGUMENT",
        Reason.BAD_REQUEST,
    )
    assert scene.state() == before


@every_rpc
async def test_a_message_beyond_the_limit_is_refused(serve: Serve, rpc: str) -> None:
    """GRPC itself refuses what is larger than the node said it takes, naming both sizes."""
    scene = await serve_scene(serve, limits={"message_bytes": "4MiB"})
    before = scene.state()
    async with wire(scene.node.endpoint) as raw:
        outcome = await call(raw, rpc, bytes(5 << 20))

    assert outcome.code == "RESOURCE_EXHAUSTED"
    assert str(4 << 20) in str(outcome.error)
    assert scene.state() == before


async def beginning(first: bytes) -> AsyncIterator[bytes]:
    """Send one message, or none, and then nothing more."""
    if first:
        yield first
    await asyncio.Event().wait()


STREAMING = [rpc for rpc, m in METHODS.items() if m.client_streaming or m.server_streaming]


@pytest.mark.parametrize("how", ["cancel", "close the connection"])
@pytest.mark.parametrize("rpc", STREAMING)
async def test_a_client_that_vanishes_leaves_nothing(serve: Serve, rpc: str, how: str) -> None:
    """Whatever a stream held is given back when its client is gone, without a word or with one."""
    scene = await serve_scene(serve)
    node = scene.node.node
    for messages in good_calls(scene, rpc):
        async with wire(scene.node.endpoint) as raw:
            whole = messages[0].replace(NEW_LEASE, os.urandom(16))
            calls = [
                raw.open(METHODS[rpc], beginning(whole[:length]))
                for length in (len(whole), len(whole) // 2, 0)
            ]
            await asyncio.sleep(0.05)
            for each in calls if how == "cancel" else ():
                each.cancel()
        await at_rest(scene)
        assert len(node.leases) == 3
        assert [tier.occupancy.pending for tier in node.tiers] == [0, 1]

    await scene.strike()
