"""What is said of each service's health, for whoever says it."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from grpc_health.v1 import health_pb2

from kvtier.wire.errors import Reason, not_found, quote

LIVENESS = "liveness"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
# A value of HealthCheckResponse.ServingStatus.
Status = int


class HealthBoard(Mapping[str, Status]):
    """The status of each name. It belongs to the event loop."""

    def __init__(self) -> None:
        self._statuses: dict[str, Status] = {}
        self._listeners: list[Callable[[], None]] = []

    def __getitem__(self, name: str) -> Status:
        return self._statuses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._statuses)

    def __len__(self) -> int:
        return len(self._statuses)

    def set(self, names: Iterable[str], status: Status) -> None:
        """Give names a status, and let all who listen know."""
        self._statuses.update(dict.fromkeys(names, status))
        for listener in list(self._listeners):
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call back after each change."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Call somebody back no more."""
        self._listeners.remove(listener)


def status_of(statuses: Mapping[str, Status], name: str) -> Status:
    """Return what is said of a name.

    Raises:
        KvtierError: NOT_FOUND when nothing is.
    """
    status = statuses.get(name)
    if status is None:
        raise not_found(
            f"service {quote(name)} is not known; there are "
            f"{', '.join(each or repr(each) for each in statuses)}",
            Reason.SERVICE_UNKNOWN,
        )
    return status
