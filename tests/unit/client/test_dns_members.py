"""Members by a name."""

import socket
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from kvtier.client import InvalidArgumentError
from kvtier.client.proxy.membership import dns

from .looking import Lookout, looking

NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
TRY_AGAIN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
INTERVAL = 5.0
A, B = ["10.0.0.1"], ["10.0.0.2"]


def answering(
    *answers: list[str] | Exception, **options: Any
) -> Callable[[Lookout], AsyncGenerator[tuple[str, ...]]]:
    """Return a source whose resolver answers so, and goes on with the last answer."""
    left = list(answers)

    async def resolve(name: str) -> list[str]:
        assert name == "kvtier"
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def source(lookout: Lookout) -> AsyncGenerator[tuple[str, ...]]:
        return dns(
            "kvtier",
            7600,
            INTERVAL,
            **options,
            resolve=resolve,
            clock=lookout.time.clock,
            sleep=lookout.time.sleep,
            tell=lookout.told.append,
        )

    return source


async def test_the_addresses_of_a_name_come_sorted_and_each_once() -> None:
    """They are sorted as numbers; nothing else comes while the answer is the same."""
    answers = [["10.0.0.10", "10.0.0.9", "10.0.0.9"], ["10.0.0.9", "10.0.0.10"]]
    async with looking(answering(*answers)) as lookout:
        await lookout.again(2)

        assert lookout.lists == [("10.0.0.9:7600", "10.0.0.10:7600")]
        assert lookout.time.asked == [INTERVAL] * 3


async def test_a_change_comes_with_the_next_answer() -> None:
    """Who joined and who left is seen at once, as a whole list."""
    async with looking(answering(A, A + B, B)) as lookout:
        await lookout.again(2)

        assert lookout.lists == [
            ("10.0.0.1:7600",),
            ("10.0.0.1:7600", "10.0.0.2:7600"),
            ("10.0.0.2:7600",),
        ]


@pytest.mark.parametrize(
    ("addresses", "endpoints"),
    [
        (["fd00::2", "fd00::1"], ("[fd00::1]:7600", "[fd00::2]:7600")),
        (["fd00::1", *A], ("10.0.0.1:7600",)),
    ],
    ids=["alone", "beside IPv4"],
)
async def test_addresses_of_ipv6_count_where_there_are_no_others(
    addresses: list[str], endpoints: tuple[str, ...]
) -> None:
    """A node with an address of each family does not come twice."""
    async with looking(answering(addresses)) as lookout:
        assert lookout.lists == [endpoints]


async def test_a_resolver_that_is_down_removes_nobody() -> None:
    """The list stays for as long as it lasts, and why is told once."""
    async with looking(answering(A, TRY_AGAIN)) as lookout:
        await lookout.again(100)

        assert lookout.lists == [("10.0.0.1:7600",)]
        assert lookout.told == [
            "kvtier cannot be resolved: Temporary failure in name resolution; its last nodes stay"
        ]


async def test_a_trouble_that_comes_back_is_told_again() -> None:
    """Each time that it begins it is told."""
    async with looking(answering(A, TRY_AGAIN, TRY_AGAIN, A, TRY_AGAIN)) as lookout:
        await lookout.again(4)

        assert len(lookout.told) == 2


@pytest.mark.parametrize("none", [NO_NAME, []], ids=["no such name", "no address"])
async def test_a_name_that_lost_its_addresses_keeps_the_last_for_a_while(none: Any) -> None:
    """That there are none is believed when it was said for long enough, not before."""
    async with looking(answering(A, none, patience=30.0)) as lookout:
        await lookout.again(6)
        kept = list(lookout.lists)
        await lookout.again()

        assert kept == [("10.0.0.1:7600",)]
        assert lookout.lists == [*kept, ()]
        assert lookout.told == [
            "kvtier has no address any more; if that stays so for 30 s, its nodes are given up"
        ]


@pytest.mark.parametrize("between", [A, TRY_AGAIN], ids=["an address", "no answer"])
async def test_only_what_every_answer_says_is_believed(between: Any) -> None:
    """Whatever else comes in between, the time to believe that there are none starts anew."""
    answers = (A, *[NO_NAME] * 5, between, *[NO_NAME] * 5, A)
    async with looking(answering(*answers, patience=30.0)) as lookout:
        await lookout.again(len(answers))

        assert lookout.lists == [("10.0.0.1:7600",)]


async def test_one_answer_never_gives_everybody_up() -> None:
    """Without any patience it still takes two answers."""
    async with looking(answering(A, NO_NAME, patience=0.0)) as lookout:
        await lookout.again()
        kept = list(lookout.lists)
        await lookout.again()

        assert kept == [("10.0.0.1:7600",)]
        assert lookout.lists[1:] == [()]


async def test_a_name_that_has_nobody_yet_is_told_at_once() -> None:
    """There is no list to keep: nobody is there until somebody comes."""
    async with looking(answering(NO_NAME, A)) as lookout:
        assert lookout.lists == [()]
        await lookout.again()
        assert lookout.lists == [(), ("10.0.0.1:7600",)]


async def test_nothing_is_said_before_the_first_answer() -> None:
    """That nobody is there is not made up while the resolver does not answer."""
    async with looking(answering(TRY_AGAIN, A)) as lookout:
        assert lookout.lists == []
        await lookout.again()
        assert lookout.lists == [("10.0.0.1:7600",)]


async def test_the_resolver_of_the_system_is_asked() -> None:
    """An address is its own answer, whatever the machine's names are."""
    source = dns("127.0.0.1", 7600)

    assert await anext(source) == ("127.0.0.1:7600",)
    await source.aclose()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("kvtier:7600", 7600), "name must be a host name without a port"),
        (("", 7600), "name must be a host name without a port"),
        (("a name", 7600), "host:port"),
        (("kvtier", 0), "host:port"),
        (("kvtier", "7600"), "port must be a whole number"),
        (("kvtier", 7600, 0), "interval must be more than 0 s"),
    ],
)
def test_a_malformed_name_is_refused_at_once(arguments: Any, why: str) -> None:
    """The error comes from the call, not from the first list."""
    with pytest.raises(InvalidArgumentError, match=why):
        dns(*arguments)


def test_patience_is_not_negative() -> None:
    """The error names the value."""
    with pytest.raises(InvalidArgumentError, match="patience must be at least 0 s; got -1"):
        dns("kvtier", 7600, patience=-1)
