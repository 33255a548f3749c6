"""Random steps, taken by a node and by the plain model alike."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from xxhash import xxh3_64_intdigest

from kvtier.client.chunks import Assembly
from kvtier.v1 import block_pb2
from kvtier.v1 import tier_service_pb2 as pb
from kvtier.v1.listing_pb2 import ListBlocksRequest, ListBlocksResponse
from kvtier.v1.lookup_pb2 import LookupBlocksRequest, LookupBlocksResponse
from kvtier.v1.removal_pb2 import (
    ClearTierRequest,
    ClearTierResponse,
    DeleteBlocksRequest,
    DeleteBlocksResponse,
)
from kvtier.v1.result_pb2 import DeleteResult, LeaseResult, LookupResult, ReadResult
from kvtier.v1.tier_pb2 import Block as ListedBlock
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, ReadTarget
from kvtier.wire.chunks import Chunk
from kvtier.wire.errors import KvtierError
from tests.contract.folding import Facts, Fold
from tests.contract.folding import Key as Copy
from tests.contract.support import cpu_tier, words
from tests.model.plain_parts import Block, Key, PlainLease, Refused
from tests.model.plain_threshold import PlainThreshold
from tests.model.plain_tier import PlainTier
from tests.model.subject import PER_OWNER, Subject, batch_of
from tests.model.universe import (
    FINGERPRINTS,
    NAMESPACES,
    SLOT_BYTES,
    TOKENS,
    every_key,
    keys_of,
    offers,
    places_of_namespaces,
    requests,
    sets_of,
    ttls,
)
from tests.unit.server.support import TIER

T = TypeVar("T")
R = TypeVar("R")
OWNERS = ("e1", "e2", "e3")
RECENT = 6


class TierMachine(RuleBasedStateMachine):
    """The steps that need no bytes moved, and what must hold after every step.

    Attributes:
        subject: The node.
        model: The model.
        alive: Owners that still act.
        references: The lease of each answer, by id.
    """

    policy = "lru"
    # From which offer on a block is stored, and how many keys are remembered for it.
    threshold = (1, 1)
    subject: Subject
    model: PlainTier

    def __init__(self) -> None:
        super().__init__()
        self.alive = list(OWNERS)
        self.references: dict[bytes, block_pb2.Lease] = {}
        self._ids = count(1)
        self._fold = Fold()
        self._compared = 0

    def new_subject(self, capacity: int) -> Subject:
        """Return a new node with a tier of so many blocks."""
        raise NotImplementedError

    def tier_config(self, capacity: int) -> dict[str, object]:
        """Return the configuration of the tier."""
        offers, tracked = self.threshold
        threshold: dict[str, Any] = {"store_threshold": offers}
        if offers > 1:
            threshold["store_tracker"] = tracked
        return cpu_tier(
            0,
            capacity=capacity * SLOT_BYTES,
            slot_bytes=SLOT_BYTES,
            policy=self.policy,
            **threshold,
        )

    @initialize(capacity=st.sampled_from([6, 0, 3, 5, 8, 10]), data=st.data())
    def start(self, capacity: int, data: st.DataObject) -> None:
        """Start with some blocks in the tier."""
        self.subject = self.new_subject(capacity)
        self.model = PlainTier(
            capacity,
            SLOT_BYTES,
            TOKENS,
            PER_OWNER,
            policy=self.policy,
            threshold=PlainThreshold(*self.threshold),
        )
        for _ in range(data.draw(st.integers(0, 3), "offers at the start")):
            self.store_in_steps(data)

    def store_in_steps(self, data: st.DataObject) -> None:
        """Offer, write everything and complete."""
        raise NotImplementedError

    def teardown(self) -> None:
        """End the node."""
        if hasattr(self, "subject"):
            self.subject.close()

    # What the rules use

    def new_lease(self, owner: str, kind: str, place: int, ttl: float, places: int) -> PlainLease:
        """Return a lease with a new id, which is not open yet."""
        lease_id = next(self._ids).to_bytes(16, "big")
        expires = self.model.now + ttl
        return PlainLease(lease_id, owner, kind, FINGERPRINTS[place], expires, places)

    def both(self, model: Callable[[], T], real: Callable[[], R]) -> tuple[T, R] | None:
        """Take a step in both; return both answers, or None when both refuse for like reasons."""
        self.model.expire()
        try:
            expected = model()
        except Refused as refused:
            reasons = refused.reasons
        else:
            return expected, real()
        with pytest.raises(KvtierError) as error:
            real()
        assert error.value.reason in reasons, f"{error.value} ({error.value.code})"
        return None

    def agree(self, model: Callable[[], T], real: Callable[[], T]) -> bool:
        """Take a step in both, and expect equal answers; tell whether there were any."""
        answers = self.both(model, real)
        if answers is not None:
            assert answers[0] == answers[1]
        return answers is not None

    def leases(self, kind: str = "", *, open_only: bool = False) -> list[PlainLease]:
        """Return the leases of owners that still act."""
        return [
            lease
            for lease in self.model.leases
            if lease.owner in self.alive
            and kind in {"", lease.kind}
            and not (open_only and lease.ended)
        ]

    def some_blocks(self, data: st.DataObject) -> list[Key]:
        """Draw blocks of one namespace to name in a request, mostly such as are there."""
        there = sorted(self.model.blocks)
        writing = [key for key in there if self.model.blocks[key].state != "ready"]
        absent = data.draw(st.integers(0, 3), "absent ones") == 0
        if absent or not there:
            place: int = data.draw(places_of_namespaces, "namespace")
            return keys_of(place, data.draw(offers, "blocks"))
        first: Key = data.draw(st.sampled_from(there + writing), "block")
        same = [key for key in there if key.namespace == first.namespace]
        return [first, *data.draw(st.lists(st.sampled_from(same), max_size=4), "more blocks")]

    def actions(self) -> list[str]:
        """Return the names of what may be done next; what is likelier is there more often."""
        return [
            *["wait", "release_owner"],
            *["touch", "delete", "delete"] * bool(self.model.blocks),
            *["clear"] * (len(self.model.blocks) > 2),
            *["renew", "release"] * bool(self.leases(open_only=True)),
            *["die"] * (len(self.alive) > 1),
        ]

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Do one thing of those that may be done."""
        getattr(self, data.draw(st.sampled_from(self.actions()), "action"))(data)

    # Actions

    def wait(self, data: st.DataObject) -> None:
        """Let time pass; after five minutes an ended lease is not remembered."""
        seconds = data.draw(st.sampled_from([0.5, 0.5, 0.5, 0.5, 31, 301]), "seconds")
        self.subject.advance(seconds)
        self.model.now += seconds

    def die(self, data: st.DataObject) -> None:
        """An owner acts no more, once in a while."""
        if data.draw(st.integers(0, 7), "luck") == 0:
            self.alive.remove(data.draw(st.sampled_from(self.alive), "owner"))

    def touch(self, data: st.DataObject) -> None:
        """Touch blocks."""
        keys, request_id = self.some_blocks(data), data.draw(requests, "request")
        request = pb.TouchBlocksRequest(
            namespace=keys[0].namespace, blocks=sets_of(keys), request_id=request_id
        )

        def real() -> list[bool]:
            answer = self.subject.call("touch_blocks", request, pb.TouchBlocksResponse)
            return [bool(mask) for mask in answer.tier_masks]

        self.agree(lambda: self.model.touch(request_id, keys), real)

    def delete(self, data: st.DataObject) -> None:
        """Delete blocks."""
        keys, force = self.some_blocks(data), data.draw(st.booleans(), "force")
        request = DeleteBlocksRequest(
            namespace=keys[0].namespace, blocks=sets_of(keys), force=force
        )

        def real() -> list[str]:
            answer = self.subject.call("delete_blocks", request, DeleteBlocksResponse)
            return words(DeleteResult, answer.tiers[0].results)

        self.agree(lambda: self.model.delete(keys, force=force), real)

    def clear(self, data: st.DataObject) -> None:
        """Clear the tier, or one namespace of it."""
        namespace = data.draw(st.sampled_from([b"", *FINGERPRINTS]), "namespace")
        force = data.draw(st.booleans(), "force")
        request = ClearTierRequest(tier=TIER, namespace=namespace, force=force)

        def real() -> tuple[int, int]:
            answer = self.subject.call("clear_tier", request, ClearTierResponse)
            return answer.removed_blocks, answer.ended_leases

        self.agree(lambda: self.model.clear(namespace, force=force), real)

    def renew(self, data: st.DataObject) -> None:
        """Renew some leases, open or not."""
        leases, ttl = self._some_leases(data), data.draw(ttls, "ttl")
        request = pb.RenewLeasesRequest(leases=[self.references[each.id] for each in leases])
        request.ttl.seconds = ttl

        def real() -> list[str]:
            answer = self.subject.call("renew_leases", request, pb.RenewLeasesResponse)
            return words(LeaseResult, answer.results)

        self.agree(lambda: [self.model.renew(each, ttl) for each in leases], real)

    def release(self, data: st.DataObject) -> None:
        """Release some leases, open or not."""
        leases = self._some_leases(data)
        request = pb.ReleaseLeasesRequest(leases=[self.references[each.id] for each in leases])

        def real() -> list[str]:
            answer = self.subject.call("release_leases", request, pb.ReleaseLeasesResponse)
            return words(LeaseResult, answer.results)

        self.agree(lambda: [self.model.release(each) for each in leases], real)

    def release_owner(self, data: st.DataObject) -> None:
        """Release all leases of an owner, who may be dead."""
        owner = data.draw(st.sampled_from(OWNERS), "owner")
        request = pb.ReleaseLeasesRequest(owner=owner)

        def model() -> int:
            theirs = [each for each in self.model.open_leases() if each.owner == owner]
            return sum(self.model.release(each) == "OK" for each in theirs)

        def real() -> int:
            answer = self.subject.call("release_leases", request, pb.ReleaseLeasesResponse)
            return answer.owner_leases

        self.agree(model, real)

    # What must hold after every step

    @invariant()
    def node_and_model_agree(self) -> None:
        """Events, listing, bytes and counts are those of the model."""
        self.check_events()
        self.check_listing()
        self.check_bytes()
        self.check_lookups()
        self.check_counts()

    def check_events(self) -> None:
        """Batch by batch, and a tier never shows more blocks than it has slots."""
        told = []
        for message in self.subject.events():
            self._fold.apply(message)
            told += [batch_of(batch) for batch in message.batches.batches]
        assert told == self.model.told[self._compared :]
        self._compared = len(self.model.told)
        assert self._fold.most[TIER] <= self.model.capacity

    def check_listing(self) -> None:
        """A follower sees what the listing shows, which is what the model holds."""
        held = {_copy(key): block for key, block in self.model.readable().items()}
        listing = self._listing()
        assert len(listing) == len(held)
        assert {_copy_of(block): _listed(block) for block in listing} == {
            copy: _expected(block) for copy, block in held.items()
        }
        assert self._fold.view == {copy: _facts(block) for copy, block in held.items()}
        assert self._fold.tokens == {
            copy: block.offered.token_ids for copy, block in held.items() if block.offered.token_ids
        }

    def check_bytes(self) -> None:
        """What is readable is read, byte for byte."""
        for place, fingerprint in enumerate(FINGERPRINTS):
            blocks = [b for k, b in self.model.readable().items() if k.namespace == fingerprint]
            if blocks:
                sets = sets_of([block.key for block in blocks])
                target = ReadTarget(tier=TIER, namespace=fingerprint, blocks=sets)
                sizes = [NAMESPACES[place].block_bytes[block.key.group] for block in blocks]
                read = self.read(ReadBlocksRequest(blocks=target), sizes)
                assert read == [block.payload for block in blocks]
                self.model.counters["loaded"] += len(blocks)

    def check_lookups(self) -> None:
        """Every block of the spaces that hold some is looked up as the model has it."""
        for space in {key[:3] for key in self.model.blocks}:
            keys = every_key(*space)
            request = LookupBlocksRequest(
                namespace=space[0], chains=sets_of(keys), include_blocks=True
            )
            answer = self.subject.call("lookup_blocks", request, LookupBlocksResponse)
            (chain,) = answer.chains
            prefix = self.model.prefix(keys)
            assert words(LookupResult, chain.results) == self.model.look_up(keys)
            assert [*chain.prefix_lengths, chain.union_prefix_length] == [prefix, prefix]

    def check_counts(self) -> None:
        """Gauges and counters are those of the model."""
        (tier,) = self.subject.call("list_tiers", pb.ListTiersRequest(), pb.ListTiersResponse).tiers
        gauges = {name: getattr(tier, f"{name}_blocks") for name in self.model.gauges()}
        assert gauges == self.model.gauges()
        assert tier.capacity_blocks == self.model.capacity
        counters = {field.name: value for field, value in tier.counters.ListFields()}
        assert counters == {name: n for name, n in self.model.counters.items() if n}

    # Inside

    def read(self, request: ReadBlocksRequest, sizes: Sequence[int]) -> list[bytes | str]:
        """Read blocks; return the bytes of each, or why there are none."""
        assembly = Assembly(sizes)
        for answer in self.subject.read(request):
            assembly.skip(answer.block_indexes, answer.results)
            assembly.add(Chunk(answer.block_index, answer.offset, answer.checksums, answer.data))
        assembly.end()
        return [
            words(ReadResult, [result])[0] if payload is None else payload
            for payload, result in zip(assembly.payloads, assembly.results, strict=True)
        ]

    def _some_leases(self, data: st.DataObject) -> list[PlainLease]:
        leases = st.lists(st.sampled_from(self.leases()[-RECENT:]), min_size=1, max_size=3)
        return data.draw(leases, "leases")

    def _listing(self) -> list[ListedBlock]:
        # By the node's clock leases may have expired that the model still counts as open.
        self.model.expire()
        found: list[ListedBlock] = []
        token = b""
        while True:
            request = ListBlocksRequest(page_size=2, page_token=token)
            page = self.subject.call("list_blocks", request, ListBlocksResponse)
            found += page.blocks
            token = page.next_page_token
            if not token:
                return found


def _copy(key: Key) -> Copy:
    return Copy(TIER, *key)


def _facts(block: Block) -> Facts:
    return Facts(block.offered.parent, block.offered.start, block.offered.adapter)


def _copy_of(block: ListedBlock) -> Copy:
    return Copy(block.tier, block.namespace, block.group, block.scope, block.block_hash)


def _listed(block: ListedBlock) -> tuple[object, ...]:
    facts = Facts(block.parent_block_hash, block.start_position, block.adapter_name)
    return facts, block.size_bytes, block.checksum, block.leases


def _expected(block: Block) -> tuple[object, ...]:
    checksum = xxh3_64_intdigest(block.payload)
    return _facts(block), block.offered.size, checksum, len(block.holders)
