"""What holds for every test: it ends, and one that failed is told at once.

A test that takes too long is failed by pytest-timeout. Where that cannot reach it, since it waits
outside Python or swallows what is raised in it, its process ends a while later with all its stacks
told, and the run goes on without it.
"""

import faulthandler
import os
from collections.abc import Generator

import pytest

# In seconds: beyond a test's own limit, and for all that a process does after its last test.
_GRACE = 60.0
_ENDING = 120.0
_TOLD_LINES, _TOLD_COLUMNS = 60, 200
_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Tell failures at once where there is a run of many processes, whose summary is far away."""
    config.stash[_STDERR] = os.dup(2)
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Teller(config))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process of a test that outlives its limit."""
    marker = item.get_closest_marker("timeout")
    limit = float(marker.args[0] if marker else item.config.getini("timeout"))
    _end_process_after(limit + _GRACE, item.config)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """End a worker that does not come to its end."""
    if hasattr(session.config, "workerinput"):
        _end_process_after(_ENDING, session.config)
    return (yield)


class _Teller:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert reporter is not None
        reporter.write_line(f"\n{report.nodeid} failed:", red=True)
        for line in report.longreprtext.splitlines()[-_TOLD_LINES:]:
            reporter.write_line(line[:_TOLD_COLUMNS])


def _end_process_after(seconds: float, config: pytest.Config) -> None:
    # What is captured of stderr is lost with the process.
    faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[_STDERR])
