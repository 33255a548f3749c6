"""What tiers hold, find, take and give away."""

from tools.pages.dashboard.panel import (
    NODE,
    OF_NODE,
    OF_TIER,
    TIER,
    busy,
    graph,
    named,
    of_tier,
    rate,
    tier_rate,
)

_HITS = f"sum by (job, instance) (rate(kvtier_tier_hits_total{{{NODE}}}[$__rate_interval]))"
_MISSES = f"sum by (job, instance) (rate(kvtier_misses_total{{{NODE}}}[$__rate_interval]))"
_FOUND = named(
    f"sum by (job, instance, tier) (rate(kvtier_tier_hits_total{{{TIER}}}[$__rate_interval]))"
    f" / on (job, instance) group_left () ({_HITS} + {_MISSES})"
)

_LOOKUP_HITS = (
    f"sum by (job, instance) (rate(kvtier_lookup_hits_total{{{NODE}}}[$__rate_interval]))"
)
_LOOKUP_BLOCKS = (
    f"sum by (job, instance) (rate(kvtier_lookup_blocks_total{{{NODE}}}[$__rate_interval]))"
)

PANELS = (
    graph(
        "Occupancy",
        "The part of a tier's capacity that is in use. A cache that is full is as it should be.",
        "percentunit",
        (
            named(f"kvtier_tier_used_bytes{{{TIER}}} / (kvtier_tier_capacity_bytes{{{TIER}}} > 0)"),
            OF_TIER,
        ),
    ),
    graph(
        "Found by lookups",
        "Of the blocks that lookups asked for, the part in prefixes that some tier had.",
        "percentunit",
        (named(f"{_LOOKUP_HITS} / {_LOOKUP_BLOCKS}"), OF_NODE),
    ),
    graph(
        "Found by loads, by tier",
        "Of the blocks that loads asked a node for, the part that each tier had.",
        "percentunit",
        (_FOUND, OF_TIER),
    ),
    graph(
        "Not found by loads, by reason",
        "Blocks a second that were absent, still being written, or not recovered yet.",
        "ops",
        (rate("kvtier_misses_total", ", reason"), "{{node_id}} {{reason}}"),
    ),
    graph(
        "Stores",
        "Blocks a second that became readable.",
        "ops",
        (tier_rate("kvtier_tier_stores_total"), OF_TIER),
    ),
    graph(
        "Loads",
        "Blocks a second that were granted to load leases and reads.",
        "ops",
        (tier_rate("kvtier_tier_loads_total"), OF_TIER),
    ),
    graph(
        "Removals, by reason",
        "Blocks a second that ceased to be readable. Corrupt and lost ones call for somebody.",
        "ops",
        (busy(tier_rate("kvtier_tier_removals_total", ", reason")), f"{OF_TIER} {{{{reason}}}}"),
    ),
    graph(
        "Moves between tiers",
        "Blocks a second that went down, came up, or were written through.",
        "ops",
        (tier_rate("kvtier_tier_demotions_total"), f"{OF_TIER} down"),
        (tier_rate("kvtier_tier_promotions_total"), f"{OF_TIER} up"),
        (tier_rate("kvtier_tier_written_through_total"), f"{OF_TIER} through"),
    ),
    graph(
        "Copies that did not happen",
        "Evicted blocks that the next tier did not take over, and copies to a tier that failed.",
        "ops",
        (tier_rate("kvtier_tier_dropped_total"), f"{OF_TIER} dropped"),
        (tier_rate("kvtier_tier_copies_failed_total"), f"{OF_TIER} failed"),
    ),
    graph(
        "Stores that did not happen",
        "Refused for want of room (offers); and blocks that were described otherwise, given up by"
        " who stored them, or not stored yet because of store_threshold.",
        "ops",
        (tier_rate("kvtier_tier_refused_total"), f"{OF_TIER} refused"),
        (tier_rate("kvtier_tier_mismatched_total"), f"{OF_TIER} mismatched"),
        (tier_rate("kvtier_tier_abandoned_total"), f"{OF_TIER} abandoned"),
        (tier_rate("kvtier_tier_deferred_total"), f"{OF_TIER} deferred"),
    ),
    graph(
        "Leased",
        "Bytes of blocks under leases and pins, which cannot be evicted.",
        "bytes",
        (of_tier("kvtier_tier_leased_bytes"), OF_TIER),
    ),
    graph(
        "Oldest lease",
        "How long the oldest lease other than a pin has been open.",
        "s",
        (of_tier("kvtier_tier_oldest_lease_seconds"), OF_TIER),
    ),
    graph(
        "Blocks that are not free and not readable",
        "Being written, gone but still leased, or kept from use since a late writer may be there.",
        "short",
        (
            of_tier("kvtier_tier_blocks", ', state=~"pending|draining|quarantined"'),
            f"{OF_TIER} {{{{state}}}}",
        ),
    ),
    graph(
        "Recovered",
        "How far a tier of files or objects is with finding what it holds after a start.",
        "percentunit",
        (of_tier("kvtier_tier_recovered_ratio"), OF_TIER),
    ),
    graph(
        "Tiers in trouble",
        "1 while a tier is read-only or recovering.",
        "short",
        (
            of_tier("kvtier_tier_state", ', state=~"read_only|recovering"'),
            f"{OF_TIER} {{{{state}}}}",
        ),
    ),
    graph(
        "Damage",
        "Blocks a second that did not match their checksum, that the background check has read,"
        " and that a start left out because they are beyond the capacity.",
        "ops",
        (tier_rate("kvtier_tier_corruptions_total"), f"{OF_TIER} corrupt"),
        (tier_rate("kvtier_tier_scrubbed_total"), f"{OF_TIER} checked"),
        (tier_rate("kvtier_tier_trimmed_total"), f"{OF_TIER} trimmed"),
    ),
)
