"""The rule that chooses a format for a matrix on a device, by statistics of rows and columns and by a unit's own cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clmembench.benchmarks.spmv.matrices import Csr
from clmembench.benchmarks.spmv.spmv_launch import CHUNK_ROWS, SLAB_GROUPS_PER_UNIT
from clmembench.host import cpu_topology
from clmembench.model import DeviceInfo
from clmembench.specs import claims, sheets

USUAL_OWN_CACHE_BYTES = 1 << 18  # where nothing is known of a unit's caches
SAMPLED_WINDOWS = 16  # of entries
# entries that fetch a line of x over all: consecutive columns make it 1/8 where lines have 8 elements, and a core that adds up
# rows side by side fetches several at once
MIN_FETCHED_FRACTION = {"core": 0.15, "core with vectors of rows": 0.3, "gpu": 0.5}
# lines of x that neighbouring entries lie in, over these entries: a GPU's blocks of CSR keep products in the memory that would
# cache x, so nearly every line is fetched anew
MIN_GATHERED_LINES = 0.85
NEIGHBOURS = 32  # entries that a GPU loads at once
SAMPLED_NEIGHBOURS = 4096  # groups of them
MIN_SLAB_ROW = 2  # mean entries on GPUs: a row costs a slab as much as an entry, since its sum is set to 0 and stored
MIN_SLAB_ROWS = 4  # of fewer, whole rows share out entries unevenly
MIN_UNIT_ROWS = 512  # rows of a GPU's compute unit that give each of its work-items one
MAX_PADDING_RATIO = 1.3  # of ELL, and of chunks of sorted rows
MAX_VECTOR_ROW = 16  # entries: of longer rows, a core adds up each as fast as eight together
MAX_SORTED_ROW = 32  # mean entries of unequal rows: mispredicting the end of each costs a core more than sorting them
MIN_CONSECUTIVE_FRACTION = 0.8  # of columns: shares of CSR do not read them
SORTED_ROWS = 1024  # in a window: enough for nearly equal lengths, few enough to stay close in x and y


@dataclass(frozen=True, slots=True)
class Choice:
    """A format and its configuration."""

    format: str
    work_group: int
    per: int
    sigma: int = 1


def choose(info: DeviceInfo, a: Csr, own_cache_bytes: int) -> tuple[Choice, ...]:
    """The likely best format of a matrix, and those after it in case that it does not suit, which a later one always does.

    Entries that find x in no cache of their unit ask for slabs, and so do neighbours on GPUs that share few lines of x, unless
    rows are even, which ELL adds up without local memory; rows of about one length for ELL on GPUs and, if they are
    short, for SELL on CPUs, where short rows of unequal lengths are sorted unless their
    columns are consecutive. Others are shared out by entries.
    """
    cpu, longest, units = info.has_cpu_cores, int(a.row_lengths.max()), info.compute_units
    found = []
    even = longest * a.rows <= MAX_PADDING_RATIO * a.nonzeros
    vectors = cpu and even and longest <= MAX_VECTOR_ROW
    least = MIN_FETCHED_FRACTION["core with vectors of rows" if vectors else "core" if cpu else "gpu"]
    slabs = units * (1 if cpu else SLAB_GROUPS_PER_UNIT)
    if a.rows >= MIN_SLAB_ROWS * slabs and (cpu or a.nonzeros >= MIN_SLAB_ROW * a.rows):
        line_bytes = info.line_bytes or 64
        if fetched_fraction(a, own_cache_bytes, line_bytes) >= least:
            found.append(Choice("slab", 64 if cpu else 1024, 1))
        elif not (cpu or even) and gathered_lines(a, line_bytes) >= MIN_GATHERED_LINES:
            found.append(Choice("slab", 1024, 2))
    if vectors:
        found.append(Choice("sell", 64, 1))
    elif cpu and not even and a.nonzeros <= MAX_SORTED_ROW * a.rows and not _consecutive(a):
        found += [Choice("sell", 64, 1, SORTED_ROWS)] * (sorted_padding(a) <= MAX_PADDING_RATIO)
    elif not cpu and even and a.rows >= MIN_UNIT_ROWS * units:
        found.append(Choice("ell", 128, 4))
    return (*found, Choice("csr_shares", 64, 1) if cpu else Choice("csr_adaptive", 128, 4))


def own_cache_bytes(info: DeviceInfo) -> int:
    """Bytes of the largest cache that a compute unit has for itself.

    For a core this is its second cache, whose size the operating system knows. For a unit of a GPU it is the first cache, whose
    size the device's sheet has; without a sheet the driver's claim counts where it is the sum over all units. PoCL claims the
    cache that all cores share, and NVIDIA claims an eighth of a unit's.
    """
    of_core = cpu_topology.core_cache_bytes() if info.kind == "cpu" else 0
    if of_core:
        return of_core
    sheet = sheets.match_sheet(info)
    figures = sheet.figures if sheet is not None else {}
    own = figures.get("l2_bytes" if info.has_cpu_cores else "l1_bytes")
    return int(own.value) if own is not None else claims.unit_cache_bytes(info) or USUAL_OWN_CACHE_BYTES


def fetched_fraction(a: Csr, own_cache_bytes: int, line_bytes: int) -> float:
    """The share of entries that fetch a line of x into the caches of a compute unit, half of which the matrix itself takes.

    By working sets (Denning 1968): entries whose line is not among those of as many entries before them as fill the other half
    with a line each, in some windows of consecutive entries.
    """
    if 4 * 8 * a.columns <= own_cache_bytes:  # half of the half: hardly any would
        return 0.0
    window = min(own_cache_bytes // (2 * line_bytes), a.nonzeros // 2)
    seen, fetched = np.zeros(8 * a.columns // line_bytes + 1, bool), 0
    for begin in np.linspace(0, a.nonzeros - 2 * window, SAMPLED_WINDOWS).astype(np.int64):
        lines = a.indices[begin : begin + 2 * window] // (line_bytes // 8)
        seen[lines[:window]] = True
        fetched += len(np.unique(lines[window:][~seen[lines[window:]]]))
        seen[lines[:window]] = False
    return fetched / max(1, SAMPLED_WINDOWS * window)


def gathered_lines(a: Csr, line_bytes: int) -> float:
    """Lines of x that groups of neighbouring entries lie in, over these entries, in a sample of the groups."""
    groups = a.indices[: a.nonzeros // NEIGHBOURS * NEIGHBOURS].reshape(-1, NEIGHBOURS)
    lines = np.sort(groups[:: max(1, len(groups) // SAMPLED_NEIGHBOURS)] // (line_bytes // 8), axis=1)
    return float((np.count_nonzero(np.diff(lines)) + len(lines)) / max(1, lines.size))


def _consecutive(a: Csr) -> bool:
    return bool(np.count_nonzero(np.diff(a.indices) == 1) >= MIN_CONSECUTIVE_FRACTION * a.nonzeros)


def sorted_padding(a: Csr) -> float:
    """Stored entries over nonzeros in SELL on a CPU, rows sorted by length in windows of SORTED_ROWS."""
    chunk = CHUNK_ROWS["blocked"]
    lengths = np.zeros(-(-a.rows // SORTED_ROWS) * SORTED_ROWS, np.int64)
    lengths[: a.rows] = a.row_lengths
    longest = -np.sort(-lengths.reshape(-1, SORTED_ROWS), axis=1)[:, ::chunk]
    return float(chunk * longest.sum() / max(1, a.nonzeros))
