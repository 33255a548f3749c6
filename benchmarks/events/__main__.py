"""What events cost, from a node to its followers, beside vLLM's own publisher.

Usage: python -m benchmarks.events [MEASUREMENT ...] [--vllm WHEEL-OR-FOLDER] [--turns N] [--tiny]

Source and followers are processes of their own on one machine. Both sides take turns within one
run, so that what else the machine does meets both: quote ratios, never an absolute. The ratio is
the median of those of each turn.
"""

import os
from argparse import ArgumentParser, RawDescriptionHelpFormatter

from benchmarks.events import join, latency, slow, subscribe, throughput, vllm
from benchmarks.events.options import Options

_MEASUREMENTS = {
    "throughput": throughput.measure,
    "latency": latency.measure,
    "slow": slow.measure,
    "subscribe": subscribe.measure,
    "join": join.measure,
}


def main() -> None:
    """Run the measurements that the command line names, or all."""
    parser = ArgumentParser(
        "benchmarks.events", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "measurement", nargs="*", help=f"some of {', '.join(_MEASUREMENTS)}; all when none is named"
    )
    parser.add_argument("--vllm", default=os.environ.get("VLLM", ""), help=vllm.HOW_TO_GET_IT)
    parser.add_argument("--turns", type=int, default=3, help="measurements of each kind")
    parser.add_argument("--tiny", action="store_true", help="only show that it works")
    asked = parser.parse_args()
    unknown = set(asked.measurement) - set(_MEASUREMENTS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; see --help")
    if asked.vllm:
        try:
            vllm.load(asked.vllm)
        except (OSError, KeyError, ImportError) as error:
            parser.error(f"vLLM's publisher is not usable: {error}. {vllm.HOW_TO_GET_IT}")
    else:
        print(f"Ours alone, without vLLM's publisher beside it. To have it: {vllm.HOW_TO_GET_IT}")
    options = Options(asked.vllm, asked.turns, asked.tiny)
    for name in asked.measurement or _MEASUREMENTS:
        _MEASUREMENTS[name](options)


if __name__ == "__main__":
    main()
