"""Measures the error rates of an interleaved A/B run on simulated hosts with known ground truth.

Usage: python scripts/interleaved_error_rate.py [RUNS] | python scripts/site_tables.py interleaved-error-rates
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.paired_rounds import HOSTS, decided

SLOWDOWNS = (1.0, 1.05, 1.1, 1.2, 1.5)


def main(runs: int) -> None:
    """Prints a line for each host and slowdown: the shares of verdicts and the median number of rounds."""
    print("| host | B is slower by | faster | slower | same | undecided | rounds |\n|---|--:|--:|--:|--:|--:|--:|")
    for host in HOSTS:
        for slowdown in SLOWDOWNS:
            found = [decided(host, slowdown, run) for run in range(runs)]
            said = Counter(decision.verdict for decision in found)
            shares = " | ".join(f"{said[verdict] / runs:.1%}" for verdict in ("faster", "slower", "same", "undecided"))
            rounds = statistics.median(decision.rounds for decision in found)
            print(f"| {host} | {slowdown - 1:.0%} | {shares} | {rounds:.0f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
