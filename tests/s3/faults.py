"""What a relay may do to a request, and plans of when it does so."""

import random
from collections.abc import Callable, Mapping
from enum import Enum
from threading import Lock
from typing import NamedTuple


class Kind(Enum):
    """The kinds of faults."""

    # The connection is reset, and the server never hears of the request.
    RESET = "reset"
    # The server never hears of the request, and nothing is answered.
    HANG = "hang"
    # The server never hears of the request; the answer is a status (amount).
    STATUS = "status"
    # The request is passed on after some seconds (amount).
    DELAY = "delay"
    # The server does its work, and the connection is reset in place of the answer.
    LOSE = "lose"
    # The server does its work, and nothing is answered.
    MUTE = "mute"
    # The connection is reset after some bytes (amount) of the answer's body.
    CUT = "cut"
    # One bit of the answer's body, at a place (amount), is another.
    FLIP = "flip"


class Fault(NamedTuple):
    """One fault.

    Attributes:
        kind: What happens.
        amount: The status, the seconds, or the bytes.
        code: With a status: the code of S3 in the answer.
    """

    kind: Kind
    amount: float = 0
    code: str = "SomeCode"


class Request(NamedTuple):
    """What a client asks for."""

    method: str
    path: str


Plan = Callable[[Request], Fault | None]


def none(_: Request) -> Fault | None:
    """Let every request pass."""
    return None


def always(fault: Fault, method: str = "") -> Plan:
    """Do so to every request, or to all of a method."""
    return lambda request: fault if request.method.startswith(method) else None


def first(*faults: Fault, method: str = "") -> Plan:
    """Do so to the first requests, or to the first of a method, one after the other."""
    left, lock = list(faults), Lock()

    def plan(request: Request) -> Fault | None:
        with lock:
            return left.pop(0) if left and request.method.startswith(method) else None

    return plan


def by_chance(seed: int, chances: Mapping[Fault, float]) -> Plan:
    """Do so to some requests, the same ones for the same seed and order of requests.

    Args:
        seed: What decides.
        chances: The part of all requests that each fault comes to; together at most 1.
    """
    dice, lock = random.Random(seed), Lock()

    def plan(_: Request) -> Fault | None:
        with lock:
            rest = dice.random()
        for fault, chance in chances.items():
            rest -= chance
            if rest < 0:
                return fault
        return None

    return plan
