"""Steps with store leases and load leases."""

from itertools import count

from hypothesis import strategies as st

from kvtier.v1 import tier_service_pb2 as pb
from kvtier.v1.result_pb2 import CompleteResult, LookupResult
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, WriteBlocksRequest
from tests.contract.support import payload, words
from tests.model.machine import RECENT, TierMachine
from tests.model.plain_parts import PlainLease, Refused
from tests.model.universe import (
    FINGERPRINTS,
    NAMESPACES,
    offers,
    places_of_namespaces,
    requests,
    sets_of,
    ttls,
)
from tests.model.uploads import Offer, Payloads, message_of, parts_of, results_of, told_of
from tests.unit.server.support import TIER


class LeaseMachine(TierMachine):
    """What a caller does by lease.

    Attributes:
        one_message: Whether a caller puts all that it writes in one call into one message. Over
            gRPC, one that sends more after the node has ended the call may lose the status.
        asked: The request that took each lease, by id.
        answers: Its answer.
        sizes: The bytes of each block of it.
    """

    one_message = False

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[bytes, pb.PrepareStoreRequest | pb.PrepareLoadRequest] = {}
        self.answers: dict[bytes, pb.PrepareStoreResponse | pb.PrepareLoadResponse] = {}
        self.sizes: dict[bytes, list[int]] = {}
        self._versions = count(1)

    def actions(self) -> list[str]:
        """Return the names of what may be done next."""
        stores, loads = (bool(self.leases(kind, open_only=True)) for kind in ("store", "load"))
        return [
            *super().actions(),
            *["store_in_steps", "store_in_steps", "prepare_store", "prepare_store"],
            *["write", "write", "complete_store"] * stores,
            *["prepare_load", "prepare_load"] * bool(self.model.readable()),
            *["read_lease", "complete_load"] * loads,
            *["repeat"] * bool(self.remembered()),
        ]

    # Storing

    def prepare_store(self, data: st.DataObject) -> None:
        """Offer blocks."""
        self.prepare(self.an_offer(data))

    def write(self, data: st.DataObject) -> None:
        """Write some blocks of a lease, some of them spoilt."""
        in_one = data.draw(st.booleans(), "in one message")
        lease = self.a_lease(data, "store")
        self.write_to(lease, self.some_payloads(data, lease), in_one=in_one)

    def complete_store(self, data: st.DataObject) -> None:
        """Complete a store lease, or try to once more."""
        lease = self.a_lease(data, "store")
        failed = data.draw(st.integers(0, 7), "all failed") == 0
        some = data.draw(st.integers(0, 2), "some failed") == 0
        places = st.sets(st.sampled_from(range(lease.places)))
        named = data.draw(places, "failed") if some else set[int]()
        self.complete(lease, named, all_failed=failed)

    def store_in_steps(self, data: st.DataObject) -> None:
        """Offer, write everything and complete."""
        lease = self.prepare(self.an_offer(data))
        if lease is not None:
            self.write_to(lease, self.all_payloads(lease), in_one=True)
            self.complete(lease, set())

    # Loading

    def prepare_load(self, data: st.DataObject) -> None:
        """Pin blocks."""
        request_id, ttl = data.draw(requests, "request"), data.draw(ttls, "ttl")
        keys = self.some_blocks(data)
        place = FINGERPRINTS.index(keys[0].namespace)
        owner = data.draw(st.sampled_from(self.alive), "owner")
        lease = self.new_lease(owner, "load", place, ttl, len(keys))
        request = pb.PrepareLoadRequest(
            tier=TIER,
            namespace=lease.namespace,
            blocks=sets_of(keys),
            lease_id=lease.id,
            owner=owner,
            request_id=request_id,
        )
        request.ttl.seconds = ttl
        answers = self.both(
            lambda: self.model.prepare_load(lease, keys, request_id),
            lambda: self.subject.call("prepare_load", request, pb.PrepareLoadResponse),
        )
        if answers is not None:
            results, answer = answers
            self.granted(lease, request, answer)
            self.sizes[lease.id] = [NAMESPACES[place].block_bytes[key.group] for key in keys]
            assert words(LookupResult, answer.results) == results

    def read_lease(self, data: st.DataObject) -> None:
        """Read the blocks of a load lease, also those that were deleted meanwhile."""
        lease = self.a_lease(data, "load")
        request = ReadBlocksRequest(lease=self.references[lease.id])

        def model() -> list[bytes | str]:
            self.model.check_open(lease)
            held = {place: b.payload or "CORRUPT" for place, b in lease.blocks.items()}
            further = {place: held[first] for place, first in lease.aliases.items()}
            return [(held | further).get(place, "MISS") for place in range(lease.places)]

        self.agree(model, lambda: self.read(request, self.sizes[lease.id]))

    def complete_load(self, data: st.DataObject) -> None:
        """Complete a load lease, or try to once more."""
        lease = self.a_lease(data, "load")
        request = pb.CompleteLoadRequest(lease=self.references[lease.id])

        def real() -> None:
            self.subject.call("complete_load", request, pb.CompleteLoadResponse)

        self.agree(lambda: self.model.complete_load(lease), real)

    # Both

    def repeat(self, data: st.DataObject) -> None:
        """Send a request once more: it gets the first answer, or an end; another one gets none."""
        other = data.draw(st.integers(0, 3), "another") == 0
        lease = data.draw(st.sampled_from(self.remembered()[-RECENT:]), "lease")
        answer = self.answers[lease.id]
        request = type(self.asked[lease.id]).FromString(self.asked[lease.id].SerializeToString())
        request.owner += "x" * other

        def model() -> object:
            if other:
                raise Refused("LEASE_REUSED")
            if lease.ended in {"expired", "cleared"}:
                raise Refused("LEASE_ENDED")
            return answer

        def real() -> object:
            return self.subject.call(f"prepare_{lease.kind}", request, type(answer))

        self.agree(model, real)

    # What the rules use

    def a_lease(self, data: st.DataObject, kind: str) -> PlainLease:
        """Draw a lease, mostly an open one if there is any."""
        still_open = self.leases(kind, open_only=True)
        ended = not still_open or data.draw(st.integers(0, 4), "any") == 0
        leases = self.leases(kind)[-RECENT:] if ended else still_open
        return data.draw(st.sampled_from(leases), "lease")

    def remembered(self) -> list[PlainLease]:
        """Return the leases that the node still knows."""
        return [lease for lease in self.leases() if self.model.remembers(lease)]

    def an_offer(self, data: st.DataObject) -> Offer:
        """Draw an offer, for a new lease."""
        place, runs = data.draw(places_of_namespaces, "namespace"), data.draw(offers, "runs")
        owner, ttl = data.draw(st.sampled_from(self.alive), "owner"), data.draw(ttls, "ttl")
        lease = self.new_lease(owner, "store", place, ttl, sum(len(run.names) for run in runs))
        request = pb.PrepareStoreRequest(
            tier=TIER,
            namespace=lease.namespace,
            runs=[run.on_the_wire(place) for run in runs],
            lease_id=lease.id,
            owner=owner,
            request_id=data.draw(requests, "request"),
        )
        request.ttl.seconds = ttl
        offer = Offer(place, runs, request, lease)
        self.sizes[lease.id] = offer.sizes
        return offer

    def prepare(self, offer: Offer) -> PlainLease | None:
        """Make an offer; return its lease, or None when it is refused."""
        answers = self.both(
            lambda: offer.put(self.model),
            lambda: self.subject.call("prepare_store", offer.request, pb.PrepareStoreResponse),
        )
        if answers is None:
            return None
        self.granted(offer.lease, offer.request, answers[1])
        assert told_of(answers[1]) == answers[0]
        return offer.lease

    def granted(
        self,
        lease: PlainLease,
        request: pb.PrepareStoreRequest | pb.PrepareLoadRequest,
        answer: pb.PrepareStoreResponse | pb.PrepareLoadResponse,
    ) -> None:
        """Remember what a lease was asked for with, and the answer."""
        assert answer.lease.id == lease.id
        self.references[lease.id] = answer.lease
        self.asked[lease.id], self.answers[lease.id] = request, answer

    def write_to(self, lease: PlainLease, payloads: Payloads, *, in_one: bool) -> None:
        """Write blocks of a lease."""
        parts = [{}, *parts_of(payloads, in_one=in_one or self.one_message)]
        messages = self.messages(
            WriteBlocksRequest(lease=self.references[lease.id]), parts, self.sizes[lease.id]
        )

        def model() -> dict[int, str]:
            self.model.check_open(lease)
            return self.model.write(lease, payloads)

        self.agree(model, lambda: results_of(self.subject.write(messages)))

    def messages(
        self, first: WriteBlocksRequest, parts: list[Payloads], sizes: list[int]
    ) -> list[WriteBlocksRequest]:
        """Return the messages of a call: the first names its target, and brings the first part."""
        brought = [message_of(part, sizes) for part in parts]
        together = len(brought) if self.one_message else 1
        for message in brought[:together]:
            first.MergeFrom(message)
        return [first, *brought[together:]]

    def complete(self, lease: PlainLease, failed: set[int], *, all_failed: bool = False) -> None:
        """Complete a store lease."""
        request = pb.CompleteStoreRequest(
            lease=self.references[lease.id], failed_blocks=sorted(failed), failed=all_failed
        )

        def real() -> list[str]:
            answer = self.subject.call("complete_store", request, pb.CompleteStoreResponse)
            return words(CompleteResult, answer.results)

        places = set(range(lease.places)) if all_failed else failed
        self.agree(lambda: self.model.complete_store(lease, places), real)

    def all_payloads(self, lease: PlainLease) -> Payloads:
        """Return new bytes for all places of an offer."""
        return {p: payload(next(self._versions), n) for p, n in enumerate(self.sizes[lease.id])}

    def some_payloads(self, data: st.DataObject, lease: PlainLease) -> Payloads:
        """Draw new bytes for some places of an offer, one of them perhaps spoilt."""
        places = range(lease.places)
        chosen = data.draw(st.sets(st.sampled_from(places)), "places")
        if self.one_message and chosen:
            chosen = set(range(min(chosen), max(chosen) + 1))
        spoilt = data.draw(st.sampled_from([None, None, *places]), "spoilt")
        payloads = self.all_payloads(lease)
        return {place: None if place == spoilt else payloads[place] for place in sorted(chosen)}
