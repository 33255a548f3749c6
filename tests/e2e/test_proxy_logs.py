"""What a proxy process says while it runs."""

import json
import subprocess
import sys
from pathlib import Path


def test_what_the_client_library_warns_of_is_a_line_like_all_others(tmp_path: Path) -> None:
    """A file of secondaries that is not there is told as JSON, as a warning."""
    missing = tmp_path / "nodes"
    command = (sys.executable, "-m", "kvtier.proxy", "--primary", "127.0.0.1:9")
    options = ("--listen", "127.0.0.1:0", "--secondaries-file", str(missing))
    with subprocess.Popen(
        (*command, *options), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if str(missing) in line:
                break
        process.terminate()
        lines += process.stderr.readlines()

    (warning,) = [told for told in map(json.loads, lines) if str(missing) in told["event"]]
    assert (warning["level"], warning["logger"]) == ("warning", "kvtier.client.proxy")
    assert process.returncode == 0
