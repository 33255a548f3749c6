"""What blocks cost that outlive the process, beside plain files and objects, and vLLM's file tier.

Usage: python -m benchmarks.lasting [MEASUREMENT ...] [--directory DIR] [--vllm WHEEL] [--turns N]

All take turns within one run on the same disk or server, so that what else the machine does meets
each: quote ratios, never an absolute. Blocks are stored from memory and loaded into memory; a store
ends when all of its blocks could be loaded.
"""

import asyncio
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.lasting import files, objects
from benchmarks.lasting.turns import Options

_MEASUREMENTS = {"files": files.measure, "objects": objects.measure}


def main() -> None:
    """Run the measurements that the command line names, or all."""
    parser = ArgumentParser(
        "benchmarks.lasting", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("measurement", nargs="*", help="files, objects; all when none is named")
    parser.add_argument("--directory", type=Path, help="where files go; a temporary directory")
    parser.add_argument("--vllm", help="vLLM's wheel, for its file tier")
    parser.add_argument("--turns", type=int, default=7, help="measurements of each kind")
    parser.add_argument("--tiny", action="store_true", help="only show that it works")
    asked = parser.parse_args()
    unknown = set(asked.measurement) - set(_MEASUREMENTS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; see --help")
    with TemporaryDirectory(dir=asked.directory) as directory:
        options = Options(asked.turns, asked.tiny, Path(directory), asked.vllm)
        for name in asked.measurement or _MEASUREMENTS:
            asyncio.run(_MEASUREMENTS[name](options))


if __name__ == "__main__":
    main()
