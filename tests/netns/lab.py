"""Hosts with a network each, on one bridge, and what may go wrong with their links."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from . import namespaces

pyroute2: Any = pytest.importorskip("pyroute2", reason="only Linux has network namespaces")

PORT = 7600
_NETWORK, _MAC = "10.77.0.{}", "02:00:0a:4d:00:{:02x}"
_MOST_HOSTS = 9
_LOOPBACK = 1
_BRIDGE = "lab"
_OUTER, _INNER = "host{}", "eth0"
_ROOT_QDISC, _HANDLE = 0xFFFFFFFF, 0x10000
# A packet that the kernel has yet to cut up may be of 64 KiB.
_BURST_BYTES = 128 << 10
_QUEUE = "50ms"
_TOOLS = ("nsenter", "setpriv")
# Who asks to be killed with a parent that is gone by then would stay.
_UNLESS_TOO_LATE = '[ "$PPID" = "$0" ] && exec "$@"'


class Host:
    """A machine of the lab: a namespace with one link to the bridge.

    Attributes:
        address: Its IP address.
        prefix: What a command begins with that runs on it, and ends with the process of the test.
    """

    def __init__(self, namespace: int, number: int) -> None:
        self.address = _NETWORK.format(number)
        self.prefix = (
            *("nsenter", f"--net=/proc/{os.getpid()}/fd/{namespace}"),
            *("setpriv", "--pdeathsig", "KILL", "sh", "-c", _UNLESS_TOO_LATE, str(os.getpid())),
        )
        self._namespace = namespace
        self._outer = _OUTER.format(number)

    @property
    def listen(self) -> str:
        """Where a node on it serves."""
        return f"{self.address}:{PORT}"

    def cut(self) -> None:
        """Let nothing through either way, and tell nobody."""
        _set(self._outer, master=0)

    def heal(self) -> None:
        """Undo `cut`."""
        _set(self._outer, master=namespaces.inside(None, partial(_index, _BRIDGE)))

    def unplug(self) -> None:
        """Take the link down, so that the host sees that it lost its carrier."""
        _set(self._outer, state="down")

    def plug(self) -> None:
        """Undo `unplug`."""
        _set(self._outer, state="up")

    def limit(self, mbit: int) -> None:
        """Let so many megabits a second through each way."""
        with _possible("limits no link", errno.ENOENT):
            for where, device in self._ends():
                namespaces.inside(where, partial(_limit, device, mbit))

    def unlimit(self) -> None:
        """Undo `limit`."""
        for where, device in self._ends():
            namespaces.inside(where, partial(_unlimit, device))

    def _ends(self) -> list[tuple[int | None, str]]:
        return [(None, self._outer), (self._namespace, _INNER)]


class Lab:
    """A network of its own: this process at `.1`, and hosts that are added.

    The process has to be in a network namespace that is empty. Everything is gone with the process
    and those on the hosts, which end with it: nothing has a name outside. Where the machine cannot
    do something the test is skipped.
    """

    def __init__(self) -> None:
        missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if missing:
            pytest.skip(f"this machine has no {' and no '.join(missing)}")
        self._namespaces: list[int] = []
        with _possible("makes no bridge", errno.EPERM, errno.EOPNOTSUPP):
            namespaces.inside(None, _make_bridge)

    def add(self) -> Host:
        """Add a host, linked and up."""
        namespace = namespaces.make()
        self._namespaces.append(namespace)
        assert len(self._namespaces) < _MOST_HOSTS
        number = 1 + len(self._namespaces)
        with _possible("makes no links", errno.EOPNOTSUPP):
            namespaces.inside(None, partial(_link, _OUTER.format(number), namespace))
        namespaces.inside(namespace, partial(_set_up, _INNER, number))
        return Host(namespace, number)

    def close(self) -> None:
        """Let go of the hosts' networks."""
        for namespace in self._namespaces:
            os.close(namespace)


@contextmanager
def lab() -> Iterator[Lab]:
    """Make a lab, and let go of it."""
    made = Lab()
    try:
        yield made
    finally:
        made.close()


@contextmanager
def _possible(what_not: str, *codes: int) -> Iterator[None]:
    """Skip the test where the kernel refuses something with one of these codes."""
    try:
        yield
    except pyroute2.NetlinkError as error:
        if error.code not in codes:
            raise
        pytest.skip(f"this machine {what_not}: {error}")


@contextmanager
def _netlink() -> Iterator[Any]:
    with pyroute2.IPRoute() as route:
        yield route


def _index(name: str) -> int:
    with _netlink() as route:
        (found,) = route.link_lookup(ifname=name)
    return int(found)


def _set(name: str, **change: Any) -> None:
    def act() -> None:
        index = _index(name)
        with _netlink() as route:
            route.link("set", index=index, **change)

    namespaces.inside(None, act)


def _make_bridge() -> None:
    with _netlink() as route:
        route.link("add", ifname=_BRIDGE, kind="bridge")
    _set_up(_BRIDGE, 1)


def _link(outer: str, namespace: int) -> None:
    with _netlink() as route:
        peer = {"ifname": _INNER, "net_ns_fd": namespace}
        route.link("add", ifname=outer, kind="veth", peer=peer)
        route.link("set", index=_index(outer), master=_index(_BRIDGE), state="up")


def _set_up(name: str, number: int) -> None:
    index = _index(name)
    with _netlink() as route:
        route.link("set", index=_LOOPBACK, state="up")
        route.link("set", index=index, address=_MAC.format(number), state="up")
        route.addr("add", index=index, address=_NETWORK.format(number), prefixlen=24)
        # Nobody asks the network who is where, so a cut link is no "host unreachable".
        for other in range(1, 1 + _MOST_HOSTS):
            there = {"dst": _NETWORK.format(other), "lladdr": _MAC.format(other)}
            if other != number:
                route.neigh("replace", ifindex=index, state="permanent", **there)


def _limit(name: str, mbit: int) -> None:
    bucket = {"rate": f"{mbit}mbit", "burst": _BURST_BYTES, "latency": _QUEUE}
    with _netlink() as route:
        route.tc("add", "tbf", index=_index(name), handle=_HANDLE, **bucket)


def _unlimit(name: str) -> None:
    with _netlink() as route:
        route.tc("del", index=_index(name), handle=_HANDLE, parent=_ROOT_QDISC)
