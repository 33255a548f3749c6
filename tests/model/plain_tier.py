"""One tier as the design describes it, in dicts and lists: slow, and plain to see."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tests.model.plain_arc import PlainArc
from tests.model.plain_lru import PlainLru
from tests.model.plain_parts import Batch, Block, Key, Offered, PlainLease, Refused, by_origin
from tests.model.plain_threshold import PlainThreshold

REMEMBERED_SECONDS = 300


class PlainTier:
    """The tier, its leases and its events.

    Args:
        capacity: Number of slots.
        slot_bytes: Bytes of each.
        tokens: Tokens per block.
        per_owner: Open leases of one owner.
        policy: lru or arc.
        threshold: Decides which absent blocks of an offer are stored.

    Attributes:
        now: The time.
        blocks: Blocks that are being written or readable.
        draining: Blocks that are gone and still held.
        leases: Every lease that there ever was.
        counters: What happened.
        told: The batches of events, as they were told.
    """

    def __init__(
        self,
        capacity: int,
        slot_bytes: int,
        tokens: int,
        per_owner: int,
        *,
        policy: str,
        threshold: PlainThreshold,
    ) -> None:
        self.capacity = capacity
        self.now = 0.0
        self.blocks: dict[Key, Block] = {}
        self.draining: list[Block] = []
        self.leases: list[PlainLease] = []
        self.counters: Counter[str] = Counter()
        self.told: list[Batch] = []
        self._slot_bytes = slot_bytes
        self._tokens = tokens
        self._per_owner = per_owner
        self._threshold = threshold
        self._recency: PlainLru[Block] | PlainArc[Block] = (
            PlainLru(_position) if policy == "lru" else PlainArc(capacity, _position, _key)
        )

    # Looking

    def readable(self) -> dict[Key, Block]:
        """Return the readable blocks."""
        return {key: block for key, block in self.blocks.items() if block.state == "ready"}

    def look_up(self, keys: Sequence[Key]) -> list[str]:
        """Return HIT, HIT_PENDING or MISS for each key."""
        return [
            "MISS" if key not in self.blocks else "HIT" if key in self.readable() else "HIT_PENDING"
            for key in keys
        ]

    def prefix(self, keys: Sequence[Key]) -> int:
        """Return how many keys from the first on are readable."""
        results = [*self.look_up(keys), "MISS"]
        return next(i for i, result in enumerate(results) if result != "HIT")

    def gauges(self) -> dict[str, int]:
        """Return how many slots are in each state."""
        readable = self.readable()
        return {
            "ready": len(readable),
            "pending": len(self.blocks) - len(readable),
            "leased": sum(1 for block in readable.values() if block.holders),
            "draining": len(self.draining),
        }

    def open_leases(self) -> list[PlainLease]:
        """Return the leases that have not ended."""
        return [lease for lease in self.leases if not lease.ended]

    def remembers(self, lease: PlainLease) -> bool:
        """Tell whether a lease is open, or ended not too long ago."""
        return not lease.ended or self.now < lease.ended_at + REMEMBERED_SECONDS

    def check_open(self, lease: PlainLease) -> None:
        """Refuse a lease that is not open."""
        self._check_remembered(lease)
        if lease.ended:
            raise Refused("LEASE_ENDED")

    # Time

    def expire(self) -> None:
        """End the leases whose time has come."""
        for lease in self.open_leases():
            if lease.expires <= self.now:
                self.end(lease, "expired")

    def touch(self, request_id: str, keys: Sequence[Key]) -> list[bool]:
        """Stamp what is there; tell which blocks are."""
        there = [key for key in dict.fromkeys(keys) if key in self.blocks]
        self._recency.stamp(request_id, [self.blocks[key] for key in there])
        return [key in self.blocks for key in keys]

    # Storing

    def prepare_store(
        self, lease: PlainLease, runs: Sequence[Sequence[Offered]], request_id: str
    ) -> tuple[list[str], list[Key]]:
        """Open a store lease; return the outcome of each place, and what was evicted."""
        offered = [block for run in runs for block in run]
        reasons = self._limit(lease.owner)
        reasons += ["BLOCK_TOO_LARGE" for block in offered if block.size > self._slot_bytes]
        reasons += ["BAD_REQUEST" for run in runs if self._leaves_a_gap(run[0])]
        if reasons:
            raise Refused(*reasons)
        outcomes = [self._outcome(block) for block in offered]
        first: dict[Key, int] = {}
        for place, block in enumerate(offered):
            outcomes[place] = outcomes[first.setdefault(block.key, place)]
        fresh = [place for place in first.values() if outcomes[place] == "WRITE"]
        counts = self._threshold.counts([offered[place].key for place in fresh])
        for place, block in enumerate(offered):
            if outcomes[place] == "WRITE" and not self._threshold.admits(counts[block.key]):
                outcomes[place] = "DEFERRED"
        fresh = [place for place in fresh if outcomes[place] == "WRITE"]
        evicted = self._make_room([offered[place].key for place in fresh], set(first), request_id)
        self._threshold.remember(counts)
        self.counters["deferred"] += outcomes.count("DEFERRED")
        self.counters["mismatched"] += outcomes.count("MISMATCH")
        for place in fresh:
            reserved = Block(offered[place], holders={lease.id})
            self.blocks[reserved.key] = lease.blocks[place] = reserved
        unnamed = {"MISMATCH", "DEFERRED"}
        named = [key for key, place in first.items() if outcomes[place] not in unnamed]
        self._recency.stamp(request_id, [self.blocks[key] for key in named])
        lease.aliases = {
            place: first[block.key]
            for place, block in enumerate(offered)
            if first[block.key] in fresh and first[block.key] != place
        }
        self.leases.append(lease)
        return outcomes, evicted

    def write(self, lease: PlainLease, payloads: dict[int, bytes | None]) -> dict[int, str]:
        """Write blocks of a lease, where None is spoilt bytes; return what became of each."""
        results = {}
        for place, payload in payloads.items():
            block = lease.blocks.get(place)
            if block is None:
                continue
            if block.state == "pending":
                results[place] = "CORRUPT" if payload is None else "WRITTEN"
                if payload is not None:
                    block.state, block.payload = "written", payload
            else:
                results[place] = "WRITTEN" if block.state == "written" else "ABORTED"
        return lease.everywhere(results)

    def publish(self, lease: PlainLease, places: Iterable[int]) -> None:
        """Make written blocks of a lease readable, in one batch."""
        done = [lease.blocks.pop(place) for place in places]
        for block in done:
            block.state = "ready"
            block.holders.discard(lease.id)
        self.counters["stored"] += len(done)
        if done:
            self.told.append(Batch(stored=frozenset(block.key for block in done)))

    def complete_store(self, lease: PlainLease, failed: set[int]) -> list[str]:
        """Complete a store lease; return the result of each place."""
        if lease.ended != "completed":
            self.check_open(lease)
            held = dict(lease.blocks)
            written = [p for p, b in held.items() if b.state == "written" and p not in failed]
            results = {
                place: "DELETED"
                if block.state == "gone"
                else "FAILED"
                if place in failed
                else "STORED"
                if place in written
                else "NOT_WRITTEN"
                for place, block in held.items()
            }
            self.publish(lease, written)
            self.end(lease, "completed")
            told = lease.everywhere(results)
            lease.outcome = [told.get(place, "NOT_LEASED") for place in range(lease.places)]
        self._check_remembered(lease)
        if lease.outcome is None:
            raise Refused("LEASE_ENDED")
        return lease.outcome

    # Pinning

    def prepare_load(self, lease: PlainLease, keys: Sequence[Key], request_id: str) -> list[str]:
        """Open a load lease; return the result of each place."""
        if reasons := self._limit(lease.owner):
            raise Refused(*reasons)
        results = self.look_up(keys)
        for place, key in enumerate(keys):
            if results[place] == "HIT":
                first = keys.index(key)
                lease.blocks[first] = self.blocks[key]
                if first != place:
                    lease.aliases[place] = first
        for block in lease.blocks.values():
            block.holders.add(lease.id)
        self.counters["loaded"] += len(lease.blocks)
        self.touch(request_id, keys)
        self.leases.append(lease)
        return results

    def complete_load(self, lease: PlainLease) -> None:
        """Complete a load lease."""
        if lease.ended != "completed":
            self.check_open(lease)
            self.end(lease, "completed")
        self._check_remembered(lease)

    def renew(self, lease: PlainLease, ttl: float) -> str:
        """Give a lease a new time to live; return the result."""
        result = self._lease_result(lease)
        if result == "OK":
            lease.expires = self.now + ttl
        return result

    def release(self, lease: PlainLease) -> str:
        """End a lease; return the result."""
        result = self._lease_result(lease)
        if result == "OK":
            self.end(lease, "released")
        return "OK" if result == "ENDED" and lease.ended == "released" else result

    def end(self, lease: PlainLease, how: str) -> None:
        """End a lease: what it had not published is given back, what it pinned is let go."""
        for block in lease.blocks.values():
            block.holders.discard(lease.id)
            if block.state in {"pending", "written"}:
                self._abandon(block)
        self.draining = [block for block in self.draining if block.holders]
        lease.blocks, lease.ended, lease.ended_at = {}, how, self.now

    # Removing

    def delete(self, keys: Sequence[Key], *, force: bool) -> list[str]:
        """Delete blocks; return the result of each key."""
        there = [self.blocks[key] for key in dict.fromkeys(keys) if key in self.blocks]
        busy = [] if force else [block.key for block in there if block.holders]
        going = [block for block in there if block.key not in busy]
        results = [
            "NOT_FOUND" if key not in self.blocks else "BUSY" if key in busy else "DELETED"
            for key in keys
        ]
        self.remove([block for block in going if block.state == "ready"], "DELETED")
        for block in going:
            if block.state != "gone":
                self._abandon(block)
        return results

    def clear(self, namespace: bytes, *, force: bool) -> tuple[int, int]:
        """Clear; return the number of readable blocks removed and of store leases ended."""
        going = [b for k, b in self.readable().items() if namespace in {b"", k.namespace}]
        if not force and any(block.holders for block in going):
            raise Refused("BLOCKS_LEASED")
        ending = [
            lease
            for lease in self.open_leases()
            if lease.kind == "store" and namespace in {b"", lease.namespace}
        ]
        for lease in ending:
            self.end(lease, "cleared")
        if going:
            self.told.append(Batch(cleared=(namespace,)))
            self._take_out(going)
        return len(going), len(ending)

    def remove(self, blocks: Sequence[Block], reason: str) -> None:
        """Remove readable blocks, in one batch."""
        if blocks:
            removed = tuple((reason, block.key) for block in blocks)
            self.told.append(Batch(removed=by_origin(blocks, removed)))
            self._take_out(blocks)

    # Inside

    def _take_out(self, blocks: Sequence[Block]) -> None:
        self.counters["removed"] += len(blocks)
        self._recency.forget(blocks)
        for block in blocks:
            del self.blocks[block.key]
            block.state = "gone"
        self.draining += [block for block in blocks if block.holders]

    def _abandon(self, block: Block) -> None:
        self.counters["abandoned"] += 1
        self._recency.forget([block])
        del self.blocks[block.key]
        block.state = "gone"
        self.draining += [block] if block.holders else []

    def _outcome(self, offered: Offered) -> str:
        block = self.blocks.get(offered.key)
        if block is None:
            return "WRITE"
        known = block.offered
        same_tokens = not (known.token_ids and offered.token_ids) or (
            known.token_ids == offered.token_ids
        )
        if (known.parent, known.start) != (offered.parent, offered.start) or not same_tokens:
            return "MISMATCH"
        return "PRESENT" if block.state == "ready" else "PENDING"

    def _leaves_a_gap(self, first: Offered) -> bool:
        parent = self.blocks.get(first.key._replace(block_hash=first.parent))
        return (
            bool(first.parent)
            and parent is not None
            and (parent.offered.start + self._tokens != first.start)
        )

    def _make_room(self, fresh: list[Key], members: set[Key], request_id: str) -> list[Key]:
        missing = len(fresh) - (self.capacity - len(self.blocks) - len(self.draining))

        def may_go(block: Block) -> bool:
            return block.state == "ready" and not block.holders and block.key not in members

        if missing > len(self._recency.order(may_go)):
            self.counters["refused"] += 1
            raise Refused("TIER_FULL")
        if missing <= 0:
            return []
        residents = [block for key, block in self.blocks.items() if key in members]
        victims = self._recency.evict(missing, may_go, request_id, residents, fresh)
        self.counters["evicted"] += missing
        self.remove(victims, "EVICTED")
        return [key for _, key in self.told[-1].removed]

    def _limit(self, owner: str) -> list[str]:
        held = sum(1 for lease in self.open_leases() if lease.owner == owner)
        return ["LEASE_LIMIT"] if held >= self._per_owner else []

    def _lease_result(self, lease: PlainLease) -> str:
        if not self.remembers(lease):
            return "NOT_FOUND"
        return "ENDED" if lease.ended else "OK"

    def _check_remembered(self, lease: PlainLease) -> None:
        if not self.remembers(lease):
            raise Refused("LEASE_UNKNOWN")


def _position(block: Block) -> int:
    return block.offered.start


def _key(block: Block) -> Key:
    return block.key
