"""Write the pages that are made from the code, or check that the committed ones are up to date.

Usage: python -m tools.gen_docs [--check]
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.pages import cli, configuration, metrics
from tools.pages.chart import readme, schema
from tools.pages.dashboard import page as dashboard

ROOT = Path(__file__).resolve().parent.parent
PAGES: Mapping[str, Callable[[], str]] = {
    "deploy/helm/kvtier/README.md": readme.page,
    "deploy/helm/kvtier/files/dashboard.json": dashboard.page,
    "deploy/helm/kvtier/values.schema.json": schema.page,
    "docs/cli.md": cli.page,
    "docs/configuration.md": configuration.page,
    "docs/metrics.md": metrics.page,
}


def outdated() -> list[str]:
    """Return the pages that are not what the code gives."""
    return [
        name
        for name, page in PAGES.items()
        if not (ROOT / name).exists() or (ROOT / name).read_text() != page()
    ]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if outdated")
    check, old = parser.parse_args().check, outdated()
    if check and old:
        sys.exit(f"error: {', '.join(old)} not what the code gives; run make docs")
    for name in old:
        (ROOT / name).write_text(PAGES[name]())


if __name__ == "__main__":
    main()
