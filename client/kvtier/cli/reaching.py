"""What is told of a node that was asked: that it serves or drains, or that it does not answer."""

from typing import Any

from kvtier.cli.connect import Answer
from kvtier.cli.exit import ExitCode
from kvtier.cli.output import Record
from kvtier.cli.output.colour import BAD, DOUBTFUL, tones

STATE_TONE = tones({"unreachable": BAD, "refusing": BAD, "draining": DOUBTFUL}, "state")
_UNKNOWN: Record = {
    "node_id": "",
    "version": "",
    "start_time": None,
    "head": None,
    "followers": None,
    "leases": None,
    "draining": None,
    "tiers": [],
}


def reached(answer: Answer[Any], node: Record | None) -> dict[str, Any]:
    """Return a record with the endpoint, its state, and what the node told or empty fields.

    Args:
        answer: Who was asked, and why there is no answer.
        node: What is told of the node; None without an answer.
    """
    told = node or _UNKNOWN
    return {"endpoint": answer.endpoint, "state": _state(answer, told), **told}


def state_of(node: Record) -> str:
    """Return the state of a node that answered."""
    return "draining" if node["draining"] else "serving"


def _state(answer: Answer[Any], told: Record) -> str:
    if answer.error is None:
        return state_of(told)
    return "unreachable" if answer.error.code is ExitCode.UNREACHABLE else "refusing"
