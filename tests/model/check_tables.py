"""What must hold inside a tier at any time, whatever happened."""

from collections import Counter

from kvtier.server.leases import PIN
from kvtier.server.node import Node
from kvtier.server.tiers.table import DOOMED, FREE, PENDING, READY, WRITTEN
from kvtier.server.tiers.tier import Tier


def check_node(node: Node) -> None:
    """Check the tables, the counts and the leases of a node against each other."""
    uses: Counter[bytes] = Counter()
    for tier in node.tiers:
        _check_states(tier)
        _check_leases(node, tier)
        _check_index(tier)
        uses += _check_origins(tier)
    assert {space.prefix: space.uses for space in node.spaces._spaces.values()} == dict(uses)


def _check_states(tier: Tier) -> None:
    table, occupancy = tier.table, tier.occupancy
    states = Counter(table.state)
    assert occupancy.ready == states[READY]
    assert occupancy.pending == states[PENDING] + states[WRITTEN]
    assert occupancy.draining + occupancy.quarantined == states[DOOMED]
    in_use = [slot for slot, state in enumerate(table.state) if state != FREE]
    strange = tier.keeping.strange_bytes if tier.keeping else 0
    assert table.used_bytes == strange + sum(table.origin[slot].cost for slot in in_use)
    readable = [slot for slot in in_use if table.state[slot] == READY]
    assert occupancy.ready_bytes == sum(table.origin[slot].cost for slot in readable)
    if table.room is None:
        assert table.free == table.capacity - len(table) + states[FREE]
    else:
        assert table.used_bytes <= table.room.capacity_bytes
    assert len(table._free) == len(set(table._free)) == states[FREE]
    assert all(table.state[slot] == FREE for slot in table._free)
    assert not set(table.token_ids) & set(table._free), "token ids of what is gone"


def _check_leases(node: Node, tier: Tier) -> None:
    table, held = tier.table, Counter[int]()
    for lease in node.leases:
        if lease.tier is tier:
            assert len(set(lease.slots.values())) == len(lease.slots)
            held.update(lease.slots.values())
    for slot, state in enumerate(table.state):
        assert table.leases[slot] == held[slot], "no copy is under way"
        if state != READY:
            assert (state == FREE) == (not held[slot])
    leased = [slot for slot, state in enumerate(table.state) if state == READY and held[slot]]
    assert tier.occupancy.leased == len(leased)
    costs = [tier.table.origin[slot].cost for slot in leased] if tier.table.room else []
    assert tier.occupancy.leased_bytes == sum(costs)
    _check_pins(node, tier)


def _check_pins(node: Node, tier: Tier) -> None:
    mine = [lease for lease in node.leases if lease.tier is tier]
    pins = Counter(slot for lease in mine if lease.kind == PIN for slot in lease.slots.values())
    readable = {slot: n for slot, n in pins.items() if tier.table.state[slot] == READY}
    assert tier.occupancy.pins == readable
    others = [lease for lease in mine if lease.kind != PIN and lease.slots]
    oldest = min(others, key=lambda lease: lease.generation, default=None)
    assert node.leases.accounts.oldest(tier) is oldest


def _check_index(tier: Tier) -> None:
    table = tier.table
    in_use = [s for s, state in enumerate(table.state) if state in {PENDING, WRITTEN, READY}]
    assert len(table.index) == len(in_use)
    assert [table.index.get(table.key[slot]) for slot in in_use] == in_use


def _check_origins(tier: Tier) -> Counter[bytes]:
    table, occupancy = tier.table, tier.occupancy
    slots, ready, uses = Counter[int](), Counter[int](), Counter[bytes]()
    for slot, state in enumerate(table.state):
        if state != FREE:
            origin = table.origin[slot]
            slots[id(origin)] += 1
            ready[id(origin)] += state == READY
            uses[origin.space.prefix] += 1
    known = occupancy._origins.values()
    assert {id(origin): origin.slots for origin in known} == dict(slots)
    assert all(origin.ready == ready[id(origin)] for origin in known)
    return uses
