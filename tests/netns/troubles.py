"""What may befall a node or its link, for as long as a context lasts."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from .cluster import Member

Trouble = Callable[[Member], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def cut(member: Member) -> AsyncIterator[None]:
    member.host.cut()
    yield
    member.host.heal()


@asynccontextmanager
async def unplugged(member: Member) -> AsyncIterator[None]:
    member.host.unplug()
    yield
    member.host.plug()


@asynccontextmanager
async def paused(member: Member) -> AsyncIterator[None]:
    member.process.process.send_signal(signal.SIGSTOP)
    yield
    member.process.process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def flapping(member: Member) -> AsyncIterator[None]:
    """Take the link down, or up again, each second."""

    async def flap() -> None:
        try:
            while True:
                member.host.unplug()
                await asyncio.sleep(1)
                member.host.plug()
                await asyncio.sleep(1)
        finally:
            member.host.plug()

    task = asyncio.create_task(flap())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
