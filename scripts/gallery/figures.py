"""Figures and pages that are drawn from stored runs; figures.json keeps a hash of the runs that each was drawn from.

They are not made anew to be compared, since it takes a minute and a browser: one is stale where its runs are others by now.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from clmembench.cli.program import app
from scripts.gallery import inside
from scripts.gallery.run_numbers import ROOT, RUNS

HASHES = Path(__file__).with_name("figures.json")


def latency(figure: Path, runs: Sequence[Path]) -> None:
    """Latency over the working set."""
    import matplotlib.pyplot as plt

    import clmembench

    plt.rcParams["svg.hashsalt"] = "clmembench"  # the same bytes each time
    clmembench.plots.latency(clmembench.read(runs))
    plt.savefig(figure, metadata={"Date": None})


def memory_divergence(figure: Path, runs: Sequence[Path]) -> None:
    """Latency stack and errors of the models of memory divergence."""
    figure.unlink(missing_ok=True)
    app(["model", "validate", *map(str, runs), "--figure", str(figure)], standalone_mode=False)


def report(page: Path, runs: Sequence[Path]) -> None:
    """The report on the runs."""
    app(["report", *map(str, runs), "-o", str(page), "--overwrite"], standalone_mode=False)


def comparison(page: Path, runs: Sequence[Path]) -> None:
    """The report on all runs, and the picture of its first screen."""
    subprocess.run([sys.executable, str(ROOT / "scripts" / "first_screen.py")], check=True)


# a figure: its runs by their names in reports, or patterns, and what draws it
FIGURES: dict[str, tuple[tuple[str, ...], Callable[[Path, Sequence[Path]], None]]] = {
    "docs/h200-inside.svg": (("h200-sxm-topology",), inside.draw),
    "docs/latency.svg": (("h200-sxm-all", "xeon-2-cores-pocl-quick", "epyc-2-cores-pocl-all"), latency),
    "docs/memory-divergence-h200.svg": (("h200-sxm-mdm",), memory_divergence),
    "reports/access.html": (
        ("h200-sxm-access", "h200-sxm-mnf", "xeon-2-cores-pocl-access", "xeon-2-cores-pocl-mnf"),
        report,
    ),
    "reports/comparison.html": (("*",), comparison),
}


def stale() -> Iterator[str]:
    """The figures whose runs are not those that they were drawn from."""
    kept = json.loads(HASHES.read_text(encoding="utf-8")) if HASHES.exists() else {}
    return (name for name in FIGURES if kept.get(name) != _hash(runs_of(name)) or not (ROOT / name).exists())


def draw(names: Sequence[str]) -> None:
    """Draw these figures anew."""
    kept = json.loads(HASHES.read_text(encoding="utf-8")) if HASHES.exists() else {}
    for name in names:
        FIGURES[name][1](ROOT / name, runs_of(name))
        kept[name] = _hash(runs_of(name))
        HASHES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def runs_of(name: str) -> list[Path]:
    """The stored runs that a figure shows."""
    return [path for pattern in FIGURES[name][0] for path in sorted(RUNS.glob(f"{pattern}.jsonl.gz"))]


def _hash(paths: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()
