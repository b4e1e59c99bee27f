"""More CPUs for `published`: sizes, ways, lines, entries and pages from the sources named."""

from __future__ import annotations

from collections.abc import Callable

from tests.published_levels import INTEL, Level, Translation, cpu
from tests.simulated import KIB, Machine

ARM_TLBS = (Translation(48, 0, 7), Translation(1280, 5, 25))
NO_L3 = "policies, no L3, penalties, latency behind L2"

MORE_CPUS: dict[str, Callable[[], Machine]] = {
    "Core 2": lambda: cpu(
        "core-2", f"{INTEL}, tables on the Core microarchitecture's caches and TLBs: L2 of 4 MB, DTLB0 and DTLB1",
        (Level(32, 8, 64, 3), Level(4096, 16, 64, 14)), 200, (Translation(16, 4, 2), Translation(256, 4, 10)), 2.4,
    ),
    "Nehalem": lambda: cpu(
        "nehalem", f"{INTEL}, tables on Nehalem's caches and TLBs; L3 of 8 MB and 16 ways: Molka et al. 2009, section 2",
        (Level(32, 8, 64, 4), Level(256, 8, 64, 10), Level(8192, 16, 64, 38, sliced=True)), 200,
        (Translation(64, 4, 7), Translation(512, 4, 25)), 2.9,
    ),
    "Sandy Bridge": lambda: cpu(
        "sandy-bridge", f"{INTEL}, tables on Sandy Bridge's caches and TLBs; i7-2600: L3 of 8 MB and 16 ways",
        (Level(32, 8, 64, 4), Level(256, 8, 64, 12), Level(8192, 16, 64, 30, sliced=True)), 190,
        (Translation(64, 4, 7), Translation(512, 4, 25)), 3.4,
    ),
    "Ivy Bridge": lambda: cpu(
        "ivy-bridge", f"{INTEL}, tables on Sandy Bridge's caches and TLBs, kept by Ivy Bridge; i5-3570: L3 of 6 MB and 12 ways",
        (Level(32, 8, 64, 4), Level(256, 8, 64, 12), Level(6144, 12, 64, 30, sliced=True)), 200,
        (Translation(64, 4, 7), Translation(512, 4, 25)), 3.4,
    ),
    "Broadwell": lambda: cpu(
        "broadwell", f"{INTEL}, Broadwell: a second TLB of 1536 entries and 6 ways; i7-5600U: L3 of 4 MB and 16 ways",
        (Level(32, 8, 64, 4), Level(256, 8, 64, 12), Level(4096, 16, 64, 36, sliced=True)), 200,
        (Translation(64, 4, 7), Translation(1536, 6, 25)), 2.6,
    ),
    "Kaby Lake": lambda: cpu(
        "kaby-lake", f"{INTEL}, tables on Skylake's caches and TLBs, kept by Kaby Lake; i5-7500: L3 of 6 MB and 12 ways",
        (Level(32, 8, 64, 4), Level(256, 4, 64, 12), Level(6144, 12, 64, 40, sliced=True)), 240,
        (Translation(64, 4, 9), Translation(1536, 12, 25)), 3.8,
    ),
    "Coffee Lake": lambda: cpu(
        "coffee-lake", f"{INTEL}, tables on Skylake's caches and TLBs, kept by Coffee Lake; i7-8700K: L3 of 12 MB and 16 ways",
        (Level(32, 8, 64, 4), Level(256, 4, 64, 12), Level(12288, 16, 64, 44)), 260,
        (Translation(64, 4, 9), Translation(1536, 12, 25)), 4.3, assumed="policies, sets of L3 by a modulus, memory, penalties",
    ),
    "Gracemont": lambda: cpu(
        "gracemont", f"{INTEL}, tables on Gracemont's caches and TLBs: 32 KB of 8 ways, 2 MB of 16 ways for four cores",
        (Level(32, 8, 64, 3), Level(2048, 16, 64, 17)), 80, (Translation(48, 0, 7), Translation(2048, 4, 25)), 3.4,
        assumed=NO_L3,
    ),
    "Sapphire Rapids": lambda: cpu(
        "sapphire-rapids", f"{INTEL}, tables on Golden Cove's caches and TLBs in servers: L2 of 2 MB and 16 ways",
        (Level(48, 12, 64, 5), Level(2048, 16, 64, 15)), 110, (Translation(96, 6, 7), Translation(2048, 16, 25)), 3.0,
        assumed=NO_L3,
    ),
    "K10": lambda: cpu(
        "k10", "AMD, Software Optimization Guide for Family 10h and 12h Processors (40546), sections on caches and TLBs",
        (Level(64, 2, 64, 3, policy="LRU"), Level(512, 16, 64, 14)), 50, (Translation(48, 0, 5), Translation(512, 4, 20)), 2.6,
        assumed=NO_L3,
    ),
    "Piledriver": lambda: cpu(
        "piledriver", "AMD, Software Optimization Guide for Family 15h Processors (47414): 16 KB of 4 ways, 2 MB of 16 ways",
        (Level(16, 4, 64, 4), Level(2048, 16, 64, 20)), 70, (Translation(64, 0, 7), Translation(1024, 8, 25)), 4.0,
        assumed=NO_L3,
    ),
    "Zen 1": lambda: cpu(
        "zen-1", "AMD, Software Optimization Guide for Family 17h Processors (55723): L3 of 8 MB and 16 ways for four cores",
        (Level(32, 8, 64, 4), Level(512, 8, 64, 17), Level(8192, 16, 64, 38, sliced=True)), 300,
        (Translation(64, 0, 8), Translation(1536, 12, 30)), 3.6,
    ),
    "Zen 4": lambda: cpu(
        "zen-4", "AMD, Software Optimization Guide for the Zen 4 Microarchitecture (57647)",
        (Level(32, 8, 64, 4), Level(1024, 8, 64, 14)), 50, (Translation(72, 0, 7), Translation(3072, 24, 30)), 4.5,
        assumed=NO_L3,
    ),
    "Zen 5": lambda: cpu(
        "zen-5", "AMD, Software Optimization Guide for the Zen5 Microarchitecture (58455)",
        (Level(48, 12, 64, 4), Level(1024, 16, 64, 14)), 48, (Translation(96, 0, 7), Translation(4096, 16, 30)), 4.7,
        assumed=NO_L3,
    ),
    "Apple M1, P core": lambda: cpu(
        "m1-p", "Ravichandran et al. 2022, PACMAN, table of caches and TLBs: 8 ways x 256 sets x 64 B, 12 x 8192 x 128 B",
        (Level(128, 8, 64, 3), Level(12288, 12, 128, 18)), 300, (Translation(160, 0, 7), Translation(3072, 12, 25)), 3.2,
        page=16 * KIB, assumed="policies, latency of memory, 160 entries of one set (Johnson 2021, Firestorm), penalties",
    ),
    "Apple M1, E core": lambda: cpu(
        "m1-e", "Ravichandran et al. 2022, PACMAN, table of caches and TLBs: 8 ways x 128 sets x 64 B, 16 x 2048 x 128 B",
        (Level(64, 8, 64, 3), Level(4096, 16, 128, 14)), 250, (Translation(128, 0, 7),), 2.06,
        page=16 * KIB, assumed="policies, latencies, TLB",
    ),
    "Graviton 2 (Neoverse N1)": lambda: cpu(
        "neoverse-n1", "Arm, Neoverse N1 Core Technical Reference Manual (100616), memory management and caches",
        (Level(64, 4, 64, 4), Level(1024, 8, 64, 11)), 90, ARM_TLBS, 2.5, assumed=NO_L3,
    ),
    "Graviton 3 (Neoverse V1)": lambda: cpu(
        "neoverse-v1", "Arm, Neoverse V1 Core Technical Reference Manual (101427): 64 KB of 4 ways, 1 MB of 8 ways, 40 entries",
        (Level(64, 4, 64, 4), Level(1024, 8, 64, 13)), 100, (Translation(40, 0, 7),), 2.6, assumed=f"{NO_L3}, no second TLB",
    ),
    "Cortex-A53": lambda: cpu(
        "cortex-a53", "Arm, Cortex-A53 Technical Reference Manual (DDI 0500): 4 ways, pseudo-random; 16 ways",
        (Level(32, 4, 64, 3, policy="random"), Level(512, 16, 64, 15)), 160,
        (Translation(10, 0, 4), Translation(512, 4, 20)), 1.2,
    ),
    "Cortex-A76": lambda: cpu(
        "cortex-a76", "Arm, Cortex-A76 Core Technical Reference Manual (100798), sections A5.2 and A6.1: 64 KB of 4 ways",
        (Level(64, 4, 64, 4), Level(256, 8, 64, 9)), 120, ARM_TLBS, 2.8,
        assumed="policy of L2, its size of three, no L3, penalties",
    ),
    "A64FX": lambda: cpu(
        "a64fx", "Fujitsu, A64FX Microarchitecture Manual: 64 KiB of 4 ways, 8 MiB of 16 ways, lines of 256 B, pages of 64 KiB",
        (Level(64, 4, 256, 5), Level(8192, 16, 256, 40)), 260, (Translation(16, 0, 7), Translation(1024, 4, 25)), 2.2,
        page=64 * KIB,
    ),
    "POWER9": lambda: cpu(
        "power9", "IBM, POWER9 Processor User's Manual (OpenPOWER): lines of 128 B; 32 KB of 8, 512 KB of 8, 10 MB of 20 ways",
        (Level(32, 8, 128, 4), Level(512, 8, 128, 15), Level(10240, 20, 128, 40)), 300,
        (Translation(64, 0, 10), Translation(1024, 4, 40)), 3.8, page=64 * KIB, assumed="policies, latencies, penalties",
    ),
}  # fmt: skip
