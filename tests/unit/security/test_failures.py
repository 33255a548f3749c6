"""Calls that were refused for who made them are counted."""

from kvtier.server.security.failures import Failures
from kvtier.wire.errors import Reason, denied, unauthenticated

BAD = unauthenticated("the bearer token is not known", Reason.BAD_TOKEN)
DENIED = denied("ask an operator", Reason.NOT_ALLOWED)


def test_refusals_are_counted_by_reason() -> None:
    """Each reason is there from the start, for alerts on it."""
    failures = Failures()
    before = dict(failures.counts)
    for error in (BAD, BAD, DENIED):
        failures.add(error)

    assert before == {"no_identity": 0, "bad_token": 0, "not_allowed": 0, "revoked": 0}
    assert failures.counts == before | {"bad_token": 2, "not_allowed": 1}
