"""A node's events: how they are encoded, kept in one log, and told to followers.

From the inside out: `parts` and `encode` make the bytes of one event, `log` keeps batches of them
in a ring, `feed` joins batches into messages that followers with one `filter` share, `line` knows
what a follower was told, `snapshot` walks the live tables, and `follower` ties them together.
"""
