"""Steps that need a hand inside the node: calls left open, bytes that rot, tables to look at."""

from hypothesis import strategies as st
from hypothesis.stateful import invariant

from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, ReadTarget, WriteBlocksRequest
from tests.model.check_tables import check_node
from tests.model.plain_parts import Key, PlainLease
from tests.model.store_actions import StoreMachine
from tests.model.subject import InProcess
from tests.model.uploads import (
    ModelUpload,
    Payloads,
    message_of,
    results_of,
    told_of,
)
from tests.unit.server.support import TIER
from tests.unit.server.transferring import Upload, settle


class InProcessMachine(StoreMachine):
    """All steps, on a node whose parts the test can reach."""

    subject: InProcess

    def __init__(self) -> None:
        super().__init__()
        self.uploads: list[tuple[ModelUpload, Upload]] = []

    def new_subject(self, capacity: int) -> InProcess:
        """Return a node in this process."""
        return InProcess(self.tier_config(capacity))

    def actions(self) -> list[str]:
        """Return the names of what may be done next."""
        return [
            *super().actions(),
            *["begin_upload", "begin_upload"] * (len(self.uploads) < 2),
            *["send_to_upload", "send_to_upload", "send_to_upload"] * bool(self.uploads),
            *["end_upload", "vanish_from_upload"] * bool(self.uploads),
            *["rot"] * bool(self.model.readable()),
        ]

    def begin_upload(self, data: st.DataObject) -> None:
        """Begin a store in one call, and leave it open."""
        offer = self.an_offer(data)
        answers = self.both(
            lambda: offer.put(self.model),
            lambda: self.subject.upload(WriteBlocksRequest(offer=offer.request)),
        )
        if answers is not None:
            told, upload = answers
            self.granted(offer.lease, offer.request, upload.answers[0].prepared)
            assert told_of(upload.answers[0].prepared) == told
            expected = ModelUpload(self.model, offer.lease)
            expected.begin()
            expected.take({})
            self.keep(expected, upload)

    def send_to_upload(self, data: st.DataObject) -> None:
        """Send some blocks of an open call, perhaps such as were sent before."""
        expected, upload = self.an_upload(data)
        lease = expected.lease
        part = self.neighbours(data, lease)
        ttl = self.asked[lease.id].ttl.seconds

        def model() -> None:
            expected.check_open()
            self.model.renew(lease, ttl)
            expected.take(part)

        def real() -> None:
            self.subject.local.node.expire_leases()
            self.subject.run(upload.send(message_of(part, self.sizes[lease.id])))
            if upload.task.done():
                self.subject.run(upload.task)

        if self.both(model, real) is not None:
            assert results_of(upload.answers) == expected.results
            self.keep(expected, upload)

    def end_upload(self, data: st.DataObject) -> None:
        """End the caller's half of an open call."""
        expected, upload = self.an_upload(data)

        def real() -> None:
            self.subject.local.node.expire_leases()
            self.subject.run(upload.end())

        if self.both(expected.end, real) is not None:
            assert results_of(upload.answers) == expected.results

    def vanish_from_upload(self, data: st.DataObject) -> None:
        """Break the connection of an open call."""
        expected, upload = self.an_upload(data)

        def real() -> None:
            self.subject.local.node.expire_leases()
            self.subject.run(upload.vanish())

        self.both(expected.vanish, real)

    def rot(self, data: st.DataObject) -> None:
        """A bit of a readable block flips: the next read tells, and the block is gone."""
        self.model.expire()
        self.subject.local.node.expire_leases()
        readable = self.model.readable()
        if not readable:
            return
        key = data.draw(st.sampled_from(sorted(readable)), "key")
        self.subject.spoil(self.position_of(key))
        blocks = BlockSet(group=key.group, scope=key.scope, block_hashes=key.block_hash)
        target = ReadTarget(tier=TIER, namespace=key.namespace, blocks=[blocks])

        def model() -> list[bytes | str]:
            self.model.counters.update(loaded=1, corrupt=1)
            self.model.remove([readable[key]], "CORRUPT")
            readable[key].payload = b""
            return ["CORRUPT"]

        size = readable[key].offered.size
        self.agree(model, lambda: self.read(ReadBlocksRequest(blocks=target), [size]))

    @invariant()
    def the_tables_fit_together(self) -> None:
        """Counts, leases, index, origins and spaces agree with each other."""
        check_node(self.subject.local.node)

    def teardown(self) -> None:
        """End what is open."""
        for _, upload in self.uploads:
            self.subject.run(upload.vanish())
        super().teardown()

    def neighbours(self, data: st.DataObject, lease: PlainLease) -> Payloads:
        """Draw new bytes for a block or two of an offer, the first of them perhaps spoilt."""
        first = data.draw(st.integers(0, lease.places - 1), "place")
        last = data.draw(st.integers(first, min(first + 1, lease.places - 1)), "last place")
        spoilt = data.draw(st.integers(0, 4), "spoilt") == 0
        payloads = self.all_payloads(lease)
        return {p: None if spoilt and p == first else payloads[p] for p in range(first, last + 1)}

    def an_upload(self, data: st.DataObject) -> tuple[ModelUpload, Upload]:
        """Draw an open call, and take it out of the list."""
        return self.uploads.pop(data.draw(st.integers(0, len(self.uploads) - 1), "upload"))

    def keep(self, expected: ModelUpload, upload: Upload) -> None:
        """Put a call back unless it has ended, which both must agree on."""
        self.subject.run(settle())
        assert upload.task.done() == expected.ended
        if not expected.ended:
            self.uploads.append((expected, upload))

    def position_of(self, key: Key) -> int:
        """Return where a readable block is in the store."""
        tier, node = self.subject.local.tier, self.subject.local.node
        namespace = node.registry.get(key.namespace)
        (found,) = node.spaces.find(namespace, key.group, key.scope).keys([key.block_hash])
        slot = tier.table.index.get(found)
        assert slot is not None
        return tier.position_of(slot)
