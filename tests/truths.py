"""Machines that the papers describe, and others that are known, each with its source and with what is assumed.

Figures without a source are assumptions, named in `facts["assumed"]`: no paper says them. Two of the papers' statements do not
fit the rest and are looked at in test_truths.

Fermi's L1. Mei & Chu 2015, section 4.5, overflow 16 KB by one line of 128 B and see the 3rd, 35th, 68th, 100th and 129th line
miss: numbers 2, 34, 67, 99, 128. In 32 plain sets the five lines of a set lie 32 apart, these do not. All five have 0 in bits 9
to 11 of their address, so they are of one of the 8 "major sets", one from each of the four 4 KB that the paper calls ways (bits
12 and 13), and what bits 7 and 8 of them are is 2, 2, 3, 3, 0: the number of the way, halved, added or XORed, makes them equal.
So 32 sets of 4 whose number is bits 7 to 11 with bits 13 and 14 XORed into 7 and 8 explain the trace (`hashed`). Whether it is
XOR or subtraction, these five lines cannot tell. One set of 16 lines for each major set (`major`) would let 17 lines miss.

Its victims, drawn independently with the papers' probabilities, miss 40% of the lines at 20 KB and 60% at 24 KB; the papers saw
at most half miss, so that the draws may not be independent ("updated once every two cache misses").

The L1 TLB replaces by LRU in 2014, table 4, and not by LRU in 2015, table V: LRU here.

The L2 TLB. Both papers see 17 entries missed at 132 MB and 8 more with each further 2 MB up to 144 MB, and conclude on one set
of 17 and six of 8 under LRU. But under LRU a set with one page too many misses all of them, ways + 1: that TLB shows 18, then 9
more each time. 17 and then 8 more is what one set of 16 and seven of 7 show, 65 entries too, and 146 MB would tell them apart;
or the papers counted the entries and not the pages that miss. What is built here is what they conclude; `l2_tlb` builds others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.simulated import MIB, Cache, Machine, Noise, Path, Sets, Tlb, plain

MEI = "Mei et al. 2014"
MEI_CHU = "Mei & Chu 2015"
GPU = Noise(jitter_cycles=1.0, quantum_cycles=1.0, outliers=0.0005, lap_relative=0.002)
CPU = Noise(jitter_cycles=2.0, quantum_cycles=26.0, outliers=0.001, lap_relative=0.003, disturbed=0.01)
FERMI_VICTIMS = (1 / 6, 1 / 2, 1 / 6, 1 / 6)
CONCLUDED = (17, 8, 6)  # the L2 TLB: entries of the large set, of each small one, and how many of these there are


def fermi_sets(mapping: str) -> Sets:
    """The 16 KB L1: `plain` (2014), `hashed` or `major` (2015, see above)."""
    if mapping == "major":
        return Sets((16,) * 8, bits=(9, 10, 11))
    if mapping == "hashed":
        return Sets((4,) * 32, masks=(1 << 7 | 1 << 13, 1 << 8 | 1 << 14, 1 << 9, 1 << 10, 1 << 11))
    return plain(32, 4, 128)


def mei_tlbs(
    first: float | tuple[float, ...], walk: float | tuple[float, ...], l2_tlb: tuple[int, int, int] = CONCLUDED
) -> tuple[Tlb, Tlb]:
    """L1 TLB of 16 entries, fully associative, and L2 TLB of uneven sets; pages of 2 MB. 65 pages in a row fit from where the
    sets begin, and each page after them is one too many for another set, the large one first."""
    large, small, smalls = l2_tlb
    fitting = [1 + page % smalls for page in range(small * smalls)] + [0] * large
    sets = Sets((large, *(small,) * smalls), listed=(*fitting, *range(smalls + 1)))
    return Tlb(plain(1, 16, 2 * MIB), 2 * MIB, first), Tlb(sets, 2 * MIB, walk)


def tlb_align(l2_tlb: tuple[int, int, int] = CONCLUDED) -> int:
    """Where arrays begin that begin where the L2 TLB's sets do."""
    large, small, smalls = l2_tlb
    return (large + 1 + (small + 1) * smalls) * 2 * MIB


def context(penalty: float) -> Tlb:
    """The page-table context of Kepler and Maxwell: pages of one 512 MB region can be reached at a time (pattern P6)."""
    return Tlb(plain(1, 1, 512 * MIB), 512 * MIB, penalty, name="page-table context")


def hashed(sets: int, ways: int, line_bytes: int, spread: int = 5) -> Sets:
    """Equal sets by parities: each bit above the offset in a line with one bit above those of the set."""
    low, bits = line_bytes.bit_length() - 1, sets.bit_length() - 1
    masks = tuple(1 << (low + i) | 1 << (low + bits + (i + spread) % (bits + 3)) for i in range(bits))
    return Sets((ways,) * sets, masks=masks)


def texture_sets(mapping: str, ways: int) -> Sets:
    """Four sets, 128 successive bytes in one of them: `plain` by bits 7 and 8; `hashed`; `scattered`, every 512 B in an order
    of their own, so that consecutive data still fills the sets evenly."""
    if mapping == "hashed":
        return Sets((ways,) * 4, masks=(1 << 7 | 1 << 9 | 1 << 11, 1 << 8 | 1 << 10 | 1 << 12))
    if mapping == "scattered":
        rng = np.random.default_rng(980)
        blocks = [rng.permutation(4) for _ in range(4096)]
        return Sets((ways,) * 4, listed=tuple(int(number) for block in blocks for number in np.repeat(block, 4)))
    return Sets((ways,) * 4, bits=(7, 8))


def fermi(mapping: str = "plain", l1_kib: int = 16, noise: Noise = GPU, seed: int = 1) -> Machine:
    """GTX 560 Ti: global with L1 and past it, texture, local."""
    if l1_kib == 48:
        l1 = Cache(plain(64, 6, 128), 128, 96, "random")
    else:
        victims = tuple(np.repeat(FERMI_VICTIMS, 4) / 4) if mapping == "major" else FERMI_VICTIMS
        l1 = Cache(fermi_sets(mapping), 128, 96, "way-weighted", victims=victims)
    l2 = Cache(hashed(1024, 16, 32), 32, 357, "random")
    past = Cache(l2.sets, 32, 351, "random")
    ahead = 2 * l2.size_bytes // 3
    texture = Cache(texture_sets("plain", 96), 32, 240)
    paths = {
        "global": Path(
            (l1, l2), 635, mei_tlbs((288, 27, 27), (84, 84, 577)), prefetch_bytes=ahead, launch_empties=(0,)
        ),
        "global_cg": Path(
            (past,), 619, mei_tlbs(27, (84, 579)), prefetch_bytes=ahead, prefetch_level=0, launch_empties=(), first_level=2
        ),
        "image1d_buffer": Path((texture, Cache(l2.sets, 32, 470, "random")), 750, launch_empties=(0,)),
        "local": Path((), 50, memory="local"),
    }  # fmt: skip
    assumed = (
        "L2: ways, sets and random victims (the papers: 512 KB, 32 B, not LRU, irregular); texture from memory: 750 cycles"
    )
    if l1_kib == 48:
        assumed += "; random victims in 48 KB (2014, after Meltzer et al. 2013: 6 ways)"
    return Machine(
        f"fermi-{l1_kib}-{mapping}", paths, noise, seed, ghz=1.645, one_arena=True, facts={"assumed": assumed},
        source=f"{MEI}, tables 3 to 5, section 4.2; {MEI_CHU}, sections 4.3 to 4.6, table V, figure 14, section 6.2",
    )  # fmt: skip


def kepler(noise: Noise = GPU, seed: int = 1, l2_tlb: tuple[int, int, int] = CONCLUDED) -> Machine:
    """GTX 780: global memory is cached in L2 alone; read-only and texture path with L1."""
    l2 = Cache(Sets((16,) * 3072), 32, 198, "random")
    behind = Cache(l2.sets, 32, 220, "random")
    tlbs = (*mei_tlbs(6, (53, 357), l2_tlb), context(266))
    ahead = 2 * l2.size_bytes // 3
    paths = {
        "global": Path((l2,), 339, tlbs, prefetch_bytes=ahead, prefetch_level=0, launch_empties=(), first_level=2),
        "image1d_buffer": Path((Cache(texture_sets("plain", 96), 32, 110), behind), 360, launch_empties=(0,)),
        "readonly": Path((Cache(texture_sets("hashed", 96), 32, 110), behind), 360, launch_empties=(0,)),
        "local": Path((), 47, memory="local"),
    }
    assumed = (
        "L2: ways, sets and random victims (1536 KB, 32 B, not LRU, irregular); texture from memory: 360 cycles; the hash of "
        "the read-only cache (128 successive bytes in one set, not by bits) and its latencies"
    )
    return Machine(
        "kepler", paths, noise, seed, ghz=1.006, one_arena=True, facts={"assumed": assumed},
        source=f"{MEI_CHU}, sections 4.3, 4.4 and 4.6, table V, figure 14, section 6.2; {MEI}, table 5",
    )  # fmt: skip


def maxwell(noise: Noise = GPU, seed: int = 1) -> Machine:
    """GTX 980: an L1 of 24 KB that asks no TLB; past it, read-only, local."""
    l1 = Cache(texture_sets("plain", 192), 32, 82)
    l2 = Cache(hashed(4096, 16, 32), 32, 216, "random")
    past = Cache(l2.sets, 32, 214, "random")
    walk = (64, 64, 2043)
    ahead = 2 * l2.size_bytes // 3
    readonly = Cache(texture_sets("scattered", 192), 32, 82)
    paths = {
        "global": Path(
            (l1, l2), 385, (*mei_tlbs(11, walk), context(301)), True, ahead, launch_empties=(0,)
        ),
        "global_cg": Path(
            (past,), 383, (*mei_tlbs(11, (64, 2067)), context(289)), False, ahead, 0, launch_empties=(), first_level=2
        ),
        "readonly": Path((readonly, l2), 385, launch_empties=(0,)),
        "local": Path((), 28, memory="local"),
    }  # fmt: skip
    assumed = "L2: ways, sets and random victims (2048 KB, 32 B, not LRU, irregular); the order of the read-only cache's sets"
    return Machine(
        "maxwell", paths, noise, seed, ghz=1.279, one_arena=True, facts={"assumed": assumed},
        source=f"{MEI_CHU}, sections 4.3 to 4.6, table V, figure 14, section 6.2",
    )  # fmt: skip


def texture(noise: Noise = GPU, seed: int = 1) -> Machine:
    """Kepler's texture L1 as if it were global memory: the cache on which the two classic methods contradict each other."""
    path = kepler().paths["image1d_buffer"]
    return Machine(
        "texture", {"global": path, "image1d_buffer": path}, noise, seed, ghz=1.006, source=f"{MEI_CHU}, sections 4.1 and 4.3",
        facts={"assumed": "L2 and memory behind it, see kepler"},
    )  # fmt: skip


def zen(noise: Noise = CPU, seed: int = 1, no_clock: str = "") -> Machine:
    """A Zen 4 core: 4 KiB pages, L2 and L3 by physical addresses, stream prefetch."""
    caches = (
        Cache(plain(64, 8, 64), 64, 4),
        Cache(plain(2048, 8, 64), 64, 14, "tree-PLRU", frame_bytes=4096),
        Cache(hashed(32768, 16, 64), 64, 50, "random", frame_bytes=4096),
    )
    tlbs = (Tlb(plain(1, 72, 4096), 4096, 7), Tlb(plain(128, 24, 4096), 4096, 30))
    paths = {"global": Path(caches, 400, tlbs, prefetch_bytes=2048)}
    assumed = "latencies, all policies, the hash of L3, depth of prefetch; a real L3 holds what L2 gives up, this one all"
    return Machine(
        "zen", paths, noise, seed, ghz=3.7, no_clock=no_clock, processes=3, facts={"assumed": assumed},
        source="AMD, Software Optimization Guide for the Zen 4 Microarchitecture (57647): sizes, ways and entries",
    )  # fmt: skip


def xeon(noise: Noise = CPU, seed: int = 1, no_clock: str = "") -> Machine:
    """A Sapphire Rapids core: 48 KiB of 12 ways, 2 MiB of 16."""
    caches = (
        Cache(plain(64, 12, 64), 64, 5, "tree-PLRU"),
        Cache(plain(2048, 16, 64), 64, 15, "LRU", frame_bytes=4096),
    )
    tlbs = (Tlb(plain(16, 6, 4096), 4096, 7), Tlb(plain(128, 16, 4096), 4096, 25))
    paths = {"global": Path(caches, 110, tlbs, prefetch_bytes=2048)}
    return Machine(
        "xeon", paths, noise, seed, ghz=3.0, no_clock=no_clock, processes=3,
        source="Intel 64 and IA-32 Architectures Optimization Reference Manual: sizes, ways and entries",
        facts={"assumed": "latencies, all policies, no L3, depth of prefetch"},
    )  # fmt: skip


def sectored(noise: Noise = GPU, seed: int = 1) -> Machine:
    """As an H100: lines of 128 B in sectors of 32 B, an L2 whose far half is slower."""
    l1 = Cache(plain(64, 32, 128), 128, 32, sector_bytes=32)
    near = Cache(Sets((16,) * 12800), 128, 274, "random", 32)
    far = Cache(Sets((16,) * 25600), 128, 540, "random", 32)
    paths = {
        "global": Path((l1, near, far), 676, launch_empties=(0,)),
        "global_cg": Path((near, far), 676, launch_empties=(), first_level=2),
        "local": Path((), 29, memory="local"),
    }
    assumed = "ways, sets, policies; no TLB; that the far half holds what the near half does not"
    return Machine(
        "sectored", paths, noise, seed, ghz=1.98, facts={"assumed": assumed},
        source="NVIDIA H100 white paper: 256 KB of L1 and shared memory, 50 MB of L2; latencies as measured through OpenCL C",
    )  # fmt: skip


def hashed_l2(noise: Noise = GPU, seed: int = 1) -> Machine:
    """A plain L1 before an L2 whose sets are hashed from many bits, on LRU: nothing known but this."""
    caches = (Cache(plain(32, 8, 64), 64, 20), Cache(hashed(1024, 16, 64, 3), 64, 120))
    return Machine("hashed-l2", {"global": Path(caches, 400, launch_empties=(0,))}, noise, seed, source="made up")


TRUTHS: dict[str, Callable[[], Machine]] = {
    "fermi": fermi,
    "fermi-hashed": lambda: fermi("hashed"),
    "fermi-major": lambda: fermi("major"),
    "fermi-48": lambda: fermi(l1_kib=48),
    "kepler": kepler,
    "kepler-16-7x7": lambda: kepler(l2_tlb=(16, 7, 7)),
    "maxwell": maxwell,
    "texture": texture,
    "zen": zen,
    "xeon": xeon,
    "sectored": sectored,
    "hashed-l2": hashed_l2,
}
