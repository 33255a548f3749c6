"""Clients of other makes move blocks: the streams are plain protobuf over plain gRPC."""

import asyncio
import base64
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from xxhash import xxh3_64_intdigest

from kvtier.v1.result_pb2 import WriteResult
from kvtier.v1.tier_service_pb2 import PrepareStoreRequest
from kvtier.v1.transfer_service_pb2 import (
    ReadBlocksRequest,
    ReadBlocksResponse,
    ReadTarget,
    WriteBlocksRequest,
    WriteBlocksResponse,
)
from kvtier.v1.transfer_service_pb2_grpc import TransferServiceStub
from kvtier.wire.framing import bytes_field

from .conftest import Serve
from .support import Serving, blocks_of, namespace, payload, run, words
from .wire import METHODS, wire

ROOT = Path(__file__).parents[2]
BUF = Path(sys.executable).parent / "buf"
SIZE = 2_500_001
NAMES = ("a", "b", "c")
TIER = {"name": "cpu0", "medium": "cpu", "capacity": 8 * SIZE, "slot_bytes": SIZE}


def requests(fingerprint: bytes, chunk: int) -> Iterator[WriteBlocksRequest]:
    """The messages of a store, cut so that blocks begin and end within them."""
    offer = PrepareStoreRequest(
        tier="cpu0",
        namespace=fingerprint,
        runs=[run(*NAMES)],
        lease_id=os.urandom(16),
        owner="another",
    )
    yield WriteBlocksRequest(offer=offer)
    stream = b"".join(payload(name, SIZE) for name in NAMES)
    for start in range(0, len(stream), chunk):
        ends = [i for i in range(1, len(NAMES) + 1) if start < i * SIZE <= start + chunk]
        yield WriteBlocksRequest(
            block_index=start // SIZE,
            offset=start % SIZE,
            checksums=[xxh3_64_intdigest(payload(NAMES[i - 1], SIZE)) for i in ends],
            data=stream[start : start + chunk],
        )


def joined(answers: list[ReadBlocksResponse]) -> list[bytes]:
    """The blocks of a read, put together as the proto file tells it, each with its checksum."""
    stream = b"".join(answer.data for answer in answers)
    blocks = [stream[start : start + SIZE] for start in range(0, len(stream), SIZE)]
    sums = [checksum for answer in answers for checksum in answer.checksums]
    assert [xxh3_64_intdigest(block) for block in blocks] == sums
    return blocks


def read_request(fingerprint: bytes) -> ReadBlocksRequest:
    target = ReadTarget(tier="cpu0", namespace=fingerprint, blocks=[blocks_of(*NAMES)])
    return ReadBlocksRequest(blocks=target)


def told(answers: list[WriteBlocksResponse]) -> dict[int, str]:
    """What became of each block, by place."""
    return {
        place: result
        for answer in answers
        for place, result in zip(
            answer.block_indexes, words(WriteResult, answer.results), strict=True
        )
    }


async def large_node(serve: Serve) -> tuple[Serving, bytes]:
    node = await serve(TIER)
    large = await node.client.register_namespace(namespace("large", block_bytes=[SIZE]))
    return node, large


@pytest.mark.parametrize("chunk", [300_000, 1 << 20, 3_000_000])
async def test_generated_classes_are_enough(serve: Serve, chunk: int) -> None:
    """Grpc's own stub, with its defaults, stores blocks and reads them back."""
    node, large = await large_node(serve)
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        stub = TransferServiceStub(channel)

        async def messages() -> AsyncIterator[WriteBlocksRequest]:
            for message in requests(large, chunk):
                yield message

        written = [answer async for answer in stub.WriteBlocks(messages())]
        read = [answer async for answer in stub.ReadBlocks(read_request(large))]

    assert told(written) == dict.fromkeys(range(3), "STORED")
    assert joined(read) == [payload(name, SIZE) for name in NAMES]
    loaded = await node.client.load("cpu0", large, [blocks_of(*NAMES)])
    assert list(loaded.payloads) == [payload(name, SIZE) for name in NAMES]


async def buf_curl(endpoint: str, method: str, *messages: Message) -> list[dict[str, object]]:
    """Make a call by buf, which is written in Go, and return its answers as they are in JSON."""
    sent = "\n".join(json.dumps(MessageToDict(message)) for message in messages)
    process = await asyncio.create_subprocess_exec(
        *(BUF, "curl", "--schema", "protos", "--protocol", "grpc", "--data", "@-"),
        f"http://{endpoint}/kvtier.v1.TransferService/{method}",
        cwd=ROOT,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await process.communicate(sent.encode())
    assert process.returncode == 0, err.decode()
    decoder, text, answers = json.JSONDecoder(), out.decode().strip(), []
    while text:
        answer, end = decoder.raw_decode(text)
        answers.append(answer)
        text = text[end:].lstrip()
    return answers


@pytest.mark.slow
async def test_a_client_in_go_moves_blocks(serve: Serve) -> None:
    """Buf curl, which has only the proto files, stores blocks and reads them back."""
    node, large = await large_node(serve)

    written = await buf_curl(node.endpoint, "WriteBlocks", *requests(large, 1 << 20))
    read = await buf_curl(node.endpoint, "ReadBlocks", read_request(large))

    results = [result for answer in written for result in answer.get("results", [])]  # type: ignore[attr-defined]
    assert results == ["WRITE_RESULT_STORED"] * 3
    stream = b"".join(base64.b64decode(str(answer.get("data", ""))) for answer in read)
    assert stream == b"".join(payload(name, SIZE) for name in NAMES)


def data_first(message: WriteBlocksRequest) -> bytes:
    """A message with its fields the other way round, and one that nobody knows."""
    head = WriteBlocksRequest()
    head.CopyFrom(message)
    head.ClearField("data")
    data = WriteBlocksRequest(data=message.data).SerializeToString()
    return data + bytes_field(2000, b"unknown") + head.SerializeToString()


def data_twice(message: WriteBlocksRequest) -> bytes:
    """A message with other data before its data, which is as if that were not there."""
    return WriteBlocksRequest(data=b"?" * 99).SerializeToString() + message.SerializeToString()


@pytest.mark.parametrize("encode", [data_first, data_twice])
async def test_any_valid_encoding_is_understood(
    serve: Serve, encode: Callable[[WriteBlocksRequest], bytes]
) -> None:
    """The order of fields is the writer's business, and the last of two values holds."""
    node, large = await large_node(serve)
    async with wire(node.endpoint) as raw:
        offer, *chunks = requests(large, 1 << 20)
        sent = [encode(message) for message in chunks]
        outcome = await raw.call(METHODS["TransferService.WriteBlocks"], offer, *sent)

    answers = [WriteBlocksResponse.FromString(answer) for answer in outcome.answers]
    assert told(answers) == dict.fromkeys(range(3), "STORED")
    loaded = await node.client.load("cpu0", large, [blocks_of(*NAMES)])
    assert list(loaded.payloads) == [payload(name, SIZE) for name in NAMES]


async def test_parts_of_blocks_may_alternate(serve: Serve) -> None:
    """Blocks are under way together, each in order; a wrong checksum costs only its own."""
    node, large = await large_node(serve)
    offer, *_ = requests(large, 1 << 20)
    half = SIZE // 2
    parts = [(place, start) for start in (0, half) for place in (2, 0, 1)]
    messages = [
        WriteBlocksRequest(
            block_index=place,
            offset=start,
            checksums=[xxh3_64_intdigest(payload(NAMES[place], SIZE)) ^ (place == 0)]
            if start
            else [],
            data=payload(NAMES[place], SIZE)[start : SIZE if start else half],
        )
        for place, start in parts
    ]

    async with wire(node.endpoint) as raw:
        outcome = await raw.call(METHODS["TransferService.WriteBlocks"], offer, *messages)

    answers = [WriteBlocksResponse.FromString(answer) for answer in outcome.answers]
    assert told(answers) == {0: "CORRUPT", 1: "STORED", 2: "STORED"}
    loaded = await node.client.load("cpu0", large, [blocks_of(*NAMES)])
    assert list(loaded.payloads) == [None, payload("b", SIZE), payload("c", SIZE)]
