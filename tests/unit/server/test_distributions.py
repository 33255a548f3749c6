"""Distributions count as those of Prometheus' own library do."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as LibraryHistogram
from prometheus_client.registry import Collector

from kvtier.server.metrics.families import Histogram

BOUNDS = (0.001, 0.5, 1.0, 2.0)


@given(
    st.lists(
        st.one_of(st.sampled_from([0.0, *BOUNDS]), st.floats(min_value=0, max_value=4)), max_size=20
    )
)
def test_observations_fall_where_the_librarys_do(observed: list[float]) -> None:
    """Also those that are as large as a bound; the text is the same."""
    ours, theirs = Histogram("lag_seconds", "Lag.", BOUNDS, ("of",)), CollectorRegistry()
    library = LibraryHistogram("lag_seconds", "Lag.", ["of"], buckets=BOUNDS, registry=theirs)
    distribution, child = ours.begin(), library.labels("x")

    for each in observed:
        distribution.observe(each)
        child.observe(each)

    class Ours(Collector):
        def collect(self):  # type: ignore[no-untyped-def]
            yield ours.of([(("x",), distribution)])()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Ours())
    assert lines(registry) == lines(theirs)


def lines(registry: CollectorRegistry) -> set[str]:
    """Return what is served, without when the library's was made."""
    text = generate_latest(registry).decode()
    return {line for line in text.splitlines() if "_created" not in line}
