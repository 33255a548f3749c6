"""The proxy as a process: one view of many nodes, served to whoever follows and asks.

From the sources to a follower: `relays` hands what a `TieringProxy` reads to the `relay` of each
node, whose `ring` holds the node's newest batches; a `course` tells one follower of one node, from
the ring, or through `upstream` while the ring does not hold the follower's position; a `turnstile`
lets the courses of one follower take turns, and `following` knows which there are. `reading`
answers who only asks.
"""
