"""Memory hierarchies of published devices, each with its source and with what is assumed; see `truths` for those of the papers.

Sizes, ways, lines, entries and pages are from the sources. Where a source has no policy, the victim is assumed to be drawn by
LRU in TLBs, tree-PLRU in caches of 4, 8 or 16 ways and LRU in others; where a last cache is in slices, its sets are assumed to
be hashed. Latencies are rounded. Last caches are those that one core or one partition uses, at most 20 MiB.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.published_cpus import MORE_CPUS
from tests.published_gpus import MORE_GPUS
from tests.published_levels import INTEL, Level, Translation, cpu, gpu
from tests.simulated import Machine
from tests.truths import fermi, kepler, maxwell, sectored

JIA_VOLTA = "Jia et al. 2018, Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, tables 3.1 and 3.4"
JIA_TURING = "Jia et al. 2019, Dissecting the NVidia Turing T4 GPU via Microbenchmarking, table 3.1"

PUBLISHED: dict[str, Callable[[], Machine]] = {
    "GTX 560 Ti (Fermi)": fermi,
    "GTX 780 (Kepler)": kepler,
    "GTX 980 (Maxwell)": maxwell,
    "H100": sectored,
    "P100 (Pascal)": lambda: gpu(
        "p100", JIA_VOLTA, (Level(24, 6, 128, 82, 32), Level(4096, 16, 32, 234, sliced=True)), 560,
        (Translation(16, 0, 60), Translation(1024, 8, 250)), 1.33,
    ),
    "V100 (Volta)": lambda: gpu(
        "v100", JIA_VOLTA, (Level(128, 4, 128, 28, 32), Level(6144, 16, 64, 193, 32)), 420,
        (Translation(16, 0, 60), Translation(4096, 8, 250)), 1.38,
    ),
    "T4 (Turing)": lambda: gpu(
        "t4", JIA_TURING, (Level(64, 4, 128, 32, 32), Level(4096, 16, 64, 188, 32, sliced=True)), 440,
        (Translation(16, 0, 60), Translation(4096, 8, 250)), 1.59,
    ),
    "MI60 (GCN)": lambda: gpu(
        "mi60", "AMD, Vega 10 white paper and instruction set: 16 KB of 64 ways and lines of 64 B, 4 MB of 16 ways",
        (Level(16, 64, 64, 120), Level(4096, 16, 64, 300, sliced=True)), 650, (Translation(32, 0, 80),), 1.8,
        "latencies, TLB, policies, the hash of L2", past_first=False,
    ),
    "Haswell": lambda: cpu(
        "haswell", f"{INTEL}, tables on Haswell's caches and TLBs",
        (Level(32, 8, 64, 4), Level(256, 8, 64, 12), Level(8192, 16, 64, 36, sliced=True)), 230,
        (Translation(64, 4, 7), Translation(1024, 8, 25)), 3.4,
    ),
    "Skylake client": lambda: cpu(
        "skylake", f"{INTEL}, tables on Skylake's caches and TLBs",
        (Level(32, 8, 64, 4), Level(256, 4, 64, 12), Level(8192, 16, 64, 42, sliced=True)), 250,
        (Translation(64, 4, 9), Translation(1536, 12, 25)), 4.0,
    ),
    "Skylake server": lambda: cpu(
        "skylake-sp", f"{INTEL}, tables on Skylake server's caches and TLBs",
        (Level(32, 8, 64, 4), Level(1024, 16, 64, 14)), 70, (Translation(64, 4, 9), Translation(1536, 12, 25)), 2.7,
        assumed="policies, no L3, penalties",
    ),
    "Ice Lake client": lambda: cpu(
        "ice-lake", f"{INTEL}, tables on Ice Lake client's caches and TLBs",
        (Level(48, 12, 64, 5), Level(512, 8, 64, 13), Level(8192, 16, 64, 42, sliced=True)), 250,
        (Translation(64, 4, 7), Translation(2048, 16, 25)), 3.7,
    ),
    "Golden Cove": lambda: cpu(
        "golden-cove", f"{INTEL}, tables on Golden Cove's caches and TLBs",
        (Level(48, 12, 64, 5), Level(1280, 10, 64, 15)), 80, (Translation(96, 6, 7), Translation(2048, 16, 25)), 4.5,
        assumed="policies, no L3, penalties",
    ),
    "Zen 2": lambda: cpu(
        "zen-2", "AMD, Software Optimization Guide for Family 17h Models 30h and Greater (56305)",
        (Level(32, 8, 64, 4), Level(512, 8, 64, 12), Level(16384, 16, 64, 39, sliced=True)), 270,
        (Translation(64, 0, 8), Translation(2048, 16, 30)), 3.5,
    ),
    "Zen 3": lambda: cpu(
        "zen-3", "AMD, Software Optimization Guide for Family 19h Processors (56665)",
        (Level(32, 8, 64, 4), Level(512, 8, 64, 12)), 46, (Translation(64, 0, 7), Translation(2048, 16, 30)), 3.9,
        assumed="policies, no L3, penalties",
    ),
    "Cortex-A72": lambda: cpu(
        "cortex-a72", "Arm, Cortex-A72 MPCore Processor Technical Reference Manual (100095): 32 KB of 2 ways, 2 MB of 16",
        (Level(32, 2, 64, 4, policy="LRU"), Level(2048, 16, 64, 22)), 190,
        (Translation(32, 0, 7), Translation(1024, 4, 25)), 1.5,
    ),
    "Xeon Phi (Knights Corner)": lambda: cpu(
        "knc", "Fang et al. 2014, Test-driving Intel Xeon Phi: 32 KB and 512 KB of 8 ways; Intel's TLB of 64 entries",
        (Level(32, 8, 64, 3), Level(512, 8, 64, 24)), 302, (Translation(64, 4, 20),), 1.05,
    ),
    **MORE_CPUS,
    **MORE_GPUS,
}  # fmt: skip
