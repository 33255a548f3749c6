"""How many calls one caller may have under way, and all of them together."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from kvtier.server.callers import caller
from kvtier.server.services.limits import COMMON_LIMITS, CallLimits, host_of
from kvtier.v1 import event_service_pb2, tier_service_pb2
from kvtier.wire.errors import KvtierError, Reason, exhausted, over_limit

LOOKUP = tier_service_pb2.DESCRIPTOR.services_by_name["TierService"].methods_by_name["LookupBlocks"]
WATCH = event_service_pb2.DESCRIPTOR.services_by_name["EventService"].methods_by_name["WatchEvents"]


@dataclass(eq=False)
class FakeContext:
    """gRPC's side of a call that the test ends."""

    when_over: list[Callable[[object], None]] = field(default_factory=list)

    def add_done_callback(self, act: Callable[[object], None]) -> None:
        self.when_over.append(act)

    def end(self) -> None:
        for act in self.when_over:
            act(self)


@dataclass(eq=False)
class FakeCall:
    """A call of some caller."""

    caller: str
    method: Any = LOOKUP
    context: FakeContext = field(default_factory=FakeContext)


@dataclass(eq=False)
class Settings:
    """Few places."""

    calls: int = 4
    calls_per_caller: int = 2
    followers_per_caller: int = 2


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    """Leave the caller as it was for other tests: here calls have no context of their own."""
    before = caller.set("")
    yield
    caller.reset(before)


@pytest.fixture
def limits() -> CallLimits:
    return CallLimits(Settings(), Counter(dict.fromkeys((*COMMON_LIMITS, "leases"), 0)))


def enter(limits: CallLimits, stack: ExitStack, *calls: FakeCall) -> None:
    for call in calls:
        stack.enter_context(limits(call))  # type: ignore[arg-type]


def refused(limits: CallLimits, call: FakeCall) -> KvtierError:
    with pytest.raises(KvtierError) as error:
        limits(call)  # type: ignore[arg-type]
    return error.value


@pytest.mark.parametrize(
    ("peer", "who"),
    [
        ("ipv4:10.0.0.7:40222", "ipv4:10.0.0.7"),
        ("ipv6:%5B::1%5D:40222", "ipv6:%5B::1%5D"),
        ("unix:", "unix:"),
        ("spiffe://cluster/ns/engine", "spiffe://cluster/ns/engine"),
        ("dns:engine.example:1", "dns:engine.example:1"),
        ("token:engines", "token:engines"),
    ],
)
def test_all_connections_of_an_address_are_one_caller(peer: str, who: str) -> None:
    """The port says nothing of who calls; a name that somebody has is taken as it is."""
    assert host_of(peer) == who


def test_a_caller_with_too_many_calls_is_refused_and_others_are_not(limits: CallLimits) -> None:
    """Whatever connections they come by; the refusal names the limit and when to try again."""
    with ExitStack() as stack:
        enter(limits, stack, FakeCall("ipv4:10.0.0.7:1"), FakeCall("ipv4:10.0.0.7:2"))

        error = refused(limits, FakeCall("ipv4:10.0.0.7:3"))
        enter(limits, stack, FakeCall("ipv4:10.0.0.8:1"))

    assert (error.code.name, error.reason) == ("RESOURCE_EXHAUSTED", Reason.CALL_LIMIT)
    assert error.metadata == {"limit": "calls_per_caller"}
    assert "raise limits.calls_per_caller" in error.message
    assert error.retry_after
    assert +limits.limited == {"calls_per_caller": 1}


def test_all_callers_together_have_a_limit(limits: CallLimits) -> None:
    """However many there are."""
    with ExitStack() as stack:
        enter(limits, stack, *(FakeCall(f"token:{number}") for number in range(4)))

        error = refused(limits, FakeCall("token:another"))

    assert error.metadata == {"limit": "calls"}
    assert +limits.limited == {"calls": 1}


def test_places_come_back_however_calls_end(limits: CallLimits) -> None:
    """A call that failed had a place, too; one that was refused had none."""
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), limits(FakeCall("a")):  # type: ignore[arg-type]
            raise ZeroDivisionError
    with ExitStack() as stack:
        enter(limits, stack, FakeCall("a"), FakeCall("a"))
        refused(limits, FakeCall("a"))

    assert limits.calls == 0
    with ExitStack() as stack:
        enter(limits, stack, FakeCall("a"), FakeCall("a"))


def test_followers_of_one_caller_have_a_limit_until_nothing_of_them_is_left() -> None:
    """A follower that was given up, and whose call its client keeps, still has its place."""
    limits = CallLimits(Settings(calls_per_caller=9, calls=9), Counter())
    first, second = (FakeCall("a", WATCH) for _ in range(2))
    with ExitStack() as stack:
        enter(limits, stack, first, second)

    error = refused(limits, FakeCall("a", WATCH))
    with ExitStack() as stack:
        enter(limits, stack, FakeCall("b", WATCH), FakeCall("a"))
    first.context.end()
    with ExitStack() as stack:
        enter(limits, stack, FakeCall("a", WATCH))

    assert error.reason == Reason.FOLLOWER_LIMIT
    assert error.metadata == {"limit": "followers_per_caller"}
    assert limits.calls == 0


def test_refusals_of_others_are_counted_by_their_limit(limits: CallLimits) -> None:
    """What names none, such as a full tier, is not; nor is one that is none of this server's."""
    for error in (
        over_limit("leases", "too many", Reason.LEASE_LIMIT),
        exhausted("no room", Reason.TIER_FULL),
        over_limit("of-another-server", "too many", Reason.CALL_LIMIT),
    ):
        with pytest.raises(KvtierError), limits(FakeCall("a")):  # type: ignore[arg-type]
            raise error

    assert +limits.limited == {"leases": 1}
