"""A name that stands for several addresses is taken whole or not at all."""

import socket
from typing import Any

import grpc.aio
import pytest

from kvtier.server.serving.listening import listen_on
from kvtier.server.serving.starting import StartError

HERE, ALSO_HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2", "203.0.113.1"


def names(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Let every name stand for these addresses."""

    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


async def test_every_address_of_a_name_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """With port 0 all of them get the same free port."""
    names(monkeypatch, HERE, ALSO_HERE)

    endpoint = listen_on(grpc.aio.server(), "two.example:0")

    port = int(endpoint.removeprefix("two.example:"))
    for address in (HERE, ALSO_HERE):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((address, port))


async def test_a_name_of_which_one_address_is_taken_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That another of its addresses is free does not help: two servers would share the name."""
    names(monkeypatch, HERE, ALSO_HERE)
    with socket.socket() as held:
        held.bind((ALSO_HERE, 0))
        held.listen()
        endpoint = f"two.example:{held.getsockname()[1]}"

        with pytest.raises(StartError, match=rf"{endpoint}: address already in use.*--listen"):
            listen_on(grpc.aio.server(), endpoint)


async def test_an_address_that_this_machine_lacks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name may have addresses of other machines, or of a protocol that is switched off here."""
    names(monkeypatch, ELSEWHERE, HERE)

    assert listen_on(grpc.aio.server(), "partly.example:0") != "partly.example:0"


@pytest.mark.parametrize(
    ("addresses", "why"), [([ELSEWHERE], "cannot assign"), ([], "no address")], ids=["far", "none"]
)
async def test_a_name_without_an_address_here_is_refused(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], why: str
) -> None:
    """The refusal says what is wrong with the name."""
    names(monkeypatch, *addresses)

    with pytest.raises(StartError, match=rf"far\.example:7600.*{why}"):
        listen_on(grpc.aio.server(), "far.example:7600")
