"""Network namespaces without names: each is there as long as a descriptor or a process keeps it."""

import ctypes
import os
import signal
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)

T = TypeVar("T")


def leave_for_a_new_one() -> None:
    """Move this thread, and those that it starts from now on, to a network of their own.

    Raises:
        OSError: When this user may not, or this kernel cannot.
    """
    _checked(_libc.unshare(_CLONE_NEWNET))


def make() -> int:
    """Return the descriptor of a new namespace, which is empty but for a loopback that is down."""

    def make_here() -> int:
        leave_for_a_new_one()
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    return _in_a_thread(make_here)


def inside(namespace: int | None, act: Callable[[], T]) -> T:
    """Return what a function returns in a namespace; None is the caller's.

    It runs in a thread of its own, so that it may run an event loop, too.
    """

    def act_inside() -> T:
        if namespace is not None:
            _checked(_libc.setns(namespace, _CLONE_NEWNET))
        return act()

    return _in_a_thread(act_inside)


def end_with_the_parent() -> None:
    """Have this process killed when the one that started it is gone, however that ended."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def _in_a_thread(act: Callable[[], T]) -> T:
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(act())
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            failed.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
