"""Prefixes of a bucket, behind a relay that does its worst."""

import random
from collections.abc import Mapping
from threading import Lock
from typing import Any

import pytest

from kvtier.server.lasting.record import serial_of
from tests.s3 import faults
from tests.s3.faults import Fault, Kind, Plan, Request
from tests.s3.relay import Relay
from tests.s3.server import REGION
from tests.s3.shelves import Place

from .blocks import Key
from .grounds import key_of

_RESET = Fault(Kind.RESET)
_ANY = (
    _RESET,
    Fault(Kind.HANG),
    Fault(Kind.STATUS, 500, "InternalError"),
    Fault(Kind.STATUS, 503, "SlowDown"),
    Fault(Kind.STATUS, 403, "AccessDenied"),
    Fault(Kind.DELAY, 0.1),
    Fault(Kind.DELAY, 0.4),
    Fault(Kind.LOSE),
    Fault(Kind.MUTE),
)
_OF_READS = (Fault(Kind.CUT, 100), Fault(Kind.FLIP, 50), Fault(Kind.FLIP, 400))


class Objects:
    """A `Ground` of objects; each life has a relay of its own, which ends with it.

    Args:
        endpoint: The server's URL.
        bucket: The bucket's name.
        tiers: The names of the tiers.
        rng: What decides.
    """

    troubles: Mapping[str, int] = {"some": 3, "all": 1, "down": 1, "spoil": 1}
    forgetful = forgot = False

    def __init__(self, endpoint: str, bucket: str, tiers: list[str], rng: random.Random) -> None:
        self._places = {tier: Place(endpoint, bucket) for tier in tiers}
        self._random = rng
        self._endpoint = endpoint
        self._relay = Relay(endpoint)
        self._plan: Plan = faults.none
        self._lock = Lock()
        self._left = 0
        self.crashed = self._blown = False

    def settings(self, tier: str) -> dict[str, Any]:
        """See `Ground`."""
        return {
            "url": self._places[tier].url,
            "endpoint": self._relay.endpoint,
            "region": REGION,
        }

    def begin(self, patch: pytest.MonkeyPatch) -> None:
        """See `Ground`."""
        self.close()
        self.crashed, self._blown, self._left = False, False, 0
        self._plan = faults.none
        self._relay = Relay(self._endpoint)
        self._relay.plan = self._pass
        self._relay.up()

    def close(self) -> None:
        """End the relay."""
        self._relay.down()

    def trouble(self, kind: str) -> None:
        """See `Ground`."""
        self._blown = True
        seed, rng = self._random.randrange(1 << 30), self._random
        if kind == "down":
            self._relay.down()
        elif kind == "all":
            self._plan = faults.always(rng.choice(_ANY), rng.choice(["", "PUT", "GET", "POST"]))
        elif kind == "some":
            self._plan = faults.by_chance(seed, dict.fromkeys(rng.sample(_ANY, 5), 0.06))
        else:
            spoil = faults.by_chance(seed, dict.fromkeys(_OF_READS, 0.2))
            self._plan = lambda request: spoil(request) if _reads_block(request) else None

    def calm(self) -> None:
        """See `Ground`."""
        self._plan = faults.none
        if not self.crashed:
            self._relay.down()
            self._relay.up()

    def crash(self, after: int) -> None:
        """See `Ground`."""
        with self._lock:
            self._left = after
            self.crashed = self.crashed or not after

    def harm(self, rng: random.Random, tier: str) -> set[Key]:
        """See `Ground`."""
        place = self._places[tier]
        keys = sorted(key for key in place.keys() if key.startswith("blocks/"))  # noqa: SIM118
        if not keys:
            return set()
        key = rng.choice(keys)
        if rng.random() < 0.5:
            place.remove(key)
        else:
            data = bytearray(place.read(key))
            data[rng.randrange(len(data))] ^= 1
            place.write(key, bytes(data))
        return {key_of(key.rpartition("/")[2])}

    def names(self, tier: str) -> set[str]:
        """See `Ground`."""
        names = [key.rpartition("/")[2] for key in self._places[tier].keys()]  # noqa: SIM118
        return {name for name in names if serial_of(name) is not None}

    def may_have_more(self) -> bool:
        """See `Ground`: what was given up may come to be later."""
        return self._blown

    def _pass(self, request: Request) -> Fault | None:
        with self._lock:
            if self._left > 0:
                self._left -= 1
                self.crashed = self.crashed or not self._left
            if self.crashed:
                return _RESET
        return self._plan(request)


def _reads_block(request: Request) -> bool:
    return request.method == "GET" and "/blocks/" in request.path and "?" not in request.path
