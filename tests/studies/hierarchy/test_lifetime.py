"""infer.hierarchy.residence: capacities by how long lines of a scan stay, in simulated memories and on PoCL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clmembench.model import CacheLevel, Pattern, Probe
from clmembench.model.address_patterns import probe_bytes, scan_offsets, timed_numbers
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.curve.curve_steps import CurveStep
from clmembench.studies.hierarchy.curve.latency_curve import LatencyCurve
from clmembench.studies.hierarchy.levels.lifetime import Looks, Residence, ScannedLevel, measure_residence, residence_of
from clmembench.studies.hierarchy.levels.scanned_levels import with_scanned_sizes, with_share_of_last
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import ProbeSession
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, plain

LINE = 64
NOISE = Noise(jitter_cycles=1.0, bias_cycles=6.0, quantum_cycles=1.0, outliers=0.001)
FIRST = Cache(plain(64, 8, LINE), LINE, 5.0)


def hashed(sets: int, ways: int, line: int = LINE) -> Sets:
    low, bits = line.bit_length() - 1, sets.bit_length() - 1
    masks = [1 << (low + i) | 1 << (low + bits + i) | 1 << (low + bits + (i + 3) % bits) for i in range(bits)]
    return Sets((ways,) * sets, masks=tuple(masks))


def machine(*caches: Cache, noise: Noise = NOISE, memory: float = 100.0) -> Machine:
    return Machine("test", {"global": Path((FIRST, *caches), memory)}, noise, 7, one_arena=True)


def level(least: float, unit: int = LINE, hit: float = 25.0, miss: float = 100.0, most: int = 1 << 30) -> ScannedLevel:
    return ScannedLevel(ProbeSession(), "global", unit, hit, (hit + miss) / 2, miss - hit, least, 32 * KIB, most)


def answers(device: Machine):
    return lambda probes: [device.answer(probe) for probe in probes]


@pytest.mark.parametrize(
    ("sets", "ways", "policy", "line", "frame"),
    [
        (2048, 8, "LRU", 64, 4096),
        (512, 16, "random", 64, 4096),
        (1024, 12, "tree-PLRU", 128, 4096),
        (1024, 16, "NRU", 64, 0),
        pytest.param(4096, 16, "LRU", 128, 0, marks=pytest.mark.slow),
        pytest.param(1024, 16, "FIFO", 64, 4096, marks=pytest.mark.slow),
        pytest.param(4096, 11, "random", 64, 4096, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_lines_stay_for_as_many_bytes_as_a_cache_holds(sets: int, ways: int, policy: str, line: int, frame: int) -> None:
    """Whatever maps lines to sets and whatever is replaced; a line longer than the distance of loads counts as its bytes."""
    cache = Cache(hashed(sets, ways, line), line, 25.0, policy, frame_bytes=frame)
    found = replay(measure_residence(level(0.7 * cache.size_bytes)), answers(machine(cache)))
    assert isinstance(found, Residence)
    assert found.behind is None
    assert found.nbytes == pytest.approx(cache.size_bytes, rel=0.02)
    assert 0.99 * found.low <= cache.size_bytes <= 1.01 * found.high
    assert found.high - found.low <= 0.08 * found.nbytes
    assert found.evidence


@pytest.mark.slow
def test_where_others_use_the_core_the_outcomes_are_told_by_what_is_seen() -> None:
    """Laps show no plateau of the third cache, and a quarter of all accesses is late, hits too."""
    second, third = Cache(hashed(1024, 8), LINE, 25.0), Cache(hashed(8192, 16), LINE, 70.0, "random", frame_bytes=4096)
    late = Noise(jitter_cycles=3.0, bias_cycles=6.0, quantum_cycles=2.0, outliers=0.25, outlier_cycles=60.0)
    busy = replace(level(0.4 * second.size_bytes, miss=300.0), busy=True)
    found = replay(measure_residence(busy), answers(machine(second, third, noise=late, memory=300.0)))
    assert isinstance(found, Residence)
    assert found.nbytes == pytest.approx(second.size_bytes, rel=0.05)
    assert found.low <= 1.01 * second.size_bytes and found.high >= 0.99 * second.size_bytes


def test_what_cannot_be_scanned_says_why() -> None:
    cache = Cache(hashed(1024, 16), LINE, 25.0)
    least = 0.7 * cache.size_bytes
    mute = replace(machine(cache), no_clock="no clock can be read inside a kernel")
    assert replay(measure_residence(level(least)), answers(mute)) == "no clock can be read inside a kernel"
    coarse = machine(cache, noise=Noise(quantum_cycles=64.0))
    assert "steps by 64 does not tell" in replay(measure_residence(level(least)), answers(coarse))
    assert "too much memory" in replay(measure_residence(level(least, most=4 * MIB)), answers(machine(cache)))


@pytest.mark.parametrize(("most", "turns"), [(1 << 30, 8), (96 * MIB, 2)])
def test_where_memory_is_small_repeats_come_sooner_to_the_same_lines(most: int, turns: int) -> None:
    cache = Cache(hashed(512, 8), LINE, 25.0, frame_bytes=4096)
    asked = level(0.7 * cache.size_bytes, most=most)
    found = replay(measure_residence(asked), answers(machine(cache)))
    assert isinstance(found, Residence)
    assert found.nbytes == pytest.approx(cache.size_bytes, rel=0.02)
    assert {probe.turns for probe in asked.asked.answers} == {turns}
    assert all(probe_bytes(probe) <= most for probe in asked.asked.answers)


def test_a_level_that_laps_do_not_tell_from_the_one_before_is_found() -> None:
    """Between what a hit costs and what memory does another level serves most: both sizes, and its latency."""
    second = Cache(hashed(512, 8), LINE, 25.0, frame_bytes=4096)
    third = Cache(hashed(1024, 16), LINE, 90.0, "random", frame_bytes=4096)
    device = machine(second, third, memory=600.0)
    asked = level(0.7 * second.size_bytes, miss=600.0)
    whole = replay(measure_residence(asked), answers(device))
    assert isinstance(whole, Residence)
    assert whole.behind is not None
    assert whole.nbytes == pytest.approx(third.size_bytes, rel=0.03)
    assert whole.behind.slower_by == pytest.approx(65.0, abs=2.0)
    inner = replay(measure_residence(asked.part(whole.behind)), answers(device))
    assert isinstance(inner, Residence)
    assert inner.nbytes == pytest.approx(second.size_bytes, rel=0.03)


def curve(step: CurveStep) -> LatencyCurve:
    first = CurveStep(5.0, 2.5, step.hit, 31 * KIB, 36 * KIB, 40 * KIB)
    values = 5.0, step.miss
    return LatencyCurve(
        (1 * KIB, 64 * MIB), values, tuple(v / 2 for v in values), (first, step), step.miss, step.miss / 2, 0.002
    )


def cache_level(number: int, hit: float, **sure: object) -> CacheLevel:
    names = ("size_bytes", "line_bytes", "sector_bytes", "ways", "sets", "policy")
    unknown = {name: undetermined_finding(name, "no stride tells") for name in names}
    unknown["latency_cycles"] = measured_finding("latency_cycles", hit, "plateau", ("chase:0",))
    known = {name: measured_finding(name, value, "strides", ("chase:0",)) for name, value in sure.items()}  # type: ignore[arg-type]
    return CacheLevel(f"L{number}", "global", {**unknown, **known})


def test_a_level_gets_its_size_and_its_sets() -> None:
    second = Cache(hashed(512, 8), LINE, 25.0, frame_bytes=4096)
    step = CurveStep(25.0, 12.5, 100.0, 180 * KIB, 210 * KIB, 1 * MIB)
    known = {"size_bytes": 32 * KIB, "line_bytes": 64, "policy": "LRU"}
    levels = [cache_level(1, 5.0, **known), cache_level(2, 25.0, line_bytes=64, ways=8)]
    found, far = replay(with_scanned_sizes(ProbeSession(), levels, curve(step), 1 << 30), answers(machine(second)))
    assert isinstance(far, str) or far is None
    assert found[0] == levels[0]
    assert (found[1].findings["size_bytes"].value, found[1].findings["sets"].value) == (second.size_bytes, 512)


@pytest.mark.slow
def test_levels_get_their_sizes_and_their_sets_and_a_hidden_one_is_a_level_with_bounds() -> None:
    second = Cache(hashed(1024, 8), LINE, 25.0, frame_bytes=4096)
    third = Cache(hashed(8192, 8), LINE, 90.0, "FIFO", frame_bytes=4096)
    device = machine(second, third, memory=600.0)
    step = CurveStep(25.0, 12.5, 600.0, 360 * KIB, 420 * KIB, 12 * MIB)
    known = {"size_bytes": 32 * KIB, "line_bytes": 64, "policy": "LRU"}
    levels = [cache_level(1, 5.0, **known), cache_level(2, 25.0, line_bytes=64, ways=8)]
    found, far = replay(with_scanned_sizes(ProbeSession(), levels, curve(step), 1 << 30), answers(device))
    assert far is None
    assert [one.name for one in found] == ["L1", "L2", "L3"]
    assert found[0] == levels[0]
    assert (found[1].findings["size_bytes"].value, found[1].findings["sets"].value) == (second.size_bytes, 1024)
    size = found[2].findings["size_bytes"]  # the second may hold lines that this one evicted, or none
    assert size.low is not None and size.high is not None
    assert 0.85 * third.size_bytes <= size.low <= third.size_bytes <= size.high <= 1.1 * third.size_bytes
    assert found[2].findings["latency_cycles"].value == pytest.approx(90.0, abs=2.0)
    assert found[2].findings["ways"].reason == "laps do not tell it from the level before"


def test_of_a_cache_that_others_use_the_share_is_told_and_no_upper_bound() -> None:
    """What all caches together hold, whatever the levels' latencies between the last known one and memory."""
    second, third = Cache(hashed(512, 8), LINE, 25.0), Cache(hashed(2048, 16), LINE, 60.0, "random", frame_bytes=4096)
    device = machine(second, third, memory=400.0)
    step = CurveStep(25.0, 12.5, 400.0, 180 * KIB, 210 * KIB, 1 * MIB)
    last = cache_level(3, 60.0)
    bounded = replace(last.findings["size_bytes"], low=1.0 * MIB, high=1.5 * MIB)
    levels = [cache_level(2, 25.0), replace(last, findings={**last.findings, "size_bytes": bounded})]
    memory = cache_level(4, 400.0)
    found = replay(with_share_of_last(ProbeSession(), levels, curve(step), memory, 1 << 30), answers(device))
    assert found[0] == levels[0]
    size, together = (found[1].findings[name] for name in ("size_bytes", "all_caches_bytes"))
    assert (size.status, size.low, size.high) == ("undetermined", 1.0 * MIB, None)
    assert "others on the host" in size.reason
    assert together.value == pytest.approx(third.size_bytes, rel=0.05)


def test_of_caches_that_keep_some_lines_there_is_a_lower_bound() -> None:
    """An eighth of the lines hit at any age; of one core's own cache nothing is said then."""
    since = np.linspace(0.0, 16.0 * MIB, 65)
    hits = np.where(np.arange(800)[:, None] < 100, True, since[None, :] < 4 * MIB)
    latencies = np.where(hits, 60.0, 400.0)
    looks = [Looks(since, latencies + shift) for shift in (0.0, 1.0)]
    own = level(2 * MIB, hit=60.0, miss=400.0)
    assert "something keeps them" in str(residence_of(own, looks, ()))
    found = residence_of(replace(own, wanders=True), looks, ("chase:1",))
    assert isinstance(found, Residence)
    assert 4 * MIB <= found.low <= 6 * MIB and found.high == np.inf


@pytest.mark.slow
def test_short_lines_that_nothing_told_are_all_scanned() -> None:
    """A scan every 64 B over lines of 32 B leaves every second one out: the size counted double."""
    first, second = Cache(plain(16, 8, 128), 128, 5.0, sector_bytes=32), Cache(hashed(1024, 8, 32), 32, 25.0, "random")
    device = replace(machine(), paths={"global": Path((first, second), 100.0)})
    step = CurveStep(25.0, 12.5, 100.0, 180 * KIB, 210 * KIB, 1 * MIB)
    levels = [cache_level(1, 5.0, line_bytes=128, sector_bytes=32, size_bytes=16 * KIB, policy="LRU"), cache_level(2, 25.0)]
    found, _ = replay(with_scanned_sizes(ProbeSession(), levels, curve(step), 1 << 30), answers(device))
    assert found[1].findings["size_bytes"].value == pytest.approx(second.size_bytes, rel=0.03)


@pytest.mark.parametrize("line", [128, None])
def test_a_level_behind_longer_lines_is_not_scanned_in_shorter_steps(line: int | None) -> None:
    """The cache before would hide a part of each line."""
    step = CurveStep(25.0, 12.5, 100.0, 360 * KIB, 420 * KIB, 2 * MIB)
    first = cache_level(1, 5.0, **({"line_bytes": line} if line else {}))
    levels = [first, cache_level(2, 25.0)]

    def none(probes: object) -> list[object]:
        raise AssertionError("no probe is asked for")

    found, _ = replay(with_scanned_sizes(ProbeSession(), levels, curve(step), 1 << 30), none)
    assert found == levels


def probe(**other: int) -> Probe:
    numbers = {
        "skip": 99,
        "record": 200,
        "until": 1500,
        "crowd": 256,
        "crowd_bytes": 64,
        "rounds": 8,
        "turns": 1,
        "also_from": 10,
    }
    return Probe(Pattern("sequential", 1, 64), "global", "residence", also_until=600, **{**numbers, **other})


@pytest.mark.parametrize("window", [1, 2, 64, 4096])
def test_a_scan_visits_every_line_once_window_by_window(window: int) -> None:
    scan = scan_offsets(probe(crowd=window), np.arange(3 * window)) // 64
    assert np.array_equal(np.sort(scan), np.arange(3 * window))
    assert np.array_equal(scan // window, np.arange(3 * window) // window)
    assert probe_bytes(probe(crowd=window)) >= 1500 * 64


def test_timed_lines_lie_each_number_of_lines_back_equally_often() -> None:
    loaded, timed = timed_numbers(probe())
    assert loaded[-1] == 1500
    assert (np.diff(loaded) == 4).all()
    ages, counts = np.unique(loaded - 1 - timed, return_counts=True)
    assert (ages[0], ages[-1], ages.size) == (10, 600, 8)
    assert counts.min() >= 22
    assert timed.min() >= 99


def test_lines_that_others_may_bring_in_early_widen_the_interval() -> None:
    """A prefetcher of pairs and of what follows: lines came into 256 KiB up to 10 KiB before they were visited."""
    known, unknown = level(250 * KIB), replace(level(250 * KIB), is_alone=False)
    ages, held = np.linspace(8 * KIB, 480 * KIB, 60), 240 * KIB
    looks = [Looks(ages, np.where(ages <= held + shift, 25.0, 100.0)[None, :]) for shift in (-KIB, KIB)]
    stays = [residence_of(one, looks, ()) for one in (known, unknown)]
    assert all(isinstance(stay, Residence) for stay in stays)
    assert stays[0].high < 256 * KIB < stays[1].high and stays[0].low == stays[1].low  # type: ignore[union-attr]
