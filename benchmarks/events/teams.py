"""A source and its followers, ours and theirs, ready to be measured."""

from benchmarks.events import follower, node, vllm
from benchmarks.events.worker import Team, Workers


def ours(workers: Workers, followers: int, **log: int) -> Team:
    """Start a node and followers of it that have its snapshot.

    Args:
        workers: Starts the processes.
        followers: How many.
        log: Settings of the node's event log.
    """
    return ours_holding(workers, 0, followers, **log)


def ours_holding(workers: Workers, blocks: int, followers: int, **log: int) -> Team:
    """Start a node with so many blocks more, and followers of it that have its snapshot."""
    source = workers.start(node.main, blocks, log)
    address = source.ask("address")
    team = Team(source, [workers.start(follower.main, address) for _ in range(followers)])
    team.ask_followers("ready")
    return team


def theirs(workers: Workers, path: str, followers: int) -> Team:
    """Start vLLM's publisher and subscribers that are connected."""
    source = workers.start(vllm.source, path)
    address = source.ask("address")
    team = Team(source, [workers.start(vllm.follower, path, address) for _ in range(followers)])
    for each in team.followers:
        each.tell("ready")
    while not all(each.answered for each in team.followers):
        source.ask("hello")
    for each in team.followers:
        each.answer()
    return team
