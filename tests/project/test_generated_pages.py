"""The committed pages that are made from the code are what the code gives."""

import subprocess
import sys
from pathlib import Path

from kvtier.proxy.config import ProxyConfig
from kvtier.server.config import NodeConfig, TierConfig

ROOT = Path(__file__).resolve().parents[2]


def test_the_generated_pages_are_up_to_date() -> None:
    """`make docs` would change nothing."""
    command = [sys.executable, "-m", "tools.gen_docs", "--check"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_every_setting_is_on_the_page_of_settings() -> None:
    """Each has a row with its meaning, also those of groups within groups."""
    page = (ROOT / "docs" / "configuration.md").read_text()

    for model in (NodeConfig, TierConfig, ProxyConfig):
        for name, field in model.model_fields.items():
            assert f"| `{name}` |" in page
            assert f"| {field.description} |" in page
