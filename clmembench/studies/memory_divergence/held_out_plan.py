"""Declared profiles of kernels that the memory divergence model was never fitted to: transposition, copies, a filter, SpMV."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.benchmarks.datatypes import TYPE_BYTES
from clmembench.studies.memory_divergence.mdm_inputs import HardwareSheet, Profile, ProfileInterval
from clmembench.studies.mnf.benchmarks.cubes import parse_cube_size

LINE_BYTES, SECTOR_BYTES, ITEMS = 128, 32, 32
L1_HIT_CYCLES = 33.0  # chase on H100 and H200; loads that hit stall for this time
REGISTERS = 1 << 16  # of a compute unit: NVIDIA's since Kepler
TILE_SUB_GROUPS = 8  # of a tile of transpose; each moves four rows of it
RESERVOIR_ENTRIES = 7  # of most rows


@dataclass(frozen=True, slots=True)
class Step:
    """One interval of a sub-group: instructions; lines and sectors that it reads past the first cache and writes, each on
    average; the bytes of these that memory serves; the stall cycles of loads that hit; and whether it waits for a miss at all.
    There are `repeats` equal steps in a row."""

    instructions: float
    read_lines: float = 0.0
    read_sectors: float = 0.0
    write_lines: float = 0.0
    write_sectors: float = 0.0
    memory_bytes: float = 0.0
    cold_share: float = 1.0  # share of the misses it waits for that memory serves
    hit_cycles: float = 0.0
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class HeldOutKernel:
    """A kernel as declared: its steps, and its total number of sub-groups."""

    name: str
    sub_groups: float
    steps: tuple[Step, ...]


def kernel_of(value: Derived) -> HeldOutKernel | None:
    """The declared kernel of a measured point; None where none is declared."""
    declare = DECLARED.get(value.benchmark)
    return declare({**value.params, **value.tuning}, value) if declare is not None else None


def profile_of(kernel: HeldOutKernel, resident: int, sheet: HardwareSheet, sectors: bool) -> Profile:
    """The interval profile of a kernel: with `sectors` a request moves the sectors that are touched, else a whole line."""
    return Profile(resident, tuple(_interval(step, sheet, sectors) for step in kernel.steps), kernel.name, "declared")


def _interval(step: Step, sheet: HardwareSheet, sectors: bool) -> ProfileInterval:
    q = sheet.quantities
    requests = step.read_lines + step.write_lines
    moved = SECTOR_BYTES * (step.read_sectors + step.write_sectors) if sectors else LINE_BYTES * requests
    dependent = q.dependent_cycles.value if q.dependent_cycles is not None else 4.0
    wait = q.llc_latency_cycles.value + step.cold_share * q.dram_latency_cycles.value if step.read_lines else 0.0
    return ProfileInterval(
        instructions=step.instructions,
        stall_cycles=dependent + step.hit_cycles + wait,
        read_misses=step.read_lines,
        write_misses=step.write_lines,
        llc_miss_ratio=min(1.0, step.memory_bytes / moved) if moved else 0.0,
        repeats=step.repeats,
        request_bytes=moved / requests if requests else None,
    )


def resident_sub_groups(value: Derived, sheet: HardwareSheet) -> int:
    """Sub-groups resident on a compute unit: the maximum, or as many as the registers that the compiler used allow."""
    most = int(sheet.quantities.max_sub_groups.value)
    registers = value.facts.get("registers")
    return min(most, REGISTERS // (ITEMS * registers)) if isinstance(registers, int) and registers > 0 else most


def _row_span(words: int, aligned: bool) -> tuple[float, float]:
    """Lines and sectors that this many neighbouring 4-byte words touch: from a line's start, or on average from any word."""
    span = 4 * words
    lines, sectors = span / LINE_BYTES, span / SECTOR_BYTES
    return (lines, sectors) if aligned else (lines + 1 - 4 / LINE_BYTES, sectors + 1 - 4 / SECTOR_BYTES)


def _transpose(params: Mapping[str, object], value: Derived) -> HeldOutKernel | None:
    n, way = params["n"], params["way"]
    assert isinstance(n, int)
    lines, sectors = _row_span(ITEMS, n % ITEMS == 0)
    rows, own = 4, LINE_BYTES
    sub_groups = TILE_SUB_GROUPS * (-(-n // ITEMS)) ** 2
    read = rows * lines, rows * sectors
    if way == "direct":  # each work-item of a store writes another row: 32 lines, a sector of each
        step = Step(66, *read, write_lines=rows * ITEMS, write_sectors=rows * ITEMS, memory_bytes=2 * rows * own)
        return HeldOutKernel(f"transpose {way}, n={n}", sub_groups, (step,))
    steps = (
        Step(44, *read, memory_bytes=rows * own),
        Step(48, write_lines=rows * lines, write_sectors=rows * sectors, memory_bytes=rows * own, hit_cycles=25.0),
    )
    return HeldOutKernel(f"transpose {way}, n={n}", sub_groups, steps)


def _copy(params: Mapping[str, object], value: Derived) -> HeldOutKernel | None:
    nbytes, elements = TYPE_BYTES.get(str(params["dtype"])), params.get("elements", 1)
    if nbytes is None or not isinstance(elements, int):
        return None  # the runtime's own copy
    span = ITEMS * nbytes
    parts = max(1, nbytes // 16)  # a work-item moves 16 bytes an instruction at most
    # neighbours that share a line merge their reads of it in the first cache, but each writes for itself
    step = Step(
        12 + elements * (4 + 2 * parts), elements * span / LINE_BYTES, elements * span / SECTOR_BYTES,
        elements * max(1.0, span / LINE_BYTES), elements * span / SECTOR_BYTES, 2.0 * elements * span,
    )  # fmt: skip
    return HeldOutKernel(f"copy {params['dtype']}", value.nbytes / 2 / nbytes / ITEMS / elements, (step,))


def _filter(params: Mapping[str, object], value: Derived) -> HeldOutKernel | None:
    operations = {"V1": 12, "V0n": 57}.get(str(params["variant"]))
    if operations is None:
        return None  # arrays in private memory, and staging in local memory, are not of this model
    size = parse_cube_size(str(params["size"]))
    groups = -(-size.width // 128) * size.height * size.bands
    # three rows of 34 bytes, of which the four sub-groups of a work-group share lines; each row is read by three work-groups
    step = Step(65 + operations, 3 * 34 / LINE_BYTES, 3 * 1.1, 1.0, 2.0, 96.0, cold_share=1 / 3)
    return HeldOutKernel(f"mnf_filter {params['variant']}", 4.0 * groups, (step,))


def _spmv(params: Mapping[str, object], value: Derived) -> HeldOutKernel | None:
    if params["matrix"] != "reservoir" or params["hints"] != "none":
        return None  # rows of very unequal length have no representative sub-group
    entries, rows = value.flops / 2, value.flops / 2 / (RESERVOIR_ENTRIES - 0.066)
    gather = 2.5, 8.5  # lines and sectors of x, which the last cache holds: 256 bytes at any place
    store = Step(4, write_lines=2, write_sectors=8, memory_bytes=256)
    if params["format"] in ("ell", "sell"):  # unrolled: all indices and values, then all of x
        k = RESERVOIR_ENTRIES
        steps: tuple[Step, ...] = (
            Step(52, 3 * k, 12 * k, memory_bytes=384 * k),
            Step(35, k * gather[0], k * gather[1], memory_bytes=256, cold_share=0.1),
            store,
        )
    elif params["format"] == "csr_row":  # a work-item's entries lie side by side: the first of them brings the lines of all
        nbytes = 12 * ITEMS * entries / rows
        steps = (
            Step(12, 1, 4, memory_bytes=128),
            Step(8, nbytes / LINE_BYTES, nbytes / SECTOR_BYTES, memory_bytes=nbytes),
            Step(8, *gather, memory_bytes=256 / 7, cold_share=0.1, hit_cycles=L1_HIT_CYCLES, repeats=RESERVOIR_ENTRIES),
            store,
        )
    else:
        return None
    return HeldOutKernel(f"spmv {params['format']}, reservoir", rows / ITEMS, steps)


DECLARED: Mapping[str, Callable[[Mapping[str, object], Derived], HeldOutKernel | None]] = {
    "transpose": _transpose,
    "datatypes": _copy,
    "mnf_filter": _filter,
    "spmv": _spmv,
}
TIMED_METRICS: Mapping[str, str] = {"transpose": "throughput", "datatypes": "bandwidth", "mnf_filter": "time", "spmv": "time"}
