"""What moving blocks costs, beside others that move bytes.

Usage: python -m benchmarks.bulk [MEASUREMENT ...] [--turns N] [--tiny]

Every contender is a client process and a server process on one machine. All take turns within one
run, so that what else the machine does meets each: quote ratios, never an absolute. How to add a
contender is told in `benchmarks/bulk/contender.py`.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter

from benchmarks.bulk import hosts, lookups
from benchmarks.bulk.options import Options

_MEASUREMENTS = {"hosts": hosts.measure, "lookups": lookups.measure}


def main() -> None:
    """Run the measurements that the command line names, or all."""
    parser = ArgumentParser(
        "benchmarks.bulk", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "measurement", nargs="*", help=f"some of {', '.join(_MEASUREMENTS)}; all when none is named"
    )
    parser.add_argument("--turns", type=int, default=5, help="measurements of each kind")
    parser.add_argument("--tiny", action="store_true", help="only show that it works")
    asked = parser.parse_args()
    unknown = set(asked.measurement) - set(_MEASUREMENTS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; see --help")
    options = Options(asked.turns, asked.tiny)
    for name in asked.measurement or _MEASUREMENTS:
        _MEASUREMENTS[name](options)


if __name__ == "__main__":
    main()
