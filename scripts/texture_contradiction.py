"""Shows the papers' contradiction on the texture cache: both classic methods and the trace of single accesses, side by side.

Simulates the texture L1 of Fermi and Kepler with noise (Mei & Chu 2015, section 4.5: 12 KB, 32 B lines, 4 sets of 96 by address
bits 7 and 8), and prints the result of each method, the conclusion, and its reason.
Usage: python scripts/texture_contradiction.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clmembench.model import Answer, Experiment
from clmembench.report import render
from clmembench.report.table import one_table
from clmembench.studies.hierarchy.classic.methods import ClassicReadings, overflow_traces, read_overflow_traces
from clmembench.studies.hierarchy.classic.saavedra import read_saavedra, saavedra_chases
from clmembench.studies.hierarchy.classic.wong import read_wong, wong_chases
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.views.classic_table import classic_section
from tests.simulated import Cache, Machine, Noise, Sets, plain
from tests.simulated import Path as Way

L2 = Cache(plain(512, 16, 128), 128, 230.0)
TEXTURE = Cache(Sets((96,) * 4, bits=(7, 8)), 32, 110.0)
SAAVEDRA_BYTES = 4 * TEXTURE.size_bytes  # the size at which the line is read from Saavedra's figure
WONG_STRIDE_BYTES = 32  # of Wong's figure
NOISE = Noise(jitter_cycles=2.0, outliers=0.005, lap_relative=0.0005)


def main() -> None:
    """Measures, infers and prints."""
    machine = Machine("texture L1", {"global": Way((TEXTURE, L2), 600.0)}, NOISE, 1)

    def asked(experiment: Experiment[tuple[Answer, ...]]) -> tuple[Answer, ...]:
        return replay(experiment, lambda probes: [machine.answer(probe) for probe in probes])

    strides, sizes = asked(saavedra_chases()), asked(wong_chases(WONG_STRIDE_BYTES))
    fine = read_overflow_traces(asked(overflow_traces(TEXTURE.size_bytes)), TEXTURE.size_bytes)
    by_strides = read_saavedra(strides, at_bytes=SAAVEDRA_BYTES)
    read = ClassicReadings("texture", strides, sizes, by_strides, read_wong(sizes), fine)
    print(render.text(one_table(classic_section(read))))


if __name__ == "__main__":
    main()
