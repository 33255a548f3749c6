"""The client can be imported where only it is installed."""

import subprocess
import sys

_BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "numpy", "cupy", "pydantic", "yaml", "uvloop"} or (
            name.startswith("kvtier.server")
        ):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
import kvtier.client
for name in kvtier.client.__all__:
    getattr(kvtier.client, name)
loaded = [m for m in sys.modules if m.startswith("kvtier.server")]
print("imported", loaded)
"""


def test_cryptography_waits_for_a_certificate() -> None:
    """It costs as much as all the rest: neither the import nor a token brings it."""
    script = (
        "import sys, kvtier.client\n"
        "kvtier.client.Credentials(token='t')\n"
        "print([name for name in sys.modules if name.startswith('cryptography')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout.strip() == "[]", done.stderr


def test_the_client_needs_neither_the_server_nor_its_extras() -> None:
    """With torch, NumPy, CuPy, the server and its libraries out of reach, everything is there."""
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKED], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout.strip() == "imported []", done.stderr
