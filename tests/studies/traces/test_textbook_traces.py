"""Textbook caches of every associativity, policy and warm-up, with and without noise, recovered from traces of a simulation."""

import numpy as np
import pytest

from clmembench.model import Accesses
from clmembench.studies.traces.footprints import excused_misses, stream_footprint
from clmembench.studies.traces.latency_modes import clock_quantum
from clmembench.studies.traces.streams import AccessStream
from clmembench.studies.traces.traces import infer_from_traces
from tests.cases import each
from tests.hierarchy import Cache, Path, plain
from tests.simulated import Machine, Noise, trace_rows

SETS, LINE = 16, 64
TEXTBOOK = [(ways, policy) for ways in range(1, 17) for policy in ("LRU", "FIFO", "NRU")]
TEXTBOOK += [(ways, "tree-PLRU") for ways in (1, 2, 4, 8, 16)]  # a tree needs a power of two
QUIET = Noise(jitter_cycles=1.0, quantum_cycles=1.0, outliers=0.001, outlier_cycles=900)


def lap(array_bytes, stride, times):
    offsets = np.arange(0, array_bytes, stride)
    return offsets, offsets.size * times, stride


def textbook_plan(ways, times=6):
    """Words within lines, a few lines more than fit, wider strides, and a random order of lines of one set."""
    size = SETS * ways * LINE
    plan = [lap(size // 2, 4, 2), lap(size + LINE, 4, 3)]
    plan += [lap(size + more * LINE, LINE, times) for more in (-1, 0, 1, 2, 3, SETS // 2, SETS, 2 * SETS)]
    plan += [lap(many * size, wide * LINE, times) for wide in (2, 4) for many in (1, 2)]
    walk = np.random.default_rng(5).integers(0, ways + 2, 1600) * SETS * LINE
    return [*plan, (walk, walk.size, SETS * LINE)]


def textbook_traces(cache, noise, warm, plan):
    source = Machine("textbook", {"global": Path((cache,), 500)}, noise, 3)
    traces = []
    for number, (offsets, count, stride) in enumerate(plan, 1):
        size = int(offsets.max()) + stride
        skipped = 2 * offsets.size if warm and stride != 4 and offsets.size != 1600 else 0
        rows = trace_rows(source, offsets, count, skipped, trace_id=number, array_bytes=size, stride_bytes=stride)
        traces.append(Accesses(str(number), size, stride, skipped, rows["offset_bytes"], rows["latency"].astype(float)))
    return traces


def textbook_findings(ways, policy, warm, noise):
    cache = Cache(plain(SETS, ways, LINE), LINE, 20, policy)
    return infer_from_traces(textbook_traces(cache, noise, warm, textbook_plan(ways))).levels[0].findings


def check_geometry(found, ways):
    said = {name: found[name].value for name in ("size_bytes", "line_bytes", "sector_bytes", "ways", "sets")}
    assert said == {"size_bytes": SETS * ways * LINE, "line_bytes": LINE, "sector_bytes": LINE, "ways": ways, "sets": SETS}


@each("warm", [False, True])
@each(("ways", "policy"), TEXTBOOK)
def test_a_textbook_cache_is_found(ways, policy, warm):
    noise = QUIET if ways % 2 == warm else Noise()  # noise-free as a simulator's, in turn
    found = textbook_findings(ways, policy, warm, noise)
    check_geometry(found, ways)
    if ways > 2:  # two ways leave several policies alike, and one has none
        assert found["policy"].value == policy
    else:
        assert found["policy"].status == "undetermined"


@pytest.mark.parametrize(
    ("ways", "noise"),
    [(2, Noise()), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((4, QUIET), (8, Noise())))],
    ids=["2 ways", "4 ways", "8 ways"],
)
def test_a_textbook_cache_with_random_victims(ways, noise):
    found = textbook_findings(ways, "random", ways == 8, noise)
    check_geometry(found, ways)
    assert found["policy"].value in ("random", None)


def test_latencies_of_a_simulator_are_no_steps_of_a_clock():
    exact = Accesses("exact", 4096, 64, 0, np.arange(200), np.repeat([20.0, 500.0], 100))
    assert clock_quantum([exact]) == 0.0
    spread = np.random.default_rng(1).choice([0.0, 36.0], 400)  # a latency of 18 by a clock that steps by 36
    assert clock_quantum([Accesses("coarse", 4096, 64, 0, np.arange(400), spread)]) == 36.0


def test_three_equally_spaced_latencies_without_noise_stay_apart():
    caches = Cache(plain(8, 4, 64), 64, 20), Cache(plain(128, 8, 64), 64, 40)
    source = Machine("made", {"global": Path(caches, 60)}, Noise(), 3)
    plan = [lap(1024, 8, 3), *(lap(size, 64, 6) for size in (2048, 2112, 4096, 32768, 65536, 65600, 131072))]
    traces = []
    for number, (offsets, count, stride) in enumerate(plan, 1):
        rows = trace_rows(source, offsets, count, trace_id=number, stride_bytes=stride)
        traces.append(Accesses(str(number), int(offsets.max()) + stride, stride, 0, rows["offset_bytes"], rows["latency"]))
    levels = infer_from_traces(traces).levels
    assert [level.findings["latency_cycles"].value for level in levels] == [20, 40, 60]


def test_misses_that_outliers_feign_grow_with_the_data():
    def fitting(laps):
        addresses = np.tile(np.arange(0, 4096, 64), laps)
        served = np.zeros(addresses.size, np.int8)
        served[:64] = 1
        served[100::1000] = 1
        return stream_footprint(AccessStream("a", 64, addresses, served, 64))

    small, large = fitting(1000), fitting(4000)
    wide = stream_footprint(AccessStream("b", 64, np.tile(np.arange(0, 16384, 64), 4), np.zeros(1024, np.int8), 256))
    few, many = excused_misses([small, wide]), excused_misses([large, wide])
    assert 64 <= few <= 64 + 4 * 8
    assert many == pytest.approx(4 * few, rel=0.15)


def test_a_cache_under_many_outliers_is_found():
    noise = Noise(jitter_cycles=1.0, quantum_cycles=0.0, outliers=0.005, outlier_cycles=900)
    cache = Cache(plain(64, 4, 64), 64, 20)
    size = cache.size_bytes
    plan = [lap(size // 2, 4, 2), lap(size + 64, 4, 3), lap(size, 4, 2)]
    plan += [lap(size + more * 64, 64, 12) for more in (-1, 0, 1, 2, 3, 8, 32, 64, 128)]
    plan += [lap(many * size, wide * 64, 12) for wide in (2, 4) for many in (1, 2)]
    found = infer_from_traces(textbook_traces(cache, noise, False, plan)).levels[0].findings
    assert (found["size_bytes"].value, found["ways"].value, found["sets"].value) == (size, 4, 64)
