"""y = A x is right in every format and shape on a real device, its check sees damage, and its amounts follow the rule."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from clmembench.benchmarks import discovered
from clmembench.benchmarks.spmv import matrices, spmv_formats, spmv_launch, spmv_problem, spmv_rule
from clmembench.benchmarks.spmv.matrices import Csr
from clmembench.measure import sampling
from clmembench.model import DeviceError, Placement, Skip
from clmembench.plan import sweep
from clmembench.plan.selection import Selection
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from tests.builders import open_cpu, walked
from tests.cases import each

SPMV = import_module("clmembench.benchmarks.spmv.spmv")  # its benchmark has the same name
BENCHMARK = discovered()["spmv"]
CPU = replace(FAKE_DEVICE_INFO, kind="cpu", compute_units=2, shares_host_memory=True)
SIZE = 1 << 18  # bytes of a generated matrix's values
SMALL_TILE = {"team": 2, "work_group": 16, "per": 2}  # blocks of 32 entries: most rows below are parted, or alone


def shape(format: str, hints: str = "none", **changes) -> dict[str, object]:
    """A point's parameters but for the matrix."""
    order = "blocked" if changes.get("work_group", 64) == 1 else "strided"
    return {"format": format, "hints": hints, "order": order, "team": 2, "work_group": 64, "per": 1, "sigma": 1, **changes}


ROW = shape("csr_row", order="blocked")


@pytest.fixture(scope="module")
def device():
    return open_cpu(array_bytes=SIZE)


def whole(lengths, columns: int, seed: int = 1) -> Csr:
    """Rows of these lengths with whole numbers from -9 to 9 in random columns."""
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    chosen = [np.sort(rng.choice(columns, n, replace=False)) for n in lengths]
    indices = np.concatenate(chosen).astype(np.int32)
    return Csr(len(lengths), columns, indptr, indices, rng.integers(-9, 10, len(indices)).astype(float))


def runs(lengths, columns: int) -> Csr:
    """The same rows of consecutive columns."""
    a = whole(lengths, columns)
    first = np.random.default_rng(3).integers(0, columns - a.row_lengths + 1)
    inside = np.arange(a.nonzeros) - np.repeat(a.indptr[:-1], a.row_lengths)
    return replace(a, indices=(np.repeat(first, a.row_lengths) + inside).astype(np.int32))


MATRICES = {
    "empty rows at both ends and between": whole([0, 0, 3, 0, 7, 1, 0, 0, 2, 0], 11),
    "one dense row": whole([2] * 300 + [5000] + [2] * 300, 5000),
    "wide": whole([40, 33, 0, 64, 65], 70),
    "tall": whole([i % 4 for i in range(5001)], 3),  # more rows than a tile, and no multiple of anything
    "one entry": whole([1], 1),
    "rows of consecutive columns": runs([0, 30, 8, 0, 5000, 9, 33, 16, 0], 5001),
    "rows around a team's size": whole([n for t in (2, 4, 8, 16, 32) for n in (t - 1, t, t + 1)], 64),
}
MANY_ROWS = ("tall", "one dense row")
SHAPES = [
    ROW,
    shape("auto", "prefetch", order="blocked"),
    shape("auto", work_group=128, per=4),
    shape("csr_row", "prefetch", order="blocked"),
    shape("csr_row", work_group=1, order="strided"),
    shape("csr_row"),
    shape("ell", order="blocked"),
    shape("ell", work_group=128),
    shape("csr_shares", order="blocked"),
    shape("csr_shares", "prefetch", order="blocked"),
    shape("csr_adaptive", per=4, work_group=128),
    shape("csr_adaptive", **SMALL_TILE),
    shape("csr_adaptive", per=1, work_group=1, order="strided"),
    shape("csr_adaptive", per=6),
    shape("csr_adaptive", per=1, work_group=96),  # no power of two
    *(shape("sell", hints, order="blocked", sigma=sigma) for hints in ("none", "prefetch") for sigma in (1, 64, 1 << 16)),
    *(shape("sell", sigma=sigma, work_group=group) for sigma, group in ((1, 64), (7, 32), (1 << 16, 128))),
    *(shape("slab", hints, order="blocked") for hints in ("none", "prefetch")),
    *(shape("slab", per=per, work_group=group) for per, group in ((1, 256), (2, 64), (3, 7))),
    *(shape("csr_team", team=t, work_group=g) for t, g in [(1, 32), (2, 64), (4, 96), (8, 64), (8, 256), (16, 96), (32, 32)]),
]
NAMES = ["-".join(map(str, s.values())) for s in SHAPES]
EACH = {
    s["format"]: s for s in SHAPES if s["format"] != "auto" and s["order"] == "strided" and s["hints"] == "none"
}  # one of each format


def exact(monkeypatch, a: Csr) -> None:
    """Have the benchmark multiply `a` by whole numbers and accept nothing but the very product."""
    x = np.random.default_rng(2).integers(-9, 10, a.columns).astype(float)
    y = np.zeros(a.rows)
    np.add.at(y, np.repeat(np.arange(a.rows), a.row_lengths), a.values * x[a.indices])
    problem = spmv_problem.Problem(a, x, y, np.zeros(a.rows), a.columns)
    monkeypatch.setattr(spmv_problem, "make_problem", lambda *_: problem)
    monkeypatch.setattr(spmv_formats, "MAX_PADDING_RATIO", 1e9)


def half_of_the_matrices_each():
    """Each shape with three of the matrices, each matrix with half of the shapes; a slab, whose program is for
    one matrix, with one that it does not have below."""
    names, others = [*MATRICES], [name for name in MATRICES if name not in MANY_ROWS]
    for number, chosen in enumerate(SHAPES):
        if chosen["format"] == "slab":
            yield others[number % len(others)], chosen
        else:
            yield from ((names[(number + step) % len(names)], chosen) for step in (0, 1, 3))


@each(("name", "chosen"), [*half_of_the_matrices_each()])
def test_every_shape_gives_the_exact_product(device, monkeypatch, name, chosen):
    exact(monkeypatch, MATRICES[name])
    work = BENCHMARK.prepare(device, "reservoir", **chosen)
    assert sampling.check_outputs(device, work) == ""


@each("groups", [1, 3])
@each("chosen", SHAPES)
def test_fewer_work_groups_take_all_rows_in_rounds(device, monkeypatch, chosen, groups):
    monkeypatch.setattr(device, "info", replace(device.info, work_groups=groups))
    for name in MANY_ROWS:
        exact(monkeypatch, MATRICES[name])
        work = BENCHMARK.prepare(device, "reservoir", **chosen)
        assert work.commands[0].global_size[0] == groups * work.commands[0].local_size[0]
        assert sampling.check_outputs(device, work) == ""


@each("matrix", matrices.USUAL)
@each("chosen", EACH.values())
def test_generated_matrices_pass_within_rounding(device, matrix, chosen):
    try:
        work = BENCHMARK.prepare(device, matrix, **chosen)
    except Skip as skip:
        assert (matrix, chosen["format"]) == ("power_law", "ell")
        assert "times the nonzeros: the longest row has 10" in str(skip)
        return
    assert sampling.check_outputs(device, work) == ""


@pytest.mark.parametrize(
    ("lengths", "even"),
    [([4] * 20_000, True), ([2] * 10_000 + [5000] + [2] * 10_000, True), ([2] * 300 + [5000] + [2] * 300, False)],
)
def test_rows_that_cannot_be_shared_evenly_promise_no_busy_compute_units(lengths, even):
    # by the gate on CPU time the promise would make a right and slow product suspect
    assert SPMV._is_even(whole(lengths, 5000), 128, 2) == even


@pytest.mark.parametrize("damage", ["nan", "last bits", "a neighbour's", "not written"])
def test_a_damaged_result_is_wrong(device, damage):
    work = BENCHMARK.prepare(device, "reservoir", **ROW)
    assert sampling.check_outputs(device, work) == ""
    buffer, nbytes = work.outputs[0]
    y, row = device.download(buffer, np.float64, nbytes // 8), 1234
    bad = {"nan": np.nan, "last bits": y[row] * (1 + 1e-12), "a neighbour's": y[row + 1], "not written": 0.0}[damage]
    assert bad != y[row]
    y[row] = bad
    device.upload(buffer, y)
    with pytest.raises(AssertionError, match=r"1 of .* rows are wrong, the first is row 1234"):
        work.check()


def test_amounts_are_those_of_csr_whatever_the_format(device, monkeypatch):
    a = MATRICES["wide"]
    exact(monkeypatch, a)
    works = [BENCHMARK.prepare(device, "reservoir", **chosen) for chosen in EACH.values()]
    assert {w.flops for w in works} == {2 * 202}
    assert {w.nbytes for w in works} == {12 * 202 + 4 * 6 + 8 * 70 + 8 * 5}
    assert {w.ops for w in works} == {1}
    assert works[0].notes == (SPMV.NOTE_TRAFFIC, "reservoir: 5 rows, 202 nonzeros, 0 to 65 in a row")


def test_a_matrix_is_made_once_for_all_its_points(device, monkeypatch):
    made, whole_maker = [], matrices.generate
    monkeypatch.setattr(matrices, "generate", lambda *a: made.append(a) or whole_maker(*a))
    monkeypatch.setattr(spmv_problem.PROBLEMS, "_kept", {})
    for chosen in SHAPES[:6]:
        BENCHMARK.prepare(device, "banded", **chosen)
        BENCHMARK.prepare(device, "uniform", **chosen)
    assert [name for name, *_ in made] == ["banded", "uniform"]
    monkeypatch.setattr(device, "seed", 7)
    BENCHMARK.prepare(device, "banded", **ROW)
    assert [seed for _, seed, _ in made] == [0, 0, 7]
    monkeypatch.setattr(matrices, "MAX_KEPT_BYTES", 0)
    for _ in range(2):
        for name in ("banded", "uniform"):
            BENCHMARK.prepare(device, name, **ROW)
    assert len(made) == 6 and len(spmv_problem.PROBLEMS._kept) == 1


def test_a_file_is_multiplied(device, tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 2.5\n2 1 -1\n3 3 1e-320\n")
    assert BENCHMARK.axes["matrix"].accepts(str(path))
    for chosen in EACH.values():
        work = BENCHMARK.prepare(device, str(path), **chosen)
        assert sampling.check_outputs(device, work) == ""
        assert work.flops == 2 * 4


def test_files_that_cannot_be_multiplied_fail_with_their_line(device, tmp_path):
    head = "%%MatrixMarket matrix coordinate real general\n"
    path = tmp_path / "a.mtx"
    for body, kind, reason in [
        ("2 2 1\n3 1 1\n", DeviceError, rf"{path}:3: Row index out of bounds"),
        ("2 2 2\n1 1 1.5e308\n1 2 1.5e308\n", DeviceError, rf"{path}: products of its values and numbers about 1 overflow"),
        ("2000000000 2 1\n1 1 1\n", Skip, "22 GiB of matrix and vectors are too much for this host"),
    ]:
        path.write_text(head + body)
        with pytest.raises(kind, match=reason):
            BENCHMARK.prepare(device, str(path), **ROW)
    with pytest.raises(DeviceError, match="No such file"):
        BENCHMARK.prepare(device, str(tmp_path / "none.mtx"), **ROW)


GPU_ROW = shape("csr_row", work_group=128, team=8)


@each(
    ("info", "chosen", "reason"),
    [
        (replace(FAKE_DEVICE_INFO, max_alloc_bytes=1 << 20), GPU_ROW, "too much for this device"),
        (replace(FAKE_DEVICE_INFO, global_mem_bytes=8 << 20), GPU_ROW, "too much for this device"),
        (replace(FAKE_DEVICE_INFO, host_mem_bytes=8 << 20), GPU_ROW, "too much for this host"),
        (FAKE_DEVICE_INFO, shape("csr_row", work_group=2048), "work-group of 2048 is over"),
        (FAKE_DEVICE_INFO, shape("csr_team", team=24), "64 is not a multiple of a team of 24"),
        (replace(FAKE_DEVICE_INFO, array_bytes=100), GPU_ROW, "too few"),
        (
            replace(FAKE_DEVICE_INFO, features=FAKE_DEVICE_INFO.features - {"int64_atomics"}),
            shape("slab"),
            "without 64-bit atomics",
        ),
        (
            replace(FAKE_DEVICE_INFO, local_mem_bytes=spmv_launch.RESERVED_LOCAL_BYTES),
            shape("slab"),
            "no local memory for a slab's sums",
        ),
        (FAKE_DEVICE_INFO, shape("csr_row", "ptx"), "csr_row has no loads with hints=ptx"),
    ],
)
def test_what_cannot_run_is_skipped_with_the_reason(info, chosen, reason):
    info = replace(info, array_bytes=info.array_bytes or 4 << 20)
    with pytest.raises(Skip, match=reason):
        BENCHMARK.prepare(FakeDevice(info), "uniform", **chosen)


def test_facts_say_what_a_format_stores(device, monkeypatch):
    a = MATRICES["wide"]  # rows of 40, 33, 0, 64, 65: 202 entries
    exact(monkeypatch, a)
    stored = {name: BENCHMARK.prepare(device, "reservoir", **chosen).facts for name, chosen in EACH.items()}
    assert {name: facts["stored_over_nonzeros"] * 202 for name, facts in stored.items()} == pytest.approx(
        {
            "csr_row": 202,
            "csr_team": 202,
            "csr_adaptive": 202,
            "ell": 65 * 32,
            "sell": 65 * 32,
            "slab": spmv_formats.RUN_ENTRIES * 4,
        }
    )
    assert all(facts["conversion_s"] >= 0 for facts in stored.values())


def dense(stored: spmv_formats.ConvertedMatrix, a: Csr) -> np.ndarray:
    """The matrix that slabs, ELL or SELL hold, entry by entry, as their kernels read them."""
    found, d = np.zeros((a.rows + 32, a.columns)), stored.defines
    if "PITCH" in d:
        for values, indices in zip(*stored.arrays, strict=True):
            np.add.at(found, (np.arange(a.rows), indices[: a.rows]), values[: a.rows])
        return found[: a.rows]
    if "CHUNK" in d:
        values, indices, begins, order = stored.arrays
        for slot in range(stored.items):
            for k in range(begins[slot // d["CHUNK"]], begins[slot // d["CHUNK"] + 1]):
                at = k * d["CHUNK"] + slot % d["CHUNK"]
                found[order[slot], indices[at]] += values[at]
        return found[: a.rows]
    values, words, bases, runs, begins, extra_begins, extra_rows = stored.arrays
    for slab in range(stored.items):
        rows, bits = begins[slab + 1] - begins[slab], d["COLUMN_BITS"]
        for at in range(runs[slab] * spmv_formats.RUN_ENTRIES, runs[slab + 1] * spmv_formats.RUN_ENTRIES):
            place, column = int(words[at]) >> bits, bases[at // spmv_formats.RUN_ENTRIES] + (int(words[at]) & ((1 << bits) - 1))
            row = place if place < rows else extra_rows[extra_begins[slab] + place - rows]
            found[begins[slab] + row, column] += values[at]
    return found[: a.rows]


@each("at_a_time", [1, 100, spmv_formats.BLOCK_ENTRIES])
@each("name", MATRICES)
def test_conversions_keep_every_entry(name, at_a_time, monkeypatch):
    monkeypatch.setattr(spmv_formats, "BLOCK_ENTRIES", at_a_time)
    a = replace(MATRICES[name])  # a conversion of it is not kept
    want = np.zeros((a.rows, a.columns))
    np.add.at(want, (np.repeat(np.arange(a.rows), a.row_lengths), a.indices), a.values)
    assert np.array_equal(dense(spmv_formats.ell(a), a), want)
    for chunk, sigma in ((8, 1), (8, 4), (32, 1 << 16)):
        assert np.array_equal(dense(spmv_formats.sell(a, chunk, sigma), a), want)
    for least, most, shared in ((1, 1 << 16, False), (4, 6000, True), (4, max(100, 5000 // 64 + 2), True)):
        stored = spmv_formats.slabs(a, least, most, shared)
        assert np.array_equal(dense(stored, a), want)
        assert stored.defines["SUMS"] <= most


def test_a_slab_goes_forwards_through_x_and_a_long_row_has_several_sums():
    a = MATRICES["one dense row"]
    stored = spmv_formats.slabs(a, 4, 6000, True)
    _, words, bases, runs, _, extra_begins, _ = stored.arrays
    assert extra_begins[-1] == -(-5000 // spmv_formats.SUM_ENTRIES) - 1
    for slab in range(stored.items):
        assert (np.diff(bases[runs[slab] : runs[slab + 1]]) >= 0).all()
    assert np.bincount(words >> np.uint32(stored.defines["COLUMN_BITS"])).max() < 5000


def slabs_of_at_most(entries: float, most_sums: int, lengths: list[int]) -> int:
    """The fewest slabs of consecutive rows within both limits."""
    slabs, stored, sums = 1, 0, 0
    for length in lengths:
        own = max(1, -(-length // spmv_formats.SUM_ENTRIES))
        if stored + length > entries or sums + own > most_sums:
            slabs, stored, sums = slabs + 1, 0, 0
        stored, sums = stored + length, sums + own
    return slabs


@each(("least", "most_sums", "slabs"), [(20, 6000, 20), (20, 60, 40), (7, 6000, 7), (300, 6000, 300)])
def test_the_largest_slab_has_few_entries_even_beside_long_rows(least, most_sums, slabs):
    lengths = np.random.default_rng(1).permutation([3000] * 5 + [40] * 1500).tolist()
    a = whole(lengths, 5000)
    begins = spmv_formats.slabs(a, least, most_sums, True).arrays[4]
    assert begins[0] == 0 and begins[-1] == a.rows and (np.diff(begins) > 0).all() and len(begins) == slabs + 1
    largest, mean = np.diff(a.indptr[begins]).max(), a.nonzeros / slabs
    assert largest == 3000 or slabs_of_at_most(largest - 1 - spmv_formats.SLAB_TOLERANCE * mean, most_sums, lengths) > slabs


def test_empty_rows_are_in_slabs_too():
    a = whole([0] * 9 + [5] + [0] * 9, 5)
    assert spmv_formats.slabs(a, 4, 6000, True).arrays[4][[0, -1]].tolist() == [0, 19]
    assert spmv_formats.slabs(a, 4, 5, True).arrays[4].tolist() == [0, 5, 10, 15, 19]


def test_blocks_take_whole_rows_of_a_tile_and_part_what_is_far_longer():
    lengths = [3] * 20 + [0] * 100 + [40] + [2000] + [5]
    a = whole(lengths, 2000)
    stored = spmv_formats.blocks(a, 16, 2)
    table = stored.arrays[3]
    rows, entries = table[:, 1], table[:, 3] & ((1 << spmv_formats.LANES_SHIFT) - 1)
    assert rows.sum() == len(lengths) - 1
    assert entries.sum() == a.nonzeros
    assert (entries[rows > 1] <= 32).all()
    assert rows.max() <= 64
    assert stored.parted.tolist() == [[121, 0, 8, 8]]
    assert entries[rows == 0].tolist() == [256] * 7 + [2000 - 7 * 256]


def chosen_formats(info, own_cache_bytes: int, **made: Csr) -> dict[str, str]:
    return {name: spmv_rule.choose(info, a, own_cache_bytes)[0].format for name, a in made.items()}


def test_the_rule_chooses_by_statistics_of_rows_and_columns():
    names = ("reservoir", "banded", "uniform", "arrow", "wide", "near_band", "few_dense")
    made = {name: matrices.generate(name, 1, 1_000_000) for name in names}
    cpu = ("sell", "csr_shares", "sell", "csr_shares", "slab", "sell", "slab")
    gpu = ("ell", "ell", "ell", "csr_adaptive", "slab", "slab", "csr_adaptive")
    assert [*chosen_formats(CPU, 1 << 20, **made).values()] == [*cpu]
    assert [*chosen_formats(replace(FAKE_DEVICE_INFO, kind="gpu", compute_units=16), 1 << 20, **made).values()] == [*gpu]


def test_a_few_long_rows_are_slabs_if_each_unit_gets_some():
    gpu = replace(FAKE_DEVICE_INFO, kind="gpu", compute_units=1)
    for info, other in ((replace(CPU, compute_units=2), "csr_shares"), (gpu, "csr_adaptive")):  # of two slabs each
        made = {str(rows): whole([2000] * rows, 1_000_000) for rows in (7, 8)}
        assert chosen_formats(info, 1 << 14, **made) == {"7": other, "8": "slab"}


def test_short_rows_of_unequal_lengths_are_sorted_unless_their_columns_are_consecutive_or_few_are_long():
    lengths = [5 + 7 * n % 41 for n in range(2000)]
    longer = [*lengths[:-1], 800]
    made = {"random": whole(lengths, 5000), "runs": runs(lengths, 5000), "one long": whole(longer, 5000)}
    assert chosen_formats(CPU, 1 << 20, **made) == {"random": "sell", "runs": "csr_shares", "one long": "sell"}
    assert chosen_formats(CPU, 1 << 20, **{"one longer": whole([*lengths[:-1], 40_000], 50_000)}) == {
        "one longer": "csr_shares"
    }
    assert spmv_rule.choose(CPU, made["random"], 1 << 20)[0].sigma == spmv_rule.SORTED_ROWS


def test_on_a_gpu_neighbours_that_share_few_lines_of_x_ask_for_slabs_where_rows_are_uneven():
    gpu = replace(FAKE_DEVICE_INFO, kind="gpu", compute_units=4, line_bytes=128)
    lengths = [1 + 7 * n % 31 for n in range(2000)]
    made = {"far": whole(lengths, 2000), "even": whole([16] * 2000, 2000), "near": whole(lengths, 200)}
    made |= {"runs": runs(lengths, 2000), "short": whole([n % 2 for n in range(4000)], 40_000)}
    assert chosen_formats(gpu, 1 << 20, **made) == {
        "far": "slab", "even": "csr_adaptive", "near": "csr_adaptive", "runs": "csr_adaptive", "short": "csr_adaptive"
    }  # fmt: skip
    assert chosen_formats(CPU, 1 << 20, **made)["far"] == "sell"
    assert chosen_formats(gpu, 1 << 12, short=made["short"]) == {"short": "csr_adaptive"}
    assert [(c.format, c.per) for c in spmv_rule.choose(gpu, made["far"], 1 << 20)] == [("slab", 2), ("csr_adaptive", 4)]


def test_gathered_lines_are_those_of_groups_of_neighbours():
    line = 128
    assert spmv_rule.gathered_lines(runs([1024] * 40, 1024), line) == 2 / 32
    alone = whole([20_000], 20_000)
    assert spmv_rule.gathered_lines(replace(alone, indices=alone.indices * 16, columns=320_000), line) == 1
    drawn = np.random.default_rng(1).integers(0, 100 * 16, 320_000, dtype=np.int32)  # of 100 lines
    random = Csr(10_000, 1600, np.arange(0, 320_001, 32, dtype=np.int32), drawn, np.ones(320_000))
    assert spmv_rule.gathered_lines(random, line) == pytest.approx(100 * (1 - 0.99**32) / 32, abs=0.01)
    assert spmv_rule.gathered_lines(whole([5], 5), line) == 0


@each("own_cache_bytes", [1 << 18, 1 << 19, 1 << 20])
def test_slabs_are_for_an_x_beyond_half_of_a_units_own_cache(own_cache_bytes):
    """With 16 entries in each row, uniform's x takes half of the bytes that an eighth of its entries' values take."""
    made = {str(n): matrices.generate("uniform", 1, n * own_cache_bytes // 8) for n in (5, 16, 40)}
    assert [*chosen_formats(CPU, own_cache_bytes, **made).values()] == ["sell", "slab", "slab"]


def test_entries_that_fetch_a_line_are_those_that_none_before_them_shares():
    line, own = 64, 1 << 14
    run = whole([20_000], 20_000)
    assert spmv_rule.fetched_fraction(run, own, line) == pytest.approx(1 / 8, abs=0.01)
    alone = replace(run, indices=np.arange(20_000, dtype=np.int32) * 8, columns=160_000)
    assert spmv_rule.fetched_fraction(alone, own, line) == 1
    random = whole([1] * 20_000, 2048)  # 256 lines
    fractions = [spmv_rule.fetched_fraction(random, size, line) for size in (own // 4, own // 2, own, 2 * own, 4 * own)]
    expected = [256 / n * (1 - np.exp(-n / 256)) * np.exp(-n / 256) for n in (32, 64, 128, 256)]
    assert fractions == pytest.approx([*expected, 0], abs=0.03)
    assert spmv_rule.fetched_fraction(whole([1], 4096), own, line) == 0  # no two windows


def test_where_slabs_do_not_suit_auto_takes_the_next_format(device, monkeypatch):
    def refuse(*_):
        raise spmv_formats.UnsuitedFormat("columns too far apart")

    monkeypatch.setattr(spmv_formats, "slabs", refuse)
    monkeypatch.setattr(spmv_rule, "own_cache_bytes", lambda _: 1 << 14)
    work = BENCHMARK.prepare(device, "uniform", **shape("auto", order="blocked"))
    assert work.facts["chosen_format"] == "sell" and sampling.check_outputs(device, work) == ""
    with pytest.raises(Skip, match="too far apart"):
        BENCHMARK.prepare(device, "uniform", **shape("slab", order="blocked"))


def test_a_units_own_cache_is_the_systems_or_the_sheets_or_claimed(monkeypatch):
    monkeypatch.setattr(spmv_rule.cpu_topology, "core_cache_bytes", lambda: 123)
    assert spmv_rule.own_cache_bytes(CPU) == 123
    gpu = replace(FAKE_DEVICE_INFO, kind="gpu", compute_units=10, cache_bytes=10 << 15)
    assert spmv_rule.own_cache_bytes(replace(gpu, name="NVIDIA H100 80GB HBM3")) == 256 << 10
    assert spmv_rule.own_cache_bytes(replace(gpu, name="none such")) == 32 << 10
    assert spmv_rule.own_cache_bytes(replace(gpu, name="none such", cache_bytes=50 << 20)) == spmv_rule.USUAL_OWN_CACHE_BYTES


def test_shares_have_equally_many_rows_and_entries_and_part_what_is_far_longer():
    a = whole([3] * 20 + [0] * 100 + [40] + [2000] + [5], 2000)
    stored = spmv_formats.shares(a, 20)
    table = stored.arrays[4] & [0xFFFFFFFF] * 3 + [0x7FFFFFFF]
    share = -(-(a.rows + a.nonzeros) // 20)
    assert table[:, 1].sum() == a.rows - 1 and table[:, 3].sum() == a.nonzeros
    assert (table[:, 1] + table[:, 3]).max() <= share + 40  # a share ends with a row
    counts = -(-2000 // share)
    assert stored.parted.tolist() == [[121, 0, counts, counts]] and stored.parts == (table[:, 1] == 0).sum() == counts


def test_columns_of_shares_of_consecutive_ones_are_not_read(device, monkeypatch):
    a = MATRICES["rows of consecutive columns"]
    exact(monkeypatch, a)
    stored = spmv_formats.shares(a, 40)
    table = stored.arrays[4]
    assert (table[table[:, 3] & 0x7FFFFFFF > 0, 3] >> 31).all()
    assert stored.implied == a.nonzeros - len(a.row_lengths[a.row_lengths > 0]) - (stored.parts - 1)
    stored = spmv_formats.shares(whole([30] * 200, 100), 40)
    assert not (stored.arrays[4][:, 3] >> 31).any() and stored.implied == 0
    broken = replace(a, indices=np.where(np.arange(a.nonzeros) == 3000, a.indices + 1, a.indices).astype(np.int32))
    stored = spmv_formats.shares(broken, 40)
    assert (stored.arrays[4][:, 3] >> 31 == 0).sum() == 1
    work = BENCHMARK.prepare(device, "reservoir", **shape("csr_shares", order="blocked"))
    implied = spmv_formats.shares(a, spmv_launch.SHARES_PER_UNIT * device.info.compute_units).implied
    assert work.nbytes == 12 * a.nonzeros + 4 * (a.rows + 1) + 8 * a.columns + 8 * a.rows - 4 * implied


def test_a_row_that_needs_more_sums_than_fit_is_refused():
    with pytest.raises(spmv_formats.UnsuitedFormat, match="over 70 sums, the most that local memory holds"):
        spmv_formats.slabs(MATRICES["one dense row"], 4, 70, True)


def test_columns_too_far_apart_for_a_slab_are_refused():
    a = whole([2] * 3, 1 << 20)
    wide = replace(a, rows=1 << 14, indptr=np.r_[a.indptr, np.full((1 << 14) - 3, 6)].astype(np.int32))
    with pytest.raises(spmv_formats.UnsuitedFormat, match=r"columns, more than the 18 bits"):
        spmv_formats.slabs(wide, 1, 1 << 16, False)


def test_a_gpu_gets_a_work_item_or_a_team_a_row_or_the_groups_it_was_asked_for():
    def items(**changes):
        device = FakeDevice(replace(FAKE_DEVICE_INFO, array_bytes=SIZE, **changes))
        chosen = (shape("csr_row"), shape("csr_team", team=8, work_group=128))
        launches = [BENCHMARK.prepare(device, "banded", **s).commands[0] for s in chosen]
        return [launch.global_size[0] for launch in launches]

    rows = SIZE // 8 // 27
    assert items() == [-(-rows // 64) * 64, -(-rows // 16) * 128]
    assert items(work_groups=132) == [132 * 64, 132 * 128]


def asked(info, suite: str) -> list[tuple[str, dict[str, object]]]:
    return [(p.role, dict(p.params)) for p in walked(sweep.explore(BENCHMARK, info, Selection(suite=suite)))]


@pytest.mark.parametrize("info", [FAKE_DEVICE_INFO, CPU], ids=["gpu", "cpu"])
def test_trials_are_few_and_begin_with_what_wins(info):
    quick = asked(info, "quick")
    assert sum(role == "tune" for role, _ in quick) <= 2
    everything = asked(info, "all")
    assert len([p for p in walked(sweep.explore(BENCHMARK, info, Selection())) if p.place == Placement()]) <= 70
    formats = {p["format"] for _, p in everything}
    assert formats == set(BENCHMARK.axes["format"].values(info))
    assert {p["hints"] for _, p in everything} == set(BENCHMARK.axes["hints"].values(info))
    assert dict(BENCHMARK.scaling(info)).items() <= quick[-1][1].items()
    if info.kind == "gpu":
        by_team = [p for _, p in everything if p["format"] == "csr_team"]
        teams = {m: {p["team"] for p in by_team if p["matrix"] == m} for m in SPMV.TEAM_BY_MATRIX}
        assert {m: t for m, t in teams.items() if t} == {"power_law": {4, 8, 16}}
