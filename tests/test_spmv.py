"""y = A x is right in every format and shape on a real device, its check sees damage, and its amounts follow the rule."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from clmembench import matrices, measure, plan
from clmembench.benchmarks import discovered
from clmembench.matrices import Csr
from clmembench.model import DeviceError, Skip
from clmembench.runtimes import runtime
from clmembench.runtimes.fake import INFO, FakeDevice
from clmembench.selection import Selection
from tests.builders import walked

SPMV = import_module("clmembench.benchmarks.spmv")
BENCHMARK = discovered()["spmv"]
CPU = replace(INFO, kind="cpu", compute_units=2, shares_host_memory=True)
SIZE = 1 << 18  # bytes of a generated matrix's values
ROW = {"format": "csr_row", "order": "blocked", "team": 2, "work_group": 64}


@pytest.fixture(scope="module")
def device():
    found = [d for d in runtime("opencl").devices() if d.kind == "cpu"]
    assert found, "no OpenCL CPU device: pip install 'clmembench[test]' brings PoCL"
    return runtime("opencl").open(replace(found[0], array_bytes=SIZE))


def whole(lengths, columns: int, seed: int = 1) -> Csr:
    """Rows of these lengths with whole numbers from -9 to 9 in random columns."""
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    chosen = [np.sort(rng.choice(columns, n, replace=False)) for n in lengths]
    indices = np.concatenate(chosen).astype(np.int32)
    return Csr(len(lengths), columns, indptr, indices, rng.integers(-9, 10, len(indices)).astype(float))


MATRICES = {
    "empty rows at both ends and between": whole([0, 0, 3, 0, 7, 1, 0, 0, 2, 0], 11),
    "one dense row": whole([2] * 300 + [5000] + [2] * 300, 5000),
    "wide": whole([40, 33, 0, 64, 65], 70),
    "tall": whole([i % 4 for i in range(5001)], 3),  # more rows than a tile, and no multiple of anything
    "one entry": whole([1], 1),
    "rows around a team's size": whole([n for t in (2, 4, 8, 16, 32) for n in (t - 1, t, t + 1)], 64),
}
SHAPES = [
    ("csr_row", "blocked", 2, 64),
    ("csr_row", "strided", 2, 1),
    ("csr_row", "strided", 2, 64),
    ("ell", "blocked", 2, 64),
    ("ell", "strided", 2, 128),
    *(("csr_team", "strided", *s) for s in [(1, 32), (2, 64), (4, 96), (8, 64), (8, 256), (16, 96), (32, 32), (32, 256)]),
]


def exact(monkeypatch, a: Csr) -> None:
    """Have the benchmark multiply `a` by whole numbers and accept nothing but the very product."""
    x = np.random.default_rng(2).integers(-9, 10, a.columns).astype(float)
    y = np.zeros(a.rows)
    np.add.at(y, np.repeat(np.arange(a.rows), a.row_lengths), a.values * x[a.indices])
    monkeypatch.setattr(SPMV, "_cached_problem", lambda *_: SPMV._Problem(a, x, y, np.zeros(a.rows), a.columns))
    monkeypatch.setattr(SPMV, "MOST_PADDED", 1e9)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s)))
@pytest.mark.parametrize("name", MATRICES)
def test_every_shape_gives_the_exact_product(device, monkeypatch, name, shape):
    exact(monkeypatch, MATRICES[name])
    work = BENCHMARK.prepare(device, "reservoir", *shape)
    assert measure.verify(device, work) == ""


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("shape", SHAPES[1:5] + SHAPES[-3:], ids=lambda s: "-".join(map(str, s)))
def test_fewer_work_groups_take_all_rows_in_rounds(device, monkeypatch, shape, groups):
    monkeypatch.setattr(device, "info", replace(device.info, work_groups=groups))
    for name in ("tall", "one dense row"):
        exact(monkeypatch, MATRICES[name])
        work = BENCHMARK.prepare(device, "reservoir", *shape)
        assert work.commands[0].global_size[0] == groups * work.commands[0].local_size[0]
        assert measure.verify(device, work) == ""


@pytest.mark.parametrize("matrix", matrices.GENERATED)
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[4], ("csr_team", "strided", 8, 128)], ids=lambda s: s[0])
def test_generated_matrices_pass_within_rounding(device, matrix, shape):
    try:
        work = BENCHMARK.prepare(device, matrix, *shape)
    except Skip as skip:
        assert (matrix, shape[0]) == ("power_law", "ell")
        assert "times the nonzeros: the longest row has 10" in str(skip)
        return
    assert measure.verify(device, work) == ""


@pytest.mark.parametrize("damage", ["nan", "last bits", "a neighbour's", "not written"])
def test_a_damaged_result_is_wrong(device, damage):
    work = BENCHMARK.prepare(device, "reservoir", **ROW)
    assert measure.verify(device, work) == ""
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
    works = [BENCHMARK.prepare(device, "reservoir", *shape) for shape in (SHAPES[0], SHAPES[3], SHAPES[-1])]
    assert {w.flops for w in works} == {2 * 202}
    assert {w.nbytes for w in works} == {12 * 202 + 4 * 6 + 8 * 70 + 8 * 5}
    assert {w.ops for w in works} == {1}
    assert works[0].notes == (SPMV.TRAFFIC, "reservoir: 5 rows, 202 nonzeros, 0 to 65 in a row")


def test_a_matrix_is_made_once_for_all_its_points(device, monkeypatch):
    made, whole_maker = [], matrices.generate
    monkeypatch.setattr(matrices, "generate", lambda *a: made.append(a) or whole_maker(*a))
    SPMV._cached_problem.cache_clear()
    for shape in SHAPES[:6]:
        BENCHMARK.prepare(device, "banded", *shape)
    assert len(made) == 1
    monkeypatch.setattr(device, "seed", 7)
    BENCHMARK.prepare(device, "banded", *SHAPES[0])
    assert [seed for _, seed, _ in made] == [0, 7]


def test_a_file_is_multiplied(device, tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 2.5\n2 1 -1\n3 3 1e-320\n")
    assert BENCHMARK.axes["matrix"].accepts(str(path))
    for shape in SHAPES[:8]:
        work = BENCHMARK.prepare(device, str(path), *shape)
        assert measure.verify(device, work) == ""
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


@pytest.mark.parametrize(
    ("info", "shape", "reason"),
    [
        (replace(INFO, max_alloc_bytes=1 << 20), ("csr_row", "strided", 8, 128), "too much for this device"),
        (replace(INFO, global_mem_bytes=8 << 20), ("csr_row", "strided", 8, 128), "too much for this device"),
        (replace(INFO, host_mem_bytes=8 << 20), ("csr_row", "strided", 8, 128), "too much for this host"),
        (INFO, ("csr_row", "strided", 8, 2048), "work-group of 2048 is over"),
        (INFO, ("csr_team", "strided", 24, 64), "64 is not made of whole teams of 24"),
        (replace(INFO, array_bytes=100), ("csr_row", "strided", 8, 128), "too few"),
    ],
)
def test_what_cannot_run_is_skipped_with_the_reason(info, shape, reason):
    info = replace(info, array_bytes=info.array_bytes or 4 << 20)
    with pytest.raises(Skip, match=reason):
        BENCHMARK.prepare(FakeDevice(info), "uniform", *shape)


def test_a_gpu_gets_a_work_item_or_a_team_a_row_or_the_groups_it_was_asked_for():
    def items(**changes):
        device = FakeDevice(replace(INFO, array_bytes=SIZE, **changes))
        launches = [BENCHMARK.prepare(device, "banded", *s).commands[0] for s in (SHAPES[2], ("csr_team", "strided", 8, 128))]
        return [launch.global_size[0] for launch in launches]

    rows = SIZE // 8 // 27
    assert items() == [-(-rows // 64) * 64, -(-rows // 16) * 128]
    assert items(work_groups=132) == [132 * 64, 132 * 128]


def asked(info, suite: str) -> list[tuple[str, dict[str, object]]]:
    return [(p.role, dict(p.params)) for p in walked(plan.explore(BENCHMARK, info, Selection(suite=suite)))]


@pytest.mark.parametrize("info", [INFO, CPU], ids=["gpu", "cpu"])
def test_trials_are_few_and_begin_with_what_wins(info):
    quick = asked(info, "quick")
    assert sum(role == "tune" for role, _ in quick) <= 2
    everything = asked(info, "all")
    assert len(everything) <= 70
    formats = {p["format"] for _, p in everything}
    assert formats == {"csr_row", "csr_team", "ell"}
    assert dict(BENCHMARK.scaling(info)).items() <= quick[-1][1].items()
    if info.kind == "gpu":
        by_team = [p for _, p in everything if p["format"] == "csr_team"]
        teams = {m: {p["team"] for p in by_team if p["matrix"] == m} for m in SPMV.TEAM_NEAR}
        assert teams == {"reservoir": {2, 4, 8}, "banded": {8, 16, 32}, "uniform": {4, 8, 16}, "power_law": {4, 8, 16}}
