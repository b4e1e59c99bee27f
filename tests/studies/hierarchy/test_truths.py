"""The papers' machines show what the papers measured, and where two statements of a paper do not fit, what does."""

from __future__ import annotations

import numpy as np
import pytest

from clmembench.model import Pattern, Probe
from tests.cases import each
from tests.hierarchy import latencies_of
from tests.simulated import KIB, MIB, Noise, Path, Simulation
from tests.truths import TRUTHS, fermi, kepler, maxwell, texture

EXACT = Noise()


def cycles(path: Path, *laps: np.ndarray, base: int = 0) -> np.ndarray:
    """Latencies of the last of these laps, chased one after another from empty caches on."""
    simulation = Simulation(path, 1)
    for lap in laps:
        _, codes = simulation.run(lap, lap.size, base, record=lap.size)
    return latencies_of(path)[codes]


def misses(machine, space: str, size_bytes: int, stride_bytes: int) -> int:
    """Lines that miss the nearest cache in a warm lap."""
    lap = np.arange(0, size_bytes, stride_bytes)
    path = machine.paths[space]
    return int((cycles(path, lap, lap, lap) > path.caches[0].hit_cycles).sum())


def ever_missing(machine, lines: int, line_bytes: int) -> list[int]:
    """Lines of an array that ever miss the first cache, chased in sequence many times after a few laps of warm-up."""
    path, lap = machine.paths["global"], np.arange(lines) * line_bytes
    simulation = Simulation(path, 1)
    simulation.run(lap, 3 * lines)
    _, codes = simulation.run(lap, 400 * lines, record=400 * lines)
    missed = codes.reshape(400, lines) % (len(path.caches) + 1) > 0
    return np.flatnonzero(missed.any(axis=0)).tolist()


def test_the_papers_trace_of_fermi_needs_hashed_sets():
    """Mei & Chu 2015, section 4.5: overflowed by one line, the 3rd, 35th, 68th, 100th and 129th line miss, and no others."""
    assert ever_missing(fermi("hashed"), 129, 128) == [2, 34, 67, 99, 128]
    assert ever_missing(fermi("plain"), 129, 128) == [0, 32, 64, 96, 128]
    major = ever_missing(fermi("major"), 129, 128)
    assert len(major) == 17 and set(major) > {2, 34, 67, 99, 128}


@pytest.mark.parametrize(("lines", "share"), [(160, 0.40), (192, 0.60)])
def test_fermis_victims_spare_lines_that_lru_would_miss(lines, share):
    """Mei et al. 2014, figure 9, saw at most half of the lines miss from 16 to 24 KB, where LRU would miss all from 20 KB on.
    Victims of the stated probabilities, one independent of the other, come to 40% at 20 KB and pass one half at 24 KB."""
    path, lap = fermi().paths["global"], np.arange(lines) * 128
    simulation = Simulation(path, 1)
    simulation.run(lap, 20 * lines)
    counts, _ = simulation.run(lap, 300 * lines)
    assert 1 - counts[:: len(path.caches) + 1].sum() / counts.sum() == pytest.approx(share, abs=0.015)


@pytest.mark.parametrize("mapping", ["plain", "hashed", "major"])
def test_fermis_l1_holds_16_kib_in_every_mapping(mapping):
    assert misses(fermi(mapping), "global", 16 * KIB, 128) == 0
    assert fermi(mapping).paths["global"].caches[0].size_bytes == 16 * KIB


def test_fermi_of_48_kib_has_six_ways():
    assert misses(fermi(l1_kib=48), "global", 48 * KIB, 128) == 0
    lap = np.arange(7) * 8 * KIB
    assert len(set(cycles(fermi(l1_kib=48).paths["global"], *[lap[:6]] * 3))) == 1
    assert (cycles(fermi(l1_kib=48).paths["global"], *[lap] * 3) > 96).any()


@pytest.mark.parametrize(
    ("machine", "space", "size_kib"),
    [(kepler(), "image1d_buffer", 12), (kepler(), "readonly", 12), (maxwell(), "global", 24), (maxwell(), "readonly", 24)],
)
def test_texture_caches_overflow_set_by_set_in_128_bytes(machine, space, size_kib):
    """Mei & Chu 2015, section 4.3: under LRU each 128 B more let one more of four sets miss, all above 12.5 KB."""
    ways, full = size_kib * KIB // 128, size_kib * KIB
    assert misses(machine, space, full, 32) == 0
    assert [misses(machine, space, full + 128 * more, 32) // (ways + 4) for more in (1, 2, 3)] == [1, 2, 3]
    assert misses(machine, space, full + 512, 32) == (full + 512) // 32


def test_the_two_classic_methods_contradict_each_other_on_the_texture_cache():
    """Mei & Chu 2015, section 4.1: by stride (Saavedra 1992) lines of 32 B; by size (Wong 2010) plateaus 128 B wide."""
    machine = texture(EXACT)
    mean = lambda pattern: machine.answer(Probe(pattern)).value  # noqa: E731
    by_stride = [mean(Pattern("sequential", 48 * KIB // stride, stride)) for stride in (8, 16, 32, 64)]
    assert by_stride[:2] == pytest.approx([137.5, 165]) and by_stride[2:] == pytest.approx([220] * 2)
    by_size = [mean(Pattern("sequential", 384 + more, 32)) for more in range(17)]
    steps = np.flatnonzero(np.diff(by_size) > 5)
    assert steps.tolist() == [0, 4, 8, 12]


def l2_tlb_missed(machine, pages: int) -> int:
    """From where the sets begin, which address 0 does."""
    path = machine.paths["global"]
    simulation = Simulation(path, 1)
    lap = np.arange(pages) * 2 * MIB
    simulation.run(lap, 3 * pages)
    _, codes = simulation.run(lap, pages, record=pages)
    return int((codes // (len(path.caches) + 1) >= 2).sum())


def test_what_the_papers_conclude_of_the_l2_tlb_is_not_what_they_counted():
    """Mei & Chu 2015, section 4.4: none of 65 entries missed, then 17, then 8 more with each page, at 132 to 144 MB."""
    counted = [0, *range(17, 17 + 7 * 8, 8)]
    concluded = [l2_tlb_missed(kepler(), pages) for pages in range(65, 73)]
    assert concluded == [0, *range(18, 18 + 7 * 9, 9)]
    others = [l2_tlb_missed(kepler(l2_tlb=(16, 7, 7)), pages) for pages in range(65, 74)]
    assert others[:8] == counted and others[8] == 73


def test_the_l1_tlb_has_16_entries():
    for machine in (fermi(), kepler()):
        lap = np.arange(17) * (2 * MIB + 128)
        path = machine.paths["global"]
        assert cycles(path, lap[:16], lap[:16]).max() == path.caches[0].hit_cycles
        assert cycles(path, lap, lap).min() > path.caches[0].hit_cycles


PATTERNS = {  # Mei & Chu 2015, figure 14
    ("maxwell", "global"): (82, 82, 82, 385, 2439, 2740),
    ("maxwell", "global_cg"): (214, 225, 289, 383, 2461, 2750),
    ("kepler", "global"): (198, 204, 257, 339, 702, 968),
    ("fermi", "global"): (96, 384, 468, 635, 1239, 1239),
    ("fermi", "global_cg"): (351, 378, 462, 619, 1225, 1225),
}


@pytest.mark.parametrize(("name", "space"), PATTERNS)
def test_the_six_latency_patterns_are_the_papers(name, space):
    path = TRUTHS[name]().paths[space]
    pages = np.arange(72) * (2 * MIB + 128)
    p1 = cycles(path, np.array([0]), np.array([0]))[0]
    p2 = cycles(path, pages[:17], pages[:17])[1]
    p3 = cycles(path, pages, pages)[1]
    p4 = cycles(path, np.array([0, 1536 * KIB]))[1]
    p5 = cycles(path, pages[:17])[1]
    p6 = cycles(path, np.array([0, 600 * MIB]))[1]
    assert (p1, p2, p3, p4, p5, p6) == PATTERNS[name, space]


def test_cold_data_in_sequence_is_prefetched_into_l2():
    """Mei & Chu 2015, section 4.6: only the first item is from memory where the array is under two thirds of L2."""
    lap = np.arange(300 * KIB // 128) * 128
    found = cycles(fermi().paths["global"], lap)
    assert (found >= 635).tolist() == [True] + [False] * (lap.size - 1)


@each("name", TRUTHS)
def test_every_machine_answers_and_states_its_truth(name):
    machine = TRUTHS[name]()
    first = machine.truth["levels"][0]
    answer = machine.answer(Probe(Pattern("random", 8, 128)))
    assert answer.value == pytest.approx(first["latency_cycles"], rel=0.02)
    trace = machine.answer(Probe(Pattern("random", 8, 128), mode="trace", record=16))
    assert trace.latencies.shape == (3, 16)
    assert machine.source and {"size_bytes", "line_bytes", "sector_bytes", "ways", "sets", "policy"} <= set(first)


def test_a_lap_that_fits_l2_is_pooled_over_page_frames():
    """Physical addresses: near its capacity the Zen-like L2 already misses, and every process differently."""
    machine = TRUTHS["zen"]()
    half, full = (machine.answer(Probe(Pattern("random", kib * 16, 64, seed=1))) for kib in (256, 1024))
    assert half.value < 35 and full.value > half.value + 3  # the TLB's misses are in both
    assert full.high - full.low > half.high - half.low
