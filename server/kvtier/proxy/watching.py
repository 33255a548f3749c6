"""EventService of a proxy: following all nodes behind it."""

from dataclasses import dataclass

from kvtier.proxy.following import Following, primary_is_live
from kvtier.proxy.relays import Relays
from kvtier.proxy.turnstile import Turnstile
from kvtier.proxy.upstream import Source
from kvtier.proxy.wishes import Wishes
from kvtier.server.events.pace import Pace
from kvtier.server.events.stall import Stall
from kvtier.server.services.admission import Admission, Send
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.wire.errors import KvtierError, Reason, not_found, quote, unavailable


@dataclass(frozen=True, slots=True)
class Rules:
    """How followers are served.

    Attributes:
        max_followers: Most followers at one time.
        quota: Most messages of one secondary in a round.
        require_primary: Tell nothing of the secondaries while the primary is not in sync.
    """

    max_followers: int = 256
    quota: int = 64
    require_primary: bool = False


class EventService:
    """Serves the followers of a proxy.

    Args:
        relays: The relays of all nodes.
        source: Where nodes are followed for one follower alone.
        pace: Times and sizes of every follower's messages.
        rules: How they are served.

    Attributes:
        draining: Whether followers are sent off.
    """

    def __init__(self, relays: Relays, source: Source, pace: Pace, rules: Rules) -> None:
        self._relays = relays
        self._source = source
        self._pace = pace
        self._rules = rules
        self._admission = Admission("the proxy", rules.max_followers)
        self._turnstiles: set[Turnstile] = set()
        self.draining = False

    @property
    def followers(self) -> int:
        """Followers now."""
        return self._admission.followers

    async def watch_events(self, request: WatchEventsRequest, send: Send) -> None:
        """Follow all nodes until the follower leaves or the proxy drains.

        Args:
            request: The request.
            send: The way back.

        Raises:
            KvtierError: As the RPC's comment says.
        """
        wishes = Wishes.of(request)
        if self.draining:
            raise sent_off()
        self._check_tiers(wishes)
        pace = self._pace
        with self._admission.let_in(send):
            turnstile = self._turnstile(send)
            following = Following(self._relays, self._source, wishes, turnstile, pace)
            stall = Stall(turnstile, min(pace.stall_timeout, pace.snapshot_stall_timeout))
            self._turnstiles.add(turnstile)
            try:
                await stall.guard(following.run())
            finally:
                self._turnstiles.discard(turnstile)

    def drain(self) -> None:
        """Send all followers off, and who comes later, too.

        Each goes on elsewhere from the positions that it has.
        """
        self.draining = True
        for turnstile in self._turnstiles:
            turnstile.end(sent_off())

    def _turnstile(self, send: Send) -> Turnstile:
        required = self._rules.require_primary
        return Turnstile(
            send,
            quota=self._rules.quota,
            holds=lambda: required and not primary_is_live(self._relays),
            patience=self._pace.stall_timeout,
            catch_up_patience=self._pace.snapshot_stall_timeout,
        )

    def _check_tiers(self, wishes: Wishes) -> None:
        """Refuse a tier that no node has, once that is known of every node."""
        rings = [each.relay.ring for each in self._relays.carried()]
        known = {name for ring in rings if ring is not None and ring.ready for name in ring.tiers}
        if not self._relays.complete or not all(ring and ring.ready for ring in rings):
            return
        for name in wishes.request.tiers:
            if name not in known:
                raise not_found(
                    f"tier {quote(name)} is on no node behind the proxy; there are "
                    f"{', '.join(sorted(known))}",
                    Reason.TIER_UNKNOWN,
                )


def sent_off() -> KvtierError:
    """Return what callers are told when the proxy takes no work any more."""
    return unavailable(
        "the proxy is draining: follow the nodes through another one, or themselves",
        Reason.DRAINING,
        retry_after=1.0,
    )
