"""B8: a sparse matrix times a vector, in double: the share of the memory bandwidth that remains if one operand is gathered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clmembench.benchmarks import (
    BANDWIDTH,
    MEMORY_READS,
    axis,
    axis_of,
    benchmark,
    is_timed_in_batches,
    work_group_sizes,
)
from clmembench.benchmarks.spmv import matrices
from clmembench.benchmarks.spmv import spmv_formats as formats
from clmembench.benchmarks.spmv import spmv_launch as launch
from clmembench.benchmarks.spmv import spmv_problem as problems
from clmembench.benchmarks.spmv import spmv_rule as rule
from clmembench.benchmarks.spmv.matrices import Csr
from clmembench.model import Device, DeviceInfo, Headline, Metric, Quantity, Skip, Work

FLOP_RATE = Metric("flop_rate", "GFLOP/s", "flops", "rate", "higher")
TIME = Metric("time", "us", "ops", "cost", "lower", scale=1e-3)
TEAM_BY_MATRIX = {
    "reservoir": 8,
    "banded": 32,
    "uniform": 16,
    "power_law": 16,
}  # the smallest power of two that is at least the mean row
BLOCKS_PER_UNIT = 64  # few enough for streaming, many enough to balance long rows
NOTE_TRAFFIC = "bandwidth counts the compulsory traffic of CSR: it excludes padding and repeated reads of x"
FORMATS_WITHOUT_HINT = {"none": (), "ptx": ("csr_row", "csr_team"), "prefetch": ("ell", "csr_team", "csr_adaptive")}  # formats
SORTED_ROWS = 1 << 16  # in a window of SELL: enough for equal lengths in a chunk


def _teams(info: DeviceInfo) -> tuple[int, ...]:
    """Sizes of teams; on CPUs small ones, since a core runs its lanes one after the other and a team only costs time."""
    return work_group_sizes(info, *((2, 4) if info.has_cpu_cores else (8, 16, 4, 32, 2)))


def _group_sizes(info: DeviceInfo) -> tuple[int, ...]:
    return work_group_sizes(info, *((64,) if info.has_cpu_cores else (128, 64, 256, 1024, 512)))


# sizes of work-groups by format, the likely best first; other formats use the first three
FORMAT_GROUP_SIZES = {"csr_adaptive": (128, 256), "ell": (128, 256), "sell": (128, 64), "slab": (1024, 512)}
ENTRIES_PER_ITEM = {"csr_adaptive": (4, 6), "slab": (1, 2)}  # in flight per work-item


def _formats(info: DeviceInfo) -> tuple[str, ...]:
    if info.has_cpu_cores:
        return ("auto", "csr_row", "csr_shares", "sell", "slab", "ell", "csr_team")
    return ("auto", "csr_adaptive", "csr_team", "ell", "sell", "slab", "csr_row")


def _hints(info: DeviceInfo) -> tuple[str, ...]:
    """Hints for loads: none, and the one that this device supports. Clang's builtins are available together."""
    if info.has_cpu_cores:
        return ("none", "prefetch") if "nontemporal" in info.features else ("none",)
    return ("none", "ptx") if "ptx" in info.features else ("none",)


def _where(
    info: DeviceInfo, matrix: str, format: str, hints: str, order: str, team: int, work_group: int, per: int, sigma: int
) -> bool:
    """Whether a point is measured: an axis that a format does not have is fixed at its first value."""
    blocked = order == "blocked"
    if format == "auto":  # its choice has its own configuration
        first = _teams(info)[0], _group_sizes(info)[0], _entries_per_item(info)[0], 1
        return blocked == info.has_cpu_cores and (team, work_group, per, sigma) == first
    if hints == "prefetch" and not blocked and format not in FORMATS_WITHOUT_HINT[hints]:
        return False
    if (blocked and format in ("csr_team", "csr_adaptive")) or (sigma > 1 and format != "sell"):
        return False
    if format == "csr_shares" and not blocked:
        return False
    if format != "csr_team" and team != _teams(info)[0]:
        return False
    if blocked:  # a block belongs to one work-item
        return work_group == _group_sizes(info)[0] and per == _entries_per_item(info)[0]
    if info.has_cpu_cores:
        return True
    groups = work_group_sizes(info, *FORMAT_GROUP_SIZES.get(format, _group_sizes(info)[:3]))
    return work_group in groups and per in ENTRIES_PER_ITEM.get(format, _entries_per_item(info)[:1])


def _in_default_subset(
    info: DeviceInfo, matrix: str, format: str, hints: str, order: str, team: int, work_group: int, per: int, sigma: int
) -> bool:
    """Points of the default subset: the candidates for the best; on one matrix per format also the others.

    There the best format is also measured without its hints.
    """
    cpu, reservoir = info.has_cpu_cores, matrix == "reservoir"
    beside = hints == "none" and len(_hints(info)) > 1
    if format == "auto":  # all likely formats of the other usual matrices are measured
        return (reservoir or matrix not in matrices.USUAL) and not beside
    if format in FORMATS_WITHOUT_HINT[hints]:
        return False
    if cpu and order == "strided" and not reservoir:
        return False
    if format == "sell":
        return (
            (sigma > 1) == (matrix == "power_law")
            and (reservoir or not beside)
            and matrix != ("power_law" if cpu else "banded")
            and matrix != "uniform"
        )
    if format == "slab":
        return matrix == "power_law" or (matrix == "uniform" and not beside)
    if format == "ell":
        return reservoir or (matrix == "banded" and not (cpu or beside))
    if format == "csr_row":
        return reservoir or (cpu and (not beside or matrix == "power_law"))
    if format == "csr_shares":
        return matrix not in ("reservoir", "banded") and not beside
    if format == "csr_team":  # with up to four entries per lane in a mean row
        near = TEAM_BY_MATRIX.get(matrix, team)
        return reservoir if cpu else near // 4 <= team <= near and matrix == "power_law"
    return reservoir or not beside


def _entries_per_item(info: DeviceInfo) -> tuple[int, ...]:
    return (1,) if info.has_cpu_cores else (4, 6, 1, 2)


@benchmark(
    FLOP_RATE,
    BANDWIDTH,
    TIME,
    suite="compute",
    source="Razzaq et al. 2016, sections IV-D2 and VI-H (B8); for the formats Bell & Garland 2009, Greathouse & Daga 2014, "
    "Merrill & Garland 2016, Kreutzer et al. 2014, Buluç et al. 2009",
    quick={
        "matrix": axis("reservoir"),
        "format": axis_of(lambda info: ("sell",) if info.has_cpu_cores else ("ell",)),
        "hints": axis_of(lambda info: _hints(info)[-1:]),
        "order": axis_of(lambda info: ("blocked",) if info.has_cpu_cores else ("strided",), tuning=True),
        "team": axis_of(lambda info: _teams(info)[:1], tuning=True),
        "work_group": axis_of(lambda info: _group_sizes(info)[:2], tuning=True),
        "per": axis_of(lambda info: _entries_per_item(info)[:1], tuning=True),
        "sigma": axis(1, tuning=True),
    },
    needs=["fp64"],
    headlines=(
        *(Headline("sparse", f"SpMV {matrix}, best format", "flop_rate", {"matrix": matrix}) for matrix in matrices.USUAL),
        Headline("sparse", "SpMV reservoir, CSR, a row each", "flop_rate", {"matrix": "reservoir", "format": "csr_row"}),
    ),
    quantities=[
        Quantity(MEMORY_READS, "bandwidth", beyond_caches=True, limit="a product with a sparse matrix gathers one operand")
    ],
    where=_where,
    default_subset=_in_default_subset,
    figure_axis="matrix",
    scaling=lambda info: {
        "matrix": "reservoir",
        "format": "sell" if info.has_cpu_cores else "ell",
        "hints": _hints(info)[-1],
    },
    # CSR, and on CPUs also the format that suits GPUs: Razzaq et al. 2016, figures 25 and 26
    scaling_also=lambda info: [
        {"matrix": "reservoir", "format": format, "hints": hints}
        for format, hints in (
            (("csr_row", _hints(info)[-1]), ("ell", "none")) if info.has_cpu_cores else (("csr_adaptive", _hints(info)[-1]),)
        )
    ],
    matrix=axis(*matrices.USUAL, accepts=problems.is_matrix),
    format=axis_of(_formats),
    hints=axis_of(_hints, needs={"ptx": ["ptx"], "prefetch": ["nontemporal"]}),
    order=axis_of(lambda info: ("blocked", "strided") if info.has_cpu_cores else ("strided",), tuning=True),
    team=axis_of(_teams, tuning=True),
    work_group=axis_of(_group_sizes, tuning=True),
    per=axis_of(_entries_per_item, tuning=True),
    sigma=axis(1, SORTED_ROWS, tuning=True),
    version=3,  # timed in batches on GPUs
)
def spmv(
    device: Device, matrix: str, format: str, hints: str, order: str, team: int, work_group: int, per: int, sigma: int
) -> Work:
    """Sparse matrix-vector product y = A x in double, by CSR in rows, teams, blocks or shares, ELL, SELL-C-sigma and slabs.

    A is generated (a reservoir's 7-point system on SPE10's grid, a band, uniformly random, power-law rows; by name also
    stencil_5, stencil_27, block, empty_rows, arrow, wide, tall, one_row, diagonal, rmat, triangle, near_band, few_dense) or
    read from a Matrix Market file; --size limits the bytes of a generated matrix's values. A nonzero counts 2 FLOP. Bytes are
    the compulsory traffic of A in CSR, whatever the format, so that formats can be compared: the value (8) and column (4) of
    each stored nonzero, 4 for each of rows + 1 row pointers, x (8 per column that has an entry) and y (8 per row), once each.
    Not counted are padding, repeated reads of x, and columns of csr_shares that follow from those before them. `facts` are the
    stored entries of the format over the nonzeros, and the host's seconds for the conversion from CSR, which is not timed.
    Every row is compared with SciPy's product within the rounding error of a sum of its length.

    auto is the format that a rule chooses by statistics of rows and columns and by a unit's own cache (`facts`: chosen_format).
    csr_adaptive keeps CSR and adds a list of blocks, csr_shares (on CPUs) one of shares of equally many rows and entries; slab
    sorts the entries of some thousand rows by column, for matrices with random columns. `hints`: loads past L1 by NVIDIA's
    PTX, or software prefetches on CPUs.

    Raises Skip for a matrix that does not fit in memory or suit the format and for work-groups that the device or the team does
    not allow, DeviceError for a file that cannot be read.
    """
    info, blocked = device.info, order == "blocked"
    problem = problems.problem_of_point(matrix, device.seed % 2**32, info)
    a, lengths = problem.matrix, problem.matrix.row_lengths
    chosen = rule.Choice(format, work_group, per, sigma)
    choices = rule.choose(info, a, rule.own_cache_bytes(info)) if format == "auto" else (chosen,)
    chosen, stored = _convert(info, a, choices, hints, blocked, team)
    format, work_group = chosen.format, chosen.work_group
    items_per_group = {"csr_team": work_group // team, "csr_adaptive": 1, "slab": 1}.get(format, 1 if blocked else work_group)
    groups = min(stored.items, info.compute_units * BLOCKS_PER_UNIT) if blocked else -(-stored.items // items_per_group)
    y = device.alloc(8 * (a.rows + max(launch.CHUNK_ROWS.values())))  # the last chunk of SELL may exceed the rows
    kernels = launch.build_kernels(device, stored, format, hints, blocked, team, work_group)
    return Work(
        commands=launch.make_commands(device, kernels, format, stored, problem.x, y, groups, 1 if blocked else work_group),
        nbytes=problem.nbytes - 4 * stored.implied,
        flops=2 * a.nonzeros,
        ops=1,
        outputs=((y, problem.y.nbytes),),
        check=problems.product_check(device, y, problem),
        expected_units=None if _is_even(a, groups, info.compute_units) else 0,
        notes=(NOTE_TRAFFIC, f"{matrix}: {a.rows} rows, {a.nonzeros} nonzeros, {lengths.min()} to {lengths.max()} in a row"),
        facts={
            "stored_over_nonzeros": stored.entries / max(1, a.nonzeros),
            "conversion_s": stored.seconds,
            "chosen_format": format,
        },
        back_to_back=is_timed_in_batches(info),
    )


def _convert(
    info: DeviceInfo, a: Csr, choices: Sequence[rule.Choice], hints: str, blocked: bool, team: int
) -> tuple[rule.Choice, formats.ConvertedMatrix]:
    """The first of these choices that suits the matrix, and the matrix in its format. Raises Skip if none does."""
    for choice in choices:
        _refuse(info, choice.format, hints, team, choice.work_group)
        try:
            shape = choice.work_group, choice.per, choice.sigma
            return choice, launch.convert(info, a, choice.format, hints, blocked, *shape)
        except formats.UnsuitedFormat as error:
            reason = error
    raise Skip(str(reason)) from reason


def _refuse(info: DeviceInfo, format: str, hints: str, team: int, work_group: int) -> None:
    """Raises Skip for a work-group that the device or the team does not allow, and for hints that the format does not have."""
    if work_group > info.max_work_group:
        raise Skip(f"a work-group of {work_group} is over this device's largest, {info.max_work_group}")
    if format == "csr_team" and work_group % team:
        raise Skip(f"a work-group of {work_group} is not a multiple of a team of {team}")
    if format in FORMATS_WITHOUT_HINT[hints]:
        raise Skip(f"{format} has no loads with hints={hints}")


def _is_even(a: Csr, groups: int, units: int) -> bool:
    """Whether each work-group has at most a quarter of a compute unit's share of the entries.

    All units then work until about the end. A single dense row delays one unit, which is slow but correct.
    """
    largest = np.diff(a.indptr[np.linspace(0, a.rows, groups + 1).astype(np.int64)]).max()
    return bool(4 * units * int(largest) <= a.nonzeros)
