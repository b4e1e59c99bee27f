"""B8: a sparse matrix times a vector, in double: what is left of memory's bandwidth when one operand is gathered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from clmembench import matrices
from clmembench.benchmarks import BANDWIDTH, axis, axis_of, benchmark
from clmembench.data import kernel_source
from clmembench.matrices import Csr
from clmembench.model import Array, Buffer, Device, DeviceError, DeviceInfo, Launch, Metric, Skip, Value, Work

FLOP_RATE = Metric("flop_rate", "GFLOP/s", "flops", "rate", "higher")
TIME = Metric("time", "us", "ops", "cost", "lower", scale=1e-3)
TEAM_NEAR = {"reservoir": 8, "banded": 32, "uniform": 16, "power_law": 16}  # the power of two from the mean row up
BLOCKS = 64  # a compute unit: few enough to stream, many enough that long rows even out
STREAMS = 8  # that a core's prefetchers follow at a time
TILE = 2048  # rows whose sums a core's first cache holds
ALIGN = 32  # rows: entries of ELL begin at whole lines
TRAFFIC = "bandwidth is of the traffic that no format can avoid, counted for CSR: padding, and reading x again, are not in it"
MOST_PADDED = 3.0  # entries that ELL stores over nonzeros


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """A matrix, a vector, their product, and by how much each row of a right result may differ from it."""

    matrix: Csr
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    allowed: npt.NDArray[np.float64]
    met: int  # columns that have an entry: the part of x that must be read


@dataclass(frozen=True, slots=True, eq=False)
class _Ell:
    """A matrix by padded rows: entry k of row r at [k, r] of (width, pitch); padding is 0 times x[0]."""

    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]


def _teams(info: DeviceInfo) -> tuple[int, ...]:
    """Lanes of one core take turns, so that a team's only cost it time."""
    return (2, 4) if info.kind == "cpu" else (8, 16, 4, 32, 2)


def _work_groups(info: DeviceInfo) -> tuple[int, ...]:
    return (64,) if info.kind == "cpu" else (128, 64, 256)


def _where(info: DeviceInfo, matrix: str, format: str, order: str, team: int, work_group: int) -> bool:
    if format == "csr_team":
        return order == "strided"
    # what a format does not have stays at its first value; a block is one work-item's
    return team == _teams(info)[0] and (order != "blocked" or work_group == _work_groups(info)[0])


def _thin(info: DeviceInfo, matrix: str, format: str, order: str, team: int, work_group: int) -> bool:
    """Teams that have up to four entries a lane in a mean row."""
    near = TEAM_NEAR[matrix]
    return format != "csr_team" or info.kind == "cpu" or near // 4 <= team <= near


@benchmark(
    FLOP_RATE,
    BANDWIDTH,
    TIME,
    suite="compute",
    source="Razzaq et al. 2016, sections IV-D2 and VI-H (B8); Bell & Garland 2009 for the formats",
    quick={
        "matrix": axis("reservoir"),
        "format": axis_of(lambda info: ("csr_row",) if info.kind == "cpu" else ("ell",)),
        "order": axis_of(lambda info: ("blocked",) if info.kind == "cpu" else ("strided",), tuning=True),
        "team": axis_of(lambda info: _teams(info)[:1], tuning=True),
        "work_group": axis_of(lambda info: _work_groups(info)[:2], tuning=True),
    },
    needs=["fp64"],
    where=_where,
    thin=_thin,
    x="matrix",
    scaling=lambda info: {"matrix": "reservoir", "format": "csr_row" if info.kind == "cpu" else "ell"},
    matrix=axis(*matrices.GENERATED, accepts=matrices.is_file),
    format=axis_of(lambda info: ("csr_row", "ell", "csr_team") if info.kind == "cpu" else ("csr_team", "ell", "csr_row")),
    order=axis_of(lambda info: ("blocked", "strided") if info.kind == "cpu" else ("strided",), tuning=True),
    team=axis_of(_teams, tuning=True),
    work_group=axis_of(_work_groups, tuning=True),
)
def spmv(device: Device, matrix: str, format: str, order: str, team: int, work_group: int) -> Work:
    """A sparse matrix times a vector in double: y = A x, by rows of CSR, by teams on rows of CSR, and by ELL.

    A is generated (a reservoir's 7-point system on SPE10's grid, a band, uniformly random, power-law rows) or read from a
    Matrix Market file; --size bounds the bytes of a generated matrix's values. 2 FLOP a nonzero. Bytes are the compulsory
    traffic of A in CSR, whatever the format, so that formats compare: each stored nonzero's value (8) and column (4) once, 4
    for each of rows + 1 row pointers, x (8 a column that has an entry) and y (8 a row) once. Neither ELL's padding is counted
    nor what reading x costs beyond once. Every row is compared with SciPy's product within the rounding error of a sum of its
    length.

    Raises Skip for a matrix that does not fit into memory or has no small ELL and for work-groups that the device or the team
    does not allow, DeviceError for a file that cannot be read.
    """
    info, blocked = device.info, order == "blocked"
    if work_group > info.max_work_group:
        raise Skip(f"a work-group of {work_group} is over this device's largest, {info.max_work_group}")
    if format == "csr_team" and work_group % team:
        raise Skip(f"a work-group of {work_group} is not made of whole teams of {team}")
    problem = _problem(matrix, device.seed % 2**32, info)
    a, lengths = problem.matrix, problem.matrix.row_lengths
    arrays, defines = _stored(info, a, format, blocked, team, work_group)
    kernel = device.build(kernel_source("spmv"), **defines)[format]
    y = device.alloc(problem.y.nbytes)
    buffers = [_uploaded(device, array) for array in (*arrays, problem.x)]
    group = 1 if blocked else work_group
    rows_a_group = work_group // team if format == "csr_team" else group
    groups = min(a.rows, info.compute_units * BLOCKS) if blocked else -(-a.rows // rows_a_group)
    global_size = (info.work_groups or groups) * group
    return Work(
        commands=(Launch(kernel, (*buffers, y, np.uint32(a.rows)), (global_size,), (group,)),),
        nbytes=12 * a.nonzeros + 4 * (a.rows + 1) + 8 * problem.met + 8 * a.rows,
        flops=2 * a.nonzeros,
        ops=1,
        outputs=((y, problem.y.nbytes),),
        check=_check(device, y, problem),
        busy=info.compute_units if info.kind == "cpu" else 0,
        notes=(TRAFFIC, f"{matrix}: {a.rows} rows, {a.nonzeros} nonzeros, {lengths.min()} to {lengths.max()} in a row"),
    )


def _stored(
    info: DeviceInfo, a: Csr, format: str, blocked: bool, team: int, work_group: int
) -> tuple[Sequence[Array], Mapping[str, Value]]:
    """The arrays of the matrix as that format's kernel takes them, and what that kernel is built with."""
    if format == "csr_team":
        return (a.values, a.indices, a.indptr), {"TEAM": team, "ITEMS": work_group}
    if format == "csr_row":
        return (a.values, a.indices, a.indptr), {"BLOCKED": blocked}
    longest, mean = int(a.row_lengths.max()), a.nonzeros / a.rows
    if longest > MOST_PADDED * mean:
        rows = f"the longest row has {longest}, the mean {mean:.3g}"
        raise Skip(f"ELL would store {longest / mean:.3g} times the nonzeros: {rows}")
    _refuse_large(info, a.rows, a.columns, longest * a.rows)
    padded = _ell(a)
    width, pitch = padded.values.shape
    shape = {"WIDTH": width, "PITCH": pitch, "TILE": TILE, "STREAMS": STREAMS}
    return (padded.values, padded.indices), {"BLOCKED": blocked, **shape}


@lru_cache(maxsize=1)
def _cached_problem(matrix: str, seed: int, most: int) -> _Problem:
    """Raises ValueError with what is wrong with the matrix."""
    a = matrices.generate(matrix, seed, most) if matrix in matrices.GENERATED else matrices.read(matrix)
    x = np.random.default_rng([seed, 1]).uniform(0.5, 1.5, a.columns)
    y, magnitude = matrices.product(a, x), matrices.product(a, x, absolute=True)
    if not np.isfinite(magnitude).all():
        raise ValueError(f"{matrix}: products of its values and numbers about 1 overflow")
    # Higham 2002, section 3.1: a sum of n products in any order is off by at most n u times the sum of their magnitudes; here
    # both sides may be. Products below the normal numbers lose one step of the smallest ones each.
    terms = a.row_lengths + 2.0
    allowed = 2 * terms * (magnitude * 2.0**-53 + np.finfo(float).smallest_subnormal)
    met = np.zeros(a.columns, dtype=bool)
    met[a.indices] = True
    return _Problem(a, x, y, allowed, int(met.sum()))


def _problem(matrix: str, seed: int, info: DeviceInfo) -> _Problem:
    """The problem, made once for all points of one matrix. Raises Skip where it would not fit, DeviceError for a file that
    cannot be read: the user named it, so nothing measured is a failure."""
    most = matrices.MOST if info.array_bytes is None else info.array_bytes // 8
    try:
        if matrix not in matrices.GENERATED:
            promised = matrices.outline(matrix)
            _refuse_large(info, promised.rows, promised.columns, promised.nonzeros)
        problem = _cached_problem(matrix, seed, most)
    except ValueError as error:
        raise (Skip if matrix in matrices.GENERATED else DeviceError)(str(error)) from error
    _refuse_large(info, problem.matrix.rows, problem.matrix.columns, problem.matrix.nonzeros)
    return problem


def _refuse_large(info: DeviceInfo, rows: int, columns: int, stored: int) -> None:
    """Raises Skip for a matrix of that many stored entries that would not fit beside what the host makes it from."""
    nbytes, largest = 12 * stored + 12 * rows + 8 * columns, 8 * max(stored, rows, columns)
    host = 4 * nbytes > info.host_mem_bytes
    if largest > info.max_alloc_bytes or 2 * nbytes > info.global_mem_bytes or host:
        size, whose = f"{nbytes / 2**30:.2g} GiB of matrix and vectors", "host" if host else "device"
        raise Skip(f"{size} are too much for this {whose}: lower --size, or take a smaller file")


@lru_cache(maxsize=1)
def _ell(a: Csr) -> _Ell:
    lengths = a.row_lengths
    shape = int(lengths.max()), -(-a.rows // ALIGN) * ALIGN
    indices, values = np.zeros(shape, np.int32), np.zeros(shape)
    for k in range(shape[0]):
        rows = np.flatnonzero(lengths > k)
        at = a.indptr[rows] + k
        indices[k, rows] = a.indices[at]
        values[k, rows] = a.values[at]
    return _Ell(indices, values)


def _uploaded(device: Device, array: Array) -> Buffer:
    buffer = device.alloc(array.nbytes)
    device.upload(buffer, array)
    return buffer


def _check(device: Device, y: Buffer, problem: _Problem) -> Callable[[], None]:
    def check() -> None:
        found = device.download(y, np.float64, len(problem.y))
        wrong = np.flatnonzero(~(np.abs(found - problem.y) <= problem.allowed))  # a NaN is not within anything
        if len(wrong):
            row = wrong[0]
            values = f"{float(found[row])!r} and not {float(problem.y[row])!r} within {problem.allowed[row]:.1e}"
            raise AssertionError(f"{len(wrong)} of {len(found)} rows are wrong, the first is row {row}: {values}")

    return check
