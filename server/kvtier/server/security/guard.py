"""The guard around every call: who makes it, what that caller may do, and for how long."""

from functools import partial
from typing import Any

from kvtier.server.security.authentication import Authentication, Caller
from kvtier.server.security.failures import Failures
from kvtier.server.security.grants import Allowed, Grants
from kvtier.server.security.rules import RULES
from kvtier.server.security.scopes import ActsOnAllError, Known, Scope
from kvtier.server.services.calls import Call
from kvtier.wire.errors import KvtierError, Reason, denied, quote


class SecurityGuard:
    """Lets calls in whose callers are known and allowed, and ends streams when that changes.

    Args:
        authentication: Tells who calls.
        grants: Tells what callers may do.
        known: Tells what namespaces there are.
        failures: Counts who is refused.
    """

    def __init__(
        self, authentication: Authentication, grants: Grants, known: Known, failures: Failures
    ) -> None:
        self._authentication = authentication
        self._grants = grants
        self._known = known
        self._failures = failures
        self._live: dict[Call, Caller] = {}

    def __call__(self, call: Call) -> "_Around":
        """Return what is around a call."""
        return _Around(self, call)

    def let_in(self, call: Call) -> None:
        """Check who makes a call, and what it is for.

        Raises:
            KvtierError: UNAUTHENTICATED or PERMISSION_DENIED.
        """
        rule = RULES[call.method.full_name]
        try:
            caller = self._authentication.caller(call.context)
            call.caller = caller.identity
            allowed = self._grants.namespaces(caller.identity, rule.role)
        except KvtierError as error:
            self._failures.add(error)
            raise
        if allowed is not None:
            # Nothing that leads back to the call: it would be a circle.
            call.allow = partial(self._check, caller.identity, rule.scope, allowed)
        if call.method.server_streaming:
            # Any other call is over soon.
            self._live[call] = caller

    def let_go(self, call: Call) -> None:
        """Forget a call that is over."""
        self._live.pop(call, None)

    def check_again(self) -> None:
        """End the streams whose callers are not known any more."""
        for call, caller in list(self._live.items()):
            try:
                self._authentication.check(caller)
            except KvtierError as error:
                self._live.pop(call)
                self._failures.add(error)
                # By its traceback the error would lead to the call that keeps it.
                call.end(error.with_traceback(None))

    def _check(self, identity: str, scope: Scope, allowed: Allowed, request: Any) -> None:
        """Check that a request is about namespaces of the caller only.

        Raises:
            KvtierError: PERMISSION_DENIED when it is not, or what is wrong with a namespace.
        """
        try:
            names = list(scope(request, self._known))
        except ActsOnAllError as error:
            raise self._refusal(identity, allowed, f"acts on all namespaces: {error}") from None
        for name in names:
            if name not in allowed:
                told = f"is about the namespace {quote(name, 256)}: let an operator grant that one"
                raise self._refusal(identity, allowed, told)

    def _refusal(self, identity: str, allowed: Allowed, why: str) -> KvtierError:
        error = denied(
            f"{quote(identity, 256)} may use the namespaces {allowed} only, and this call {why}",
            Reason.NOT_ALLOWED,
        )
        self._failures.add(error)
        return error


class _Around:
    """What is around one call."""

    __slots__ = ("_call", "_guard")

    def __init__(self, guard: SecurityGuard, call: Call) -> None:
        self._guard = guard
        self._call = call

    def __enter__(self) -> None:
        self._guard.let_in(self._call)

    def __exit__(self, *_: object) -> None:
        self._guard.let_go(self._call)
