"""More GPUs for `published`: sizes and lines from the sources named, ways where they have them."""

from __future__ import annotations

from collections.abc import Callable

from tests.published_levels import Level, Translation, gpu
from tests.simulated import Machine

JIA_VOLTA = "Jia et al. 2018, Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, table 3.1"
AMD_TLB = (Translation(32, 0, 80),)
NVIDIA_TLBS = (Translation(16, 0, 60), Translation(1024, 8, 250))
ASSUMED_AMD = "latencies, TLB, policies, the hash of L2"

MORE_GPUS: dict[str, Callable[[], Machine]] = {
    "K80 (Kepler)": lambda: gpu(
        "k80", f"{JIA_VOLTA}: L1 of 16 KiB with lines of 128 B, L2 of 1,536 KiB with lines of 32 B",
        (Level(16, 4, 128, 35), Level(1536, 16, 32, 200)), 340, NVIDIA_TLBS, 0.88,
    ),
    "M60 (Maxwell)": lambda: gpu(
        "m60", f"{JIA_VOLTA}: L1 of 24 KiB, L2 of 2,048 KiB with lines of 32 B",
        (Level(24, 6, 128, 82, 32), Level(2048, 16, 32, 207, sliced=True)), 370, NVIDIA_TLBS, 1.18,
    ),
    "P4 (Pascal GP104, as GTX 1080)": lambda: gpu(
        "p4", f"{JIA_VOLTA}: L1 of 24 KiB, L2 of 2,048 KiB with lines of 32 B",
        (Level(24, 6, 128, 82, 32), Level(2048, 16, 32, 216, sliced=True)), 430, NVIDIA_TLBS, 1.53,
    ),
    "A100 (Ampere), near L2": lambda: gpu(
        "a100", "NVIDIA A100 white paper: L2 of 40 MB in two partitions; Abdelkhalik et al. 2022: latencies of 33, 200 and 290",
        (Level(128, 4, 128, 33, 32), Level(20480, 16, 128, 200, 32)), 290, (Translation(16, 0, 60),), 1.41,
        "policies, ways, sectors, 128 KB of L1, that the far partition holds nothing, TLB",
    ),
    "RTX 3090 (Ampere)": lambda: gpu(
        "rtx-3090", "NVIDIA GA102 white paper: 128 KB of L1 and shared memory, L2 of 6,144 KB",
        (Level(128, 4, 128, 34, 32), Level(6144, 16, 128, 220, 32)), 520, NVIDIA_TLBS, 1.7,
        "policies, ways, lines, latencies, all of L1 for data, TLBs",
    ),
    "MI100 (CDNA)": lambda: gpu(
        "mi100", "AMD CDNA white paper: L1 of 16 KB with lines of 64 B, L2 of 8 MB, 16 ways, in 16 slices, lines of 128 B",
        (Level(16, 64, 64, 120), Level(8192, 16, 128, 300, sliced=True)), 700, AMD_TLB, 1.5, f"{ASSUMED_AMD}, ways of L1",
        past_first=False,
    ),
    "MI210 (CDNA 2)": lambda: gpu(
        "mi210", "AMD CDNA 2 white paper: L2 of 8 MB, 16 ways, 32 channels, lines of 128 B; ROCm documentation: L1 of 16 KiB",
        (Level(16, 64, 64, 125), Level(8192, 16, 128, 320, sliced=True)), 750, AMD_TLB, 1.7, f"{ASSUMED_AMD}, ways of L1",
        past_first=False,
    ),
    "MI300X (CDNA 3), one XCD": lambda: gpu(
        "mi300x", "AMD CDNA 3 white paper: L1 of 32 KB with lines of 128 B, L2 of 4 MB and 16 ways in 16 channels",
        (Level(32, 64, 128, 120), Level(4096, 16, 128, 220, sliced=True)), 480, AMD_TLB, 2.1,
        f"{ASSUMED_AMD}, ways of L1, no Infinity Cache", past_first=False,
    ),
    "RX 5700 XT (RDNA)": lambda: gpu(
        "rx-5700-xt", "AMD RDNA white paper: lines of 128 B; 16 KB of 4 ways, 128 KB of 16 ways, 4 MB of 16 ways",
        (Level(16, 4, 128, 90), Level(128, 16, 128, 190), Level(4096, 16, 128, 380, sliced=True)), 800, AMD_TLB, 1.75,
        ASSUMED_AMD, past_first=False,
    ),
    "HD 530 (Gen9)": lambda: gpu(
        "gen9", "Intel, The Compute Architecture of Intel Processor Graphics Gen9: L3 of 768 KB in a slice, lines of 64 B",
        (Level(768, 16, 64, 190),), 450, (Translation(32, 0, 60),), 1.15, "ways, policy, latencies, TLB; no LLC",
        past_first=False,
    ),
}  # fmt: skip
