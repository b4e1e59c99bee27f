"""The simulated memories: cases counted by hand, a slow reference written another way, answers and traces as promised."""

from __future__ import annotations

import csv
from collections import OrderedDict, deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clmembench.model import Pattern, Probe
from clmembench.model.address_patterns import pattern_offsets
from tests import cachesim
from tests.cases import each
from tests.hierarchy import PairPrefetch, latencies_of
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, Simulation, Tlb, plain, trace_rows, write_csv


def one_set(policy: str, ways: int, **more) -> Path:
    return Path((Cache(plain(1, ways, 64), 64, 10, policy, **more),), 100)


def hits(path: Path, lines, unit: int = 64, **run) -> str:
    """Of the accesses to these lines, in order, on empty caches: "h" for a hit in the first cache, "." for a miss."""
    lap = np.array(lines, np.int64) * unit
    _, codes = Simulation(path, 1).run(lap, lap.size, record=lap.size, **run)
    return "".join("h" if code % (len(path.caches) + 1) == 0 else "." for code in codes)


@each(
    ("policy", "lines", "expected"),
    [
        ("LRU", [0, 1, 2, 3, 4] * 3, "." * 15),  # one more than the ways, in a cycle
        ("FIFO", [0, 1, 2, 3, 4] * 3, "." * 15),
        ("LRU", [0, 1, 2, 3, 0, 4, 0, 1], "....h.h."),  # 4 replaced 1, as 0 was used again
        ("FIFO", [0, 1, 2, 3, 0, 4, 0, 1], "....h..."),  # 4 replaced 0, though it was used again; 0 replaced 1
        ("FIFO", [0, 1, 2, 3, 4, 1, 0, 2, 3], ".....h.hh"),  # 0 replaced 1
        # 0 1 2 3 leave the tree pointing at way 0; 4 goes there, the tree then points at 2, 5 goes there
        ("tree-PLRU", [0, 1, 2, 3, 4, 5, 1, 3, 0, 2], "......hh.."),
        # after 3 and 1 the root points right, the right node at way 2: 4 replaces 2 although 0 is least recently used
        ("tree-PLRU", [0, 1, 2, 3, 1, 4, 0, 2], "....h.h."),
        # the fourth use clears the marks of 0 1 2; 4 replaces 0, 5 replaces 1; 6 replaces 2: then 0 marks the last
        ("NRU", [0, 1, 2, 3, 4, 3, 5, 2, 0], ".....h.h."),
    ],
)
def test_a_sequence_on_a_set_of_four_ways(policy, lines, expected):
    assert hits(one_set(policy, 4), lines) == expected


def test_marks_are_cleared_at_use_or_when_a_victim_is_wanted():
    lines = [0, 1, 2, 3, 2, 4, 5, 2]
    # at use: marks of 3 alone, then 2 and 3; 4 replaces 0, and 5 replaces 1, which leaves 2
    assert hits(one_set("NRU", 4), lines) == "....h..h"
    # at a miss: all are marked, 2's second use changes nothing; 4 clears them and replaces 0, 5 replaces 1
    assert hits(one_set("NRU", 4, nru_at_miss=True), lines) == "....h..h"
    lines = [0, 1, 2, 3, 0, 1, 4, 0]
    # at use: 0 1 3 are marked, so 4 replaces 2; at a miss: all are marked, 4 clears them and replaces 0
    assert hits(one_set("NRU", 4), lines) == "....hh.h"
    assert hits(one_set("NRU", 4, nru_at_miss=True), lines) == "....hh.."


def test_a_tree_of_six_ways_lacks_the_last_two_leaves():
    # filled in order, the tree points left: 6 goes to way 0, the tree then points right, where only ways 4 and 5 are
    assert hits(one_set("tree-PLRU", 6), [0, 1, 2, 3, 4, 5, 6, 7, 0, 4]) == "." * 10
    assert hits(one_set("tree-PLRU", 6), [0, 1, 2, 3, 4, 5, 6, 7, 5, 1, 2, 3]) == "........hhhh"


@pytest.mark.parametrize(
    ("policy", "chances"), [("way-weighted", (1 / 6, 1 / 2, 1 / 6, 1 / 6)), ("random", (1 / 4,) * 4), ("random", (1 / 7,) * 7)]
)
def test_victims_have_their_probabilities(policy, chances):
    ways = len(chances)
    simulation = Simulation(one_set(policy, ways, victims=chances if policy == "way-weighted" else ()), 5)
    simulation.run(np.arange(ways) * 64, ways)
    counts = np.zeros(ways)
    for new in range(ways, 6000 + ways):
        simulation.run(np.array([new * 64]), 1)
        units = simulation.tables.sets[cachesim.UNITS : cachesim.UNITS + ways].tolist()
        counts[units.index(new)] += 1
    assert counts / 6000 == pytest.approx(chances, abs=0.03)  # over 4.6 standard deviations


def test_random_replacement_uses_every_way_alike():
    path = one_set("random", 8)
    counts, _ = Simulation(path, 3).run(np.arange(9) * 64, 90_000)
    # of ways + 1 lines in a cycle one is not there; when it comes another leaves, each of those 1 to 8 accesses ahead alike
    assert counts[1] / 90_000 == pytest.approx(1 / 4.5, abs=0.006)


def test_a_sector_is_fetched_alone_but_its_line_is_kept():
    path = Path((Cache(plain(1, 2, 128), 128, 10, sector_bytes=32),), 100)
    lap = [0, 8, 32, 64, 96, 0, 128, 256, 0, 32]
    # the line of 0 is replaced by 256: afterwards none of its sectors is there
    assert hits(path, lap, 1) == ".h...h...."


def test_a_tlb_adds_its_penalty_to_what_serves_the_data():
    tlbs = (Tlb(plain(1, 2, 4096), 4096, 20), Tlb(plain(1, 3, 4096), 4096, 50))
    path = Path((Cache(plain(1, 64, 64), 64, 4),), 100, tlbs)
    lap = np.arange(3) * 4096
    simulation = Simulation(path, 1)
    _, first = simulation.run(lap, 3, record=3)
    _, warm = simulation.run(lap, 3, record=3)
    assert latencies_of(path)[first].tolist() == [170] * 3  # memory, both TLBs missed
    assert latencies_of(path)[warm].tolist() == [24] * 3  # the first TLB alone is too small
    late = Path(path.caches, 100, tlbs, l1_virtual=True)
    simulation = Simulation(late, 1)
    simulation.run(lap, 3)
    assert latencies_of(late)[simulation.run(lap, 3, record=3)[1]].tolist() == [4] * 3


def test_penalties_may_depend_on_what_serves_the_data():
    path = Path((Cache(plain(1, 64, 64), 64, 4),), 100, (Tlb(plain(1, 1, 4096), 4096, (288, 27)),))
    simulation = Simulation(path, 1)
    lap = np.array([0, 4096])
    assert latencies_of(path)[simulation.run(lap, 2, record=2)[1]].tolist() == [127, 127]
    assert latencies_of(path)[simulation.run(lap, 2, record=2)[1]].tolist() == [292, 292]


def test_uneven_sets_overflow_where_they_are_small():
    sets = Sets.of((3, 1), lambda unit: int(unit % 4 == 3), 4)
    path = Path((Cache(sets, 64, 10),), 100)
    assert hits(path, [0, 1, 2, 3] * 2) == "....hhhh"
    assert hits(path, [0, 1, 2, 3, 7] * 2) == ".....hhh.."
    assert hits(path, [0, 1, 2, 3, 4] * 2) == "........h."


@pytest.mark.parametrize(
    ("sets", "together", "apart"),
    [
        (plain(4, 1, 64), 4, 1),
        (Sets((1,) * 4, bits=(8, 9)), 1, 4),  # four lines that follow one another are of one set
        (Sets((1,) * 3), 3, 4),  # modulo 3
        (Sets((1,) * 4, masks=(1 << 6 | 1 << 8, 1 << 7 | 1 << 9)), 5, 4),  # 4 and 1 differ from 0 by one bit of the hash each
    ],
)
def test_which_lines_fall_into_one_set(sets, together, apart):
    path = Path((Cache(sets, 64, 10),), 100)
    assert hits(path, [0, together] * 2) == "...."
    assert hits(path, [0, apart] * 2) == "..hh"


def test_frames_are_a_permutation_of_pages():
    near = np.array([cachesim.frame(page, 0x3A5F1234567) for page in range(1 << 13)])
    far = np.array([cachesim.frame((1 << 23) + page, 0x3A5F1234567) for page in range(1 << 13)])
    assert np.unique([near, far]).size == 2 << 13
    assert np.bincount(near % 64, minlength=64).max() < 2 * near.size / 64


def test_frames_move_sets_between_processes_but_leave_the_offset_in_a_page():
    path = Path((Cache(plain(256, 1, 64), 64, 10, frame_bytes=4096),), 100)
    lap = np.array([0, 16 * KIB])  # one set, where addresses were virtual
    both = [Simulation(path, seed).run(lap, 4)[0][0] for seed in range(60)]
    assert set(both) == {0, 2}
    assert np.mean(np.array(both) == 0) == pytest.approx(1 / 4, abs=0.2)
    within = np.array([0, 64])
    assert all(Simulation(path, seed).run(within, 4)[0][0] == 2 for seed in range(20))


def test_accesses_in_sequence_find_their_data_prefetched():
    caches = (Cache(plain(1, 4, 64), 64, 10), Cache(plain(16, 8, 64), 64, 30))
    path = Path(caches, 100, prefetch_bytes=1024)
    ordered = Simulation(path, 1).run(np.arange(128) * 64, 128)[0]
    assert ordered.tolist() == [0, 127, 1]  # the first alone comes from memory
    far = Path(caches, 100, prefetch_bytes=4096)
    leaping = Simulation(far, 1).run(np.arange(128) * 64 * 20, 128)[0]
    assert leaping.tolist() == [0, 3, 125]  # too far apart for a sequence: what follows the first access is all there is
    scattered = Simulation(path, 1).run(pattern_offsets(Pattern("random", 512, 64 * 128, seed=1)), 512)[0]
    assert scattered[2] == 512


@pytest.mark.parametrize(
    ("pairs", "served"),
    [
        (PairPrefetch(1), [2, 1, 2, 1, 2, 1]),
        (PairPrefetch(1, ahead=1), [2, 1, 2, 1, 2, 2]),
        (PairPrefetch(0), [2, 0, 2, 0, 2, 0]),
        (None, [2, 2, 2, 2, 2, 2]),
    ],
)
def test_a_miss_brings_the_other_line_of_its_pair_or_the_next_one(pairs, served):
    """The next line of 4032 is of another page, the other one of its pair is 3968."""
    caches = (Cache(plain(64, 8, 64), 64, 10), Cache(plain(64, 8, 64), 64, 30))
    order = [0, 64, 128, 192, 4032, 4096] if pairs is None or pairs.ahead else [0, 64, 192, 128, 4032, 3968]
    lap = np.array(order)
    codes = Simulation(Path(caches, 100, pairs=pairs), 1).run(lap, lap.size, record=lap.size)[1]
    assert codes.tolist() == served


def test_pairs_at_half_of_the_misses_are_brought_by_chance():
    caches = (Cache(plain(1, 1, 64), 64, 10), Cache(plain(4096, 8, 64), 64, 30))
    lap = (np.arange(2000)[:, None] * 128 + [0, 64]).reshape(-1)
    codes = Simulation(Path(caches, 100, pairs=PairPrefetch(1, 0.5)), 1).run(lap, lap.size, record=lap.size)[1]
    assert (codes[1::2] == 1).mean() == pytest.approx(0.5, abs=0.05) and (codes[::2] == 2).all()


class Slow:
    """A level written for nothing but to be read: one list of keys a set, in whatever order its policy needs."""

    def __init__(self, ways: int, unit: int, sector: int, set_of, policy: str):
        self.ways, self.unit, self.sector, self.set_of, self.policy = ways, unit, sector, set_of, policy
        self.sets: dict[int, OrderedDict | deque | list] = {}
        self.parts: dict[int, set[int]] = {}
        self.trees: dict[int, dict] = {}

    def has(self, address: int) -> bool:
        unit, part = address // self.unit, address % self.unit // self.sector
        place = self.set_of(address)
        there = unit in self.parts
        getattr(self, self.policy)(place, unit, there)
        parts = self.parts.setdefault(unit, set())
        hit = part in parts
        parts.add(part)
        return hit

    def lru(self, place, unit, there):
        order = self.sets.setdefault(place, OrderedDict())
        if not there and len(order) == self.ways:
            del self.parts[order.popitem(last=False)[0]]
        order[unit] = None
        order.move_to_end(unit)

    def fifo(self, place, unit, there):
        queue = self.sets.setdefault(place, deque())
        if not there:
            if len(queue) == self.ways:
                del self.parts[queue.popleft()]
            queue.append(unit)

    def nru(self, place, unit, there):
        ways = self.sets.setdefault(place, [])  # of [unit, mark]
        if there:
            mine = next(way for way in ways if way[0] == unit)
        elif len(ways) < self.ways:
            mine = [unit, False]
            ways.append(mine)
        else:
            mine = next(way for way in ways if not way[1]) if self.ways > 1 else ways[0]
            del self.parts[mine[0]]
            mine[0] = unit
        mine[1] = True
        if len(ways) == self.ways and all(way[1] for way in ways):
            for way in ways:
                way[1] = way is mine

    def tree(self, place, unit, there):
        """Halves of the ways in a nested tree: each remembers which half was used before the other."""
        ways = self.sets.setdefault(place, [])
        older = self.trees.setdefault(place, {})  # (low, high) -> the half to replace in
        low, high = 0, 1 << (self.ways - 1).bit_length()
        if there:
            way = ways.index(unit)
        elif len(ways) < self.ways:
            way = len(ways)
            ways.append(unit)
        else:
            while high - low > 1:
                middle = (low + high) // 2
                go_right = older.get((low, high), "left") == "right" and middle < self.ways
                low, high = (middle, high) if go_right else (low, middle)
            way = low
            del self.parts[ways[way]]
            ways[way] = unit
        low, high = 0, 1 << (self.ways - 1).bit_length()
        while high - low > 1:
            middle = (low + high) // 2
            older[low, high] = "left" if way >= middle else "right"
            low, high = (middle, high) if way >= middle else (low, middle)


SLOW = {"LRU": "lru", "FIFO": "fifo", "tree-PLRU": "tree", "NRU": "nru"}


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_the_fast_simulation_does_what_a_slow_one_does(data):
    draw = data.draw
    line = draw(st.sampled_from([32, 64, 128]))
    caches, slow = [], []
    for size in (1, 4):
        policy, ways = draw(st.sampled_from(list(SLOW))), draw(st.integers(1, 14))
        sector = draw(st.sampled_from([line, line // 2]))
        form = draw(st.sampled_from(["plain", "modulo", "hashed", "listed"]))
        count = {"plain": 4, "hashed": 4}.get(form, 3) * size
        bits = count.bit_length() - 1
        low = line.bit_length() - 1
        masks = tuple(1 << (low + i) | 1 << (low + i + bits + 1) for i in range(bits))
        listed = tuple(draw(st.lists(st.integers(0, count - 1), min_size=20, max_size=20)))
        if form == "plain":
            sets, set_of = plain(count, ways, line), lambda a, c=count: a // line % c
        elif form == "modulo":
            sets, set_of = Sets((ways,) * count), lambda a, c=count: a // line % c
        elif form == "listed":
            sets, set_of = Sets((ways,) * count, listed=listed), lambda a, t=listed: t[a // line % len(t)]
        else:
            sets = Sets((ways,) * count, masks=masks)
            set_of = lambda a, m=masks: sum(bin(a & one).count("1") % 2 * 2**i for i, one in enumerate(m))  # noqa: E731
        caches.append(Cache(sets, line, 4 * size, policy, sector))
        slow.append(Slow(ways, line, sector, set_of, SLOW[policy]))
    tlb = Slow(5, 4096, 4096, lambda a: 0, "lru")
    path = Path(tuple(caches), 99, (Tlb(plain(1, 5, 4096), 4096, 7),))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    lap = rng.integers(0, draw(st.sampled_from([600, 4000, 30_000])), 1500) // 8 * 8
    base = 2 * MIB * 77
    _, codes = Simulation(path, 1).run(lap, 3000, base, record=3000)
    for step, code in enumerate(codes):
        address = base + int(lap[step % 1500])
        served = next((i for i, level in enumerate(slow) if level.has(address)), 2)
        assert code == served + 3 * (not tlb.has(address)), f"step {step}"


ZEN = Path(
    (Cache(plain(64, 8, 64), 64, 4), Cache(plain(2048, 8, 64), 64, 14, frame_bytes=4096)),
    100,
    (Tlb(plain(1, 72, 4096), 4096, 8),),
)
QUIET = Machine("quiet", {"global": ZEN}, seed=1)


@each(
    ("pattern", "cycles"),
    [
        (Pattern("sequential", 512, 64), 4),
        (Pattern("random", 512, 64, seed=3), 4),
        (Pattern("sequential", 513, 64), (9 * 14 + 504 * 4) / 513),  # one set of nine lines misses, LRU
        (Pattern("sequential", 9, 4096), 14),  # one line a page: all in one set of L1
        (Pattern("sequential", 80, 4096, shift_bytes=64), 12),  # in L1, and every page misses the TLB of 72
        (Pattern("sequential", 8, 32), 4),
    ],
)
def test_a_laps_mean_is_what_is_counted_by_hand(pattern, cycles):
    answer = QUIET.answer(Probe(pattern))
    assert answer.value == pytest.approx(cycles, abs=1e-9) and answer.low <= answer.value <= answer.high
    assert answer.ns == pytest.approx(cycles / 1.5)


@pytest.mark.parametrize("cold", [False, True])
def test_a_window_is_the_slice_of_the_whole(cold):
    pattern = Pattern("random", 700, 64, seed=2)
    whole = QUIET.answer(Probe(pattern, mode="trace", record=3000, cold=cold)).latencies
    window = QUIET.answer(Probe(pattern, mode="trace", skip=1100, record=250, cold=cold)).latencies
    assert whole.shape == (3, 3000) and set(whole[0, :8]) == {100, 108}
    assert np.array_equal(window, whole[:, 1100:1350])


def test_on_a_gpu_a_launch_empties_the_first_cache_alone():
    path = Path((Cache(plain(1, 8, 128), 128, 30), Cache(plain(64, 8, 128), 128, 200)), 600, launch_empties=(0,))
    machine = Machine("gpu", {"global": path}, seed=1)
    warm = Probe(Pattern("sequential", 8, 128), mode="trace", record=16)
    cold = Probe(Pattern("sequential", 8, 128), mode="trace", record=16, cold=True)
    assert machine.answer(warm).latencies[0].tolist() == [200] * 8 + [30] * 8
    assert machine.answer(cold).latencies[0].tolist() == [600] * 8 + [30] * 8


def test_what_cannot_be_asked_is_answered_with_a_reason():
    machine = Machine("blind", {"global": ZEN}, no_clock="no clock inside a kernel", seed=1)
    trace = machine.answer(Probe(Pattern("random", 9, 64), mode="trace", record=9))
    other = machine.answer(Probe(Pattern("random", 9, 64), space="image2d"))
    broken = machine.answer(Probe(Pattern("random", 9, 4)))
    for answer, word in ((trace, "clock"), (other, "image2d"), (broken, "multiples of 8")):
        assert answer.value is None and answer.latencies is None and word in answer.reason
    assert machine.answer(Probe(Pattern("random", 9, 64))).value is not None


def test_intervals_of_laps_cover_the_truth_as_often_as_they_say():
    covered = 0
    for seed in range(200):
        machine = Machine("noisy", {"global": ZEN}, Noise(lap_relative=0.003), seed)
        answer = machine.answer(Probe(Pattern("random", 64, 64)))
        covered += answer.low <= 4 <= answer.high
        assert abs(answer.value / 4 - 1) < 6 * 0.003
    assert 176 <= covered <= 199  # of 200 at 95%: 190, more than four standard deviations either way


def test_a_machine_repeats_itself_from_its_seed_and_answers_anew_when_asked_again():
    noise = Noise(lap_relative=0.003, jitter_cycles=1)
    probe = Probe(Pattern("random", 64, 64))
    one, same = (Machine("m", {"global": ZEN}, noise, seed=4) for _ in range(2))
    other = Machine("m", {"global": ZEN}, noise, seed=5)
    assert one.answer(probe) == same.answer(probe)
    assert one.answer(probe).value != Machine("m", {"global": ZEN}, noise, seed=4).answer(probe).value
    assert other.answer(probe).value != Machine("m", {"global": ZEN}, noise, seed=4).answer(probe).value


def test_noise_is_of_the_stated_size():
    noise = Noise(jitter_cycles=2, bias_cycles=12, quantum_cycles=26, outliers=0.01, outlier_cycles=500)
    seen = noise.seen(np.full(100_000, 50.0), np.random.default_rng(1))
    assert set(np.unique(seen % 26)) == {0.0}
    late = seen > 140
    assert late.mean() == pytest.approx(0.01, abs=0.002)
    assert seen[~late].mean() == pytest.approx(62, abs=0.3)  # a clock's steps average out


def test_disturbed_laps_are_slower_and_as_many_as_said():
    noise = Noise(disturbed=0.2)
    values = [Machine("m", {"global": ZEN}, noise, s).answer(Probe(Pattern("random", 64, 64))).value for s in range(200)]
    slower = np.array(values) / 4 - 1
    assert ((slower == 0) | ((slower >= 0.05) & (slower <= 0.5))).all()
    assert (slower > 0).mean() == pytest.approx(0.2, abs=0.12)


def test_latencies_may_be_told_in_ns():
    machine = Machine("ns", {"global": ZEN}, in_ns=True, ghz=2.0, seed=1)
    answer = machine.answer(Probe(Pattern("random", 64, 64)))
    assert (answer.unit, answer.value, answer.ns) == ("ns", 2.0, 2.0)
    assert machine.answer(Probe(Pattern("sequential", 4, 64), mode="trace", record=8)).latencies[0, -1] == 2.0


def test_the_truth_of_a_machine_names_every_level():
    truth = QUIET.truth
    assert [level["name"] for level in truth["levels"]] == ["L1", "L2", "DRAM"]
    l1, l2, _ = truth["levels"]
    assert (l1["size_bytes"], l1["ways"], l1["sets"], l1["set_bits"]) == (32 * KIB, 8, 64, [6, 7, 8, 9, 10, 11])
    assert l2["size_bytes"] == MIB and l2["physical"] and l2["sector_bytes"] == 64
    (tlb,) = truth["tlb"]
    assert (tlb["entries"], tlb["page_bytes"], tlb["reach_bytes"], tlb["penalty_cycles"]) == (72, 4096, 288 * KIB, 8)


def test_a_trace_is_written_as_others_would_write_it(tmp_path):
    pattern = Pattern("sequential", 513, 64)
    warm = trace_rows(QUIET, pattern, 40, warmup=513 * 2 - 4, trace_id=7)
    cold = trace_rows(QUIET, np.array([0, 64, 0, 0]), 6, trace_id=8, array_bytes=4096)
    write_csv(tmp_path / "traces.csv", warm, cold)
    rows = list(csv.DictReader((tmp_path / "traces.csv").open()))
    assert list(rows[0]) == ["trace_id", "array_bytes", "stride_bytes", "step", "offset_bytes", "latency"]
    assert [row["trace_id"] for row in rows] == ["7"] * 40 + ["8"] * 6
    assert (rows[0]["step"], rows[0]["offset_bytes"]) == ("1022", str(509 * 64))
    assert [float(row["latency"]) for row in rows[2:6]] == [4, 14, 14, 4]  # lines 511, 512, 0, 1: one set is one line over
    assert [float(row["latency"]) for row in rows[40:]] == [108, 100, 4, 4, 4, 4]
    assert [row["step"] for row in rows[40:]] == list("012345")
    assert rows[40]["array_bytes"] == "4096"


def test_traces_of_a_process_share_its_frames():
    path = Path((Cache(plain(256, 2, 64), 64, 10, "LRU", frame_bytes=4096),), 100)
    machine = Machine("m", {"global": path}, seed=9)
    pattern = Pattern("sequential", 9, 4096)
    one, again = (trace_rows(machine, pattern, 90, trace_id=i)["latency"] for i in range(2))
    other = [trace_rows(machine, pattern, 90, process=i)["latency"] for i in range(1, 9)]
    assert np.array_equal(one, again)
    assert not all(np.array_equal(one, trace) for trace in other)


@each("frame_bytes", [4096, 64 * KIB, 2 * MIB])
@each("line_bytes", [32, 128])
def test_an_array_that_fits_is_found_again_in_frames_of_any_size(frame_bytes, line_bytes):
    path = Path((Cache(plain(1, 64, line_bytes), line_bytes, 10.0, frame_bytes=frame_bytes),), 100.0)
    process, lap = Simulation(path, 5), np.arange(64) * line_bytes
    for base in (0, 2 * MIB, 5 << 30):
        process.run(lap, lap.size, base)
        assert process.run(lap, lap.size, base)[0].tolist() == [64, 0]
