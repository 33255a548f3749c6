"""Steps that offer, write and complete in one call."""

from hypothesis import strategies as st

from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest, WriteBlocksResponse
from tests.model.lease_actions import LeaseMachine
from tests.model.plain_parts import Key
from tests.model.uploads import (
    ModelUpload,
    Offer,
    Payloads,
    parts_of,
    results_of,
    told_of,
)


class StoreMachine(LeaseMachine):
    """Everything that a caller does."""

    def actions(self) -> list[str]:
        """Return the names of what may be done next."""
        return [*super().actions(), "store", "store", "store", "store_badly"]

    def store(self, data: st.DataObject) -> None:
        """Store all blocks, whose bytes come with the offer."""
        offer = self.an_offer(data)
        self.store_in_one_call(offer, [self.all_payloads(offer.lease)], vanish=False)

    def store_badly(self, data: st.DataObject) -> None:
        """Store some blocks, one by one, some of them spoilt; the caller may vanish."""
        vanish = data.draw(st.booleans(), "vanish")
        offer = self.an_offer(data)
        payloads = self.some_payloads(data, offer.lease)
        parts = [{}, *parts_of(payloads, in_one=self.one_message)]
        self.store_in_one_call(offer, parts, vanish=vanish)

    def store_in_one_call(self, offer: Offer, parts: list[Payloads], *, vanish: bool) -> None:
        """Make an offer with the first part of the bytes, and send the others."""
        messages = self.messages(WriteBlocksRequest(offer=offer.request), parts, offer.sizes)
        upload = ModelUpload(self.model, offer.lease)

        def model() -> tuple[tuple[list[str], list[Key]], dict[int, str]]:
            told = offer.put(self.model)
            upload.begin()
            for part in parts:
                upload.take(part)
            upload.vanish() if vanish else upload.end()
            return told, upload.results

        def real() -> list[WriteBlocksResponse]:
            told = set(upload.results) if vanish else None
            return self.subject.write(messages, vanish_after=told)

        answers = self.both(model, real)
        if answers is not None:
            (told, results), answer = answers
            self.granted(offer.lease, offer.request, answer[0].prepared)
            assert told_of(answer[0].prepared) == told
            assert results_of(answer) == results
