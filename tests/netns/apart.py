"""Run a test in a process of its own, whose network is its own too.

A thread is in a namespace. Those in which gRPC opens connections are started once in a process, so
where a test's connections begin is settled with its process.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from . import namespaces

# Past these the test fails, or its process is killed.
TEST_SECONDS, PROCESS_SECONDS = 60, 90

_ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}


class Apart:
    """The plugin of the process of one test: it writes down the reports.

    Attributes:
        problem: Why the process is not in a network of its own; empty when it is.
    """

    # What pytest calls a plugin by.
    __name__ = "apart"

    def __init__(self, reports: Path, problem: str) -> None:
        self.problem = problem
        self._reports = reports
        self._config: Any = None

    def pytest_configure(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._reports.open("ab") as file:
            pickle.dump(told, file)


def here(config: pytest.Config) -> Apart | None:
    """Return the plugin in the process of one test, None in the one that runs all."""
    plugin: Apart | None = config.pluginmanager.get_plugin("apart")
    return plugin


def run_apart(item: pytest.Item) -> list[pytest.TestReport]:
    """Run a test in a process of its own, and return its reports."""
    with TemporaryDirectory() as folder:
        reports = Path(folder) / "reports"
        command = [sys.executable, "-m", __name__, item.nodeid, str(reports)]
        with subprocess.Popen(
            command,
            cwd=item.config.rootpath,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                said, _ = process.communicate(timeout=PROCESS_SECONDS)
            except BaseException:
                process.kill()
                raise
        told = list(_read(item.config, reports))
    if any(report.when == "teardown" for report in told):
        return told
    return [*told, _ended_early(item, process.returncode, said.decode(errors="replace"))]


def _read(config: pytest.Config, reports: Path) -> Iterator[pytest.TestReport]:
    if not reports.exists():
        return
    with reports.open("rb") as file:
        while file.peek(1):
            data = pickle.load(file)
            yield config.hook.pytest_report_from_serializable(config=config, data=data)


def _ended_early(item: pytest.Item, code: int, said: str) -> pytest.TestReport:
    why = f"the process of the test ended early, with {code}, and said:\n{said}"
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")


def main(nodeid: str, reports: Path) -> int:
    """Run one test in a new network namespace."""
    namespaces.end_with_the_parent()
    problem = ""
    try:
        namespaces.leave_for_a_new_one()
    except OSError as error:
        problem = f"this machine lets this user make no network namespace: {error}"
    return pytest.main(
        [nodeid, "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", str(TEST_SECONDS)],
        plugins=[Apart(reports, problem)],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
