"""An S3 server of the tests' own, which a test may kill and start again.

It is moto in a process of its own, which keeps everything in memory: started again, it is empty.
With KVTIER_TEST_S3_ENDPOINT, such as http://127.0.0.1:9000, tests that need no more than an S3
server use that one in its place, with the credentials that are in the environment.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from threading import Thread
from typing import IO, Any, Self

import boto3

REGION = "us-east-1"
KEY, SECRET = "AKIDKVTIERTESTKEY", "kvtier/test/secret+0123456789abcdef"
GIVEN_ENDPOINT = os.environ.get("KVTIER_TEST_S3_ENDPOINT", "")
# Nothing else of the machine's AWS settings is to reach a test.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID", KEY) if GIVEN_ENDPOINT else KEY,
    "AWS_SECRET_ACCESS_KEY": (
        os.environ.get("AWS_SECRET_ACCESS_KEY", SECRET) if GIVEN_ENDPOINT else SECRET
    ),
}
_RUNNING = re.compile(r"Running on (http://[0-9.:]+)")


class S3Server:
    """A server process.

    Attributes:
        endpoint: Its URL; the same after it was started again.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.endpoint = ""
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None
        self._reader: Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, empty, and wait until it serves."""
        port = self.endpoint.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        self.endpoint = self._wait(self._process)

    def kill(self) -> None:
        """End it by SIGKILL, with all that it holds."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._reader is not None:
            self._reader.join()
            self._reader = None

    def _wait(self, process: "subprocess.Popen[str]") -> str:
        assert process.stderr is not None
        log = []
        for line in process.stderr:
            log.append(line)
            if found := _RUNNING.search(line):
                self._reader = Thread(target=_drain, args=(process.stderr,))
                self._reader.start()
                return found[1]
        self.kill()
        raise RuntimeError(f"moto did not start: {''.join(log)[-2000:]}")


def _drain(log: IO[str]) -> None:
    """Read a log, whose writer would stand still otherwise."""
    with log:
        for _ in log:
            pass


def s3_client(endpoint: str) -> Any:
    """Return a client that is not the one under test."""
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )
