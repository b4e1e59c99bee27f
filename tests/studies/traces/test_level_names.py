"""Names of levels in traces: L1, L2 and DRAM only where the traces show it, and latencies that are no level of their own."""

import numpy as np
import pytest
from typer.testing import CliRunner

from clmembench.cli import exit_codes
from clmembench.cli.program import app
from clmembench.model import Accesses
from clmembench.studies.traces.traces import infer_from_traces
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, plain, trace_rows, write_csv

SMALL, LARGE = Cache(plain(16, 8, 64), 64, 20), Cache(plain(256, 16, 64), 64, 240)  # 8 KiB within 256 KiB
QUIET = Noise(jitter_cycles=1.0, quantum_cycles=1.0, outliers=0.001, outlier_cycles=900)


def rows_of(caches, plan, noise=QUIET):
    """Rows of laps of (array bytes, stride, laps recorded, laps before that were not recorded) over these caches."""
    source = Machine("made", {"global": Path(caches, 500)}, noise, 3)
    rows = []
    for number, (size, stride, times, before) in enumerate(plan, 1):
        lap = np.arange(0, size, stride)
        count = min(lap.size * times, 6_000)
        rows.append(trace_rows(source, lap, count, lap.size * before, trace_id=number, array_bytes=size, stride_bytes=stride))
    return rows


def traces_of(rows):
    return [
        Accesses(
            str(r["trace_id"][0]), int(r["array_bytes"][0]), int(r["stride_bytes"][0]), int(r["step"][0]), r["offset_bytes"],
            r["latency"].astype(float),
        )
        for r in rows
    ]  # fmt: skip


def levels_of(caches, plan, **options):
    return infer_from_traces(traces_of(rows_of(caches, plan)), **options).levels


def names(levels):
    return [level.name for level in levels]


WARM = [(4 * KIB, 4, 2, 2), *((size, 64, 3, 2) for size in (4 * KIB, 8 * KIB, 8 * KIB + 64, 10 * KIB, 12 * KIB, 16 * KIB))]


def test_the_slowest_level_of_small_arrays_is_not_called_memory():
    levels = levels_of((SMALL, LARGE), WARM)
    assert names(levels) == ["L1", "slowest seen"]
    assert levels[-1].findings["latency_cycles"].value == pytest.approx(240, rel=0.02)


@pytest.mark.parametrize("size", [64 * KIB, 200 * KIB])
def test_however_far_beyond_the_first_cache_the_arrays_are(size):
    assert names(levels_of((SMALL, LARGE), [*WARM, (size, 64, 2, 2)])) == ["L1", "slowest seen"]


def as_recorded(name, stride, first_step, latencies, places):
    """A chase over so many places, as a file has it."""
    steps = first_step + np.arange(latencies.size)
    return Accesses(name, places * stride, stride, first_step, steps % places * stride, latencies.astype(float))


def first_touches(slow_hit=95, dropped=0):
    """Cold chases as MT4G records them, on a GPU whose L2 the program before has filled: one pass over 64 places at growing
    strides. Of the hits every third is slower, wherever it goes; the first touch of 32 B comes from the L2. So many accesses at
    the beginning were dropped, and the others are counted from 0."""
    traces = []
    for stride in (4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 64):
        offsets = (np.arange(64) + dropped) * stride
        hit = np.r_[False, offsets[1:] // 32 == offsets[:-1] // 32]
        latencies = np.where(hit, np.where(np.arange(64) % 3 == 0, slow_hit, 90), np.where(np.arange(64) % 2, 250, 246))
        traces.append(as_recorded(str(stride), stride, 0, latencies, 64))
    return traces


def test_traces_whose_first_access_was_dropped_tell_no_sector():
    levels = infer_from_traces(first_touches(dropped=1)).levels
    assert [level.findings["latency_cycles"].value for level in levels] == [
        pytest.approx(92, rel=0.03),
        pytest.approx(248, rel=0.02),
    ]
    assert levels[0].findings["sector_bytes"].status == "undetermined"


def test_cold_first_accesses_are_no_memory():
    levels = infer_from_traces(first_touches()).levels
    assert levels[-1].name == "slowest seen"
    assert levels[-1].findings["latency_cycles"].value == pytest.approx(248, rel=0.02)


@pytest.mark.parametrize("slow_hit", [95, 112])
def test_two_latencies_of_accesses_that_must_hit_are_one_level(slow_hit):
    first, second = infer_from_traces(first_touches(slow_hit)).levels
    assert (first.name, second.name) == ("L1", "slowest seen")
    assert 90 <= first.findings["latency_cycles"].value <= slow_hit
    assert second.findings["latency_cycles"].value == pytest.approx(248, rel=0.02)


@pytest.mark.slow
def test_arrays_that_all_miss_the_first_cache_do_not_name_it():
    """All arrays are larger than the first cache, and each access is to another line: the fastest level is the second."""
    levels = levels_of((SMALL, LARGE), [(size, 64, 2, 2) for size in (64 * KIB, 128 * KIB, 512 * KIB)])
    assert names(levels) == ["fastest seen", "slowest seen"]
    assert levels[0].findings["latency_cycles"].value == pytest.approx(240, rel=0.02)


@pytest.mark.slow
def test_a_level_that_no_array_fits_leaves_those_after_it_without_a_number():
    """Arrays of 4 KiB and then of 2 MiB: the third cache serves them, and no array was between."""
    third = Cache(plain(4096, 16, 64), 64, 320)
    middle = Cache(plain(128, 8, 64), 64, 90)  # 64 KiB
    far = [(2 * MIB, 64, 1, 1), (8 * MIB, 64, 1, 1)]
    levels = levels_of((SMALL, middle, third), [(4 * KIB, 4, 2, 2), (4 * KIB, 64, 3, 2), *far])
    assert names(levels) == ["L1", "level 2 seen", "slowest seen"]


def test_arrays_around_each_capacity_number_the_levels():
    around = [(size, 64, 2, 2) for size in (64 * KIB, 256 * KIB, 257 * KIB, 300 * KIB, 512 * KIB)]
    assert names(levels_of((SMALL, LARGE), [*WARM, *around])) == ["L1", "L2", "slowest seen"]


@pytest.mark.slow
def test_arrays_far_beyond_a_known_last_cache_are_in_memory():
    plan = [*WARM, *((size, 64, 2, 1) for size in (256 * KIB, 272 * KIB, 2 * MIB))]
    assert names(levels_of((SMALL, LARGE), plan, last_cache_bytes=256 * KIB))[-1] == "DRAM"
    assert names(levels_of((SMALL, LARGE), plan, last_cache_bytes=16 * MIB))[-1] == "slowest seen"


def test_arrays_within_a_known_last_cache_are_not_in_memory():
    assert names(levels_of((SMALL, LARGE), WARM, last_cache_bytes=256 * KIB))[-1] == "slowest seen"


def test_far_apart_accesses_to_few_lines_fit_a_known_last_cache():
    """16 MiB at a stride of 64 KiB are 256 lines: what holds 16 KiB of them needs no memory."""
    plan = [*WARM, (16 * MIB, 64 * KIB, 4, 2)]
    assert "DRAM" not in names(levels_of((SMALL, LARGE), plan, last_cache_bytes=256 * KIB))


@pytest.mark.parametrize(
    ("known", "name"), [pytest.param([], "slowest seen", marks=pytest.mark.slow), (["--last-cache", "256KiB"], "DRAM")]
)
@pytest.mark.slow
def test_the_command_takes_the_size_of_the_last_cache(tmp_path, known, name):
    path = tmp_path / "t.csv"
    write_csv(path, *rows_of((SMALL, LARGE), [*WARM, *((size, 64, 2, 1) for size in (256 * KIB, 2 * MIB))]))
    result = CliRunner().invoke(app, ["infer", str(path), *known])
    assert result.exit_code == exit_codes.OK
    assert name in result.stdout
