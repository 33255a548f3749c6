"""Offers and the bytes of their blocks, in the words of the wire and of the model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xxhash import xxh3_64_intdigest

from kvtier.v1.result_pb2 import StoreOutcome, WriteResult
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
    PrepareStoreResponse,
)
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest, WriteBlocksResponse
from kvtier.wire.hashes import split_hashes
from tests.contract.support import words
from tests.model.plain_parts import Key, PlainLease, Refused
from tests.model.plain_tier import PlainTier
from tests.model.universe import NAMESPACES, WIDTHS, Run

# The bytes to write by place; None stands for bytes that do not match their checksum.
Payloads = dict[int, bytes | None]


@dataclass(frozen=True)
class Offer:
    """An offer, and the lease that it asks for."""

    place: int
    runs: Sequence[Run]
    request: PrepareStoreRequest
    lease: PlainLease

    def put(self, model: PlainTier) -> tuple[list[str], list[Key]]:
        """Make the offer to the model; return the outcomes and what was evicted."""
        runs = [run.in_the_model(self.place) for run in self.runs]
        return model.prepare_store(self.lease, runs, self.request.request_id)

    @property
    def sizes(self) -> list[int]:
        """The bytes of each block."""
        described = NAMESPACES[self.place]
        return [described.block_bytes[run.group] for run in self.runs for _ in run.names]


def told_of(answer: PrepareStoreResponse) -> tuple[list[str], list[Key]]:
    """Return the outcomes that an answer tells, and what was evicted."""
    return words(StoreOutcome, answer.outcomes), evicted_keys(answer)


def evicted_keys(answer: PrepareStoreResponse) -> list[Key]:
    """Return what an offer evicted."""
    return [
        Key(each.namespace, each.blocks.group, each.blocks.scope, block_hash)
        for each in answer.evicted
        for block_hash in split_hashes(each.blocks.block_hashes, WIDTHS[each.namespace])
    ]


def parts_of(payloads: Payloads, *, in_one: bool) -> list[Payloads]:
    """Return which blocks travel together: neighbours, or each alone."""
    parts: list[Payloads] = []
    for place, payload in payloads.items():
        if not in_one or not parts or place - 1 not in parts[-1]:
            parts.append({})
        parts[-1][place] = payload
    return parts


def message_of(part: Payloads, sizes: Sequence[int]) -> WriteBlocksRequest:
    """Return the message with some neighbouring blocks, or with none."""
    blocks = [bytes(sizes[place]) if data is None else data for place, data in part.items()]
    spoilt = [data is None for data in part.values()]
    return WriteBlocksRequest(
        block_index=min(part, default=0),
        checksums=[xxh3_64_intdigest(b) ^ bad for b, bad in zip(blocks, spoilt, strict=True)],
        data=b"".join(blocks),
    )


def results_of(answers: Iterable[WriteBlocksResponse]) -> dict[int, str]:
    """Return the last result of each place that was told."""
    return {
        place: result
        for answer in answers
        for place, result in zip(
            answer.block_indexes, words(WriteResult, answer.results), strict=True
        )
    }


class ModelUpload:
    """A store in one call, as the model takes it.

    Attributes:
        lease: The lease of the offer.
        results: The result of each place so far.
        ended: Whether the node has ended the call.
    """

    def __init__(self, model: PlainTier, lease: PlainLease) -> None:
        self.lease = lease
        self.results: dict[int, str] = {}
        self.ended = False
        self._model = model
        self._wanted: set[int] = set()

    def begin(self) -> None:
        """Note what is wanted, once the offer was taken."""
        self._wanted = set(self.lease.blocks)

    def check_open(self) -> None:
        """Refuse what comes after the lease has ended, however long ago."""
        if self.lease.ended:
            raise Refused("LEASE_ENDED")

    def take(self, part: Payloads) -> None:
        """Write and publish the blocks of one message."""
        if self.ended:
            return
        told = self._model.write(self.lease, part)
        whole = [place for place, result in told.items() if result == "WRITTEN"]
        self._model.publish(self.lease, [place for place in whole if place in self.lease.blocks])
        self.results |= told | dict.fromkeys(whole, "STORED")
        if self._wanted <= set(self.results):
            self.end()

    def end(self) -> None:
        """Give back what did not come, once the caller has ended its half."""
        if self.ended:
            return
        if not self._wanted <= set(self.results):
            self.check_open()
        left = {
            place: "ABORTED" if block.state == "gone" else "INCOMPLETE"
            for place, block in self.lease.blocks.items()
            if place not in self.results
        }
        self.results |= self.lease.everywhere(left)
        self._leave("completed")

    def vanish(self) -> None:
        """Give back what did not come, once the caller has gone."""
        self._leave("released")

    def _leave(self, how: str) -> None:
        if not self.ended and not self.lease.ended:
            self._model.end(self.lease, how)
        self.ended = True
