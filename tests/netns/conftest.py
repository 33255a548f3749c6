"""Each test in a process of its own, which is one machine of a network with nodes on others."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.conftest import start_node

from .apart import here, run_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .lab import Lab

__all__ = ["lab", "start_node"]

_FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    if _FOLDER not in item.path.parents or here(item.config):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in run_apart(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> "Iterator[Lab]":
    """A network of the test's own."""
    apart = here(request.config)
    assert apart is not None
    if apart.problem:
        pytest.skip(apart.problem)
    # It skips the test where it cannot be imported.
    from .lab import lab as make  # noqa: PLC0415 - this file is imported everywhere

    with make() as made:
        yield made
