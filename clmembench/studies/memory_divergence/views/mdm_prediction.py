"""Predictions of the memory divergence model for people: models side by side, MDM's latency stack, and possible changes."""

from __future__ import annotations

from collections.abc import Sequence

from clmembench.report.table import Column, Document, Table, columns
from clmembench.studies.memory_divergence.mdm_inputs import HardwareSheet, Profile
from clmembench.studies.memory_divergence.model import advice
from clmembench.studies.memory_divergence.model.equations import ModelOptions
from clmembench.studies.memory_divergence.model.predict import Prediction
from clmembench.units import count, format_value

BAR_CELLS = 40
WIDE_CELL = 72
MAX_INTERVALS = 8  # whose intermediates are printed; --json has all
TERM_NAMES = {
    "contention_free": "execution without contention",
    "mshr": "waiting for an MSHR (batches)",
    "noc": "queue of the NoC",
    "dram": "queue of DRAM",
    "issue": "issue of instructions",
    "latency": "latency of one sub-group alone",
}
BOUND_NAMES = {"mshr": "MSHRs by Little's law", "noc": "bandwidth of the NoC", "dram": "bandwidth of DRAM"}
MEANING = {  # meaning of the dominant term for the author of a kernel
    "contention_free": "instructions and stalls of the sub-groups themselves: memory is not contended",
    "mshr": "misses of the resident sub-groups exceed the MSHRs and are served in batches: fewer lines a load, or fewer "
    "resident sub-groups",
    "noc": "requests queue between first and last cache: fewer or smaller requests",
    "dram": "requests queue for DRAM: a smaller footprint, or fewer lines",
}


def document(sheet: HardwareSheet, profile: Profile, found: Sequence[Prediction], options: ModelOptions) -> Document:
    """The output of `model predict`."""
    mdm = next(one for one in found if one.model == "MDM")
    name = profile.name or "The profile"
    what = (
        f"{name} on {sheet.name}: {count(profile.warps, 'resident sub-group')} a compute unit, "
        f"{count(len(profile.interval), 'interval')}"
    )
    parts = [_models(found), _stack(mdm), _terms(mdm), _changes(sheet, profile, options)]
    return Document(tuple(part for part in parts if part is not None), what)


def _models(found: Sequence[Prediction]) -> Table:
    rows = []
    for one in found:
        names = {**TERM_NAMES, **BOUND_NAMES} if one.model == "bound" else TERM_NAMES
        ours = " (ours)" if one.ours else ""
        capped = " (issue width)" if one.capped else ""
        rows.append(
            (
                f"{one.model}{ours}", format_value(one.ipc_sm), _range(one.ipc_sm_low, one.ipc_sm, one.ipc_sm_high) + capped,
                format_value(one.ipc), format_value(one.cycles), _range(one.cycles_low, one.cycles, one.cycles_high),
                names[one.dominant],
            )
        )  # fmt: skip
    header = (
        "model", Column("IPC", is_number=True), Column("range"), Column("IPC of device", is_number=True),
        Column("cycles", is_number=True), Column("range"), Column("largest term"),
    )  # fmt: skip
    bound = next((one.cycles for one in found if one.model == "bound"), 0.0)
    beyond = [one.model for one in found if one.cycles < bound * (1 - 1e-9)]
    notes = (
        "IPC: instructions of sub-groups a cycle and compute unit. A range covers the intervals of the inputs; it does "
        "not include the error of the model itself.",
        "bound: an upper bound for any schedule, from the largest of issue, latency, MSHRs, NoC and DRAM.",
        *([f"{' and '.join(beyond)} predict more than the bound allows, which no kernel can reach."] if beyond else []),
    )
    return Table("Predicted performance.", columns(header), tuple(rows), notes)


def _stack(mdm: Prediction) -> Table:
    rows = []
    for name, cycles in mdm.stack.items():
        share = cycles / mdm.cycles
        rows.append((TERM_NAMES[name], format_value(cycles), f"{share:.0%}", "▇" * round(BAR_CELLS * share)))
    header = (
        "MDM: cycles by",
        Column("cycles", is_number=True),
        Column("share", is_number=True),
        Column("", max_cell=BAR_CELLS),
    )
    note = f"Largest: {TERM_NAMES[mdm.dominant]}. That is {MEANING[mdm.dominant]}."
    return Table("Latency stack.", columns(header), tuple(rows), (note,))


def _terms(mdm: Prediction) -> Table:
    intervals = mdm.intervals
    rows = tuple(
        (
            str(n + 1), "yes" if one.divergent else "no", format_value(one.concurrent_misses),
            format_value(one.contention_free_cycles), format_value(one.noc_queue_cycles),
            format_value(one.dram_queue_cycles), format_value(one.memory_cycles), format_value(one.mshr_cycles),
        )
        for n, one in enumerate(intervals[:MAX_INTERVALS])
    )  # fmt: skip
    header = ("interval", "divergent", "M", "C", "S NoC", "S DRAM", "S mem", "S MSHR")
    more = len(intervals) - MAX_INTERVALS
    notes = (f"{count(more, 'more interval')}: --json has them",) if more > 0 else ()
    return Table("MDM's terms by interval, in cycles (M: misses in flight).", columns(header, left=2), rows, notes)


def _changes(sheet: HardwareSheet, profile: Profile, options: ModelOptions) -> Table:
    limit, found = advice.limits(sheet, profile), advice.changes(sheet, profile, options)
    rows = tuple((one.text, f"{one.gain:.2f}x", f"{one.bound_gain:.2f}x") for one in found)
    notes = []
    if limit.sub_groups is not None and limit.read_misses is not None:
        mshrs = format_value(sheet.quantities.mshrs.value)
        bound = " or more (a lower bound)" if sheet.quantities.mshrs.bound else ""
        notes.append(
            f"An interval is memory-divergent where the misses of all resident sub-groups exceed {mshrs} MSHRs{bound}: with "
            f"over {format_value(limit.read_misses)} missing lines at {profile.warps} sub-groups, or with over "
            f"{limit.sub_groups} sub-groups at these misses."
        )
    if profile.interval[0].stall_cycles is None:
        notes.append("Occupancy: the profile has C_i for one number of sub-groups; give stall_cycles to see others.")
    if not rows:
        notes.append("No change that was tried changes the predicted IPC.")
    header = (
        Column("change", max_cell=WIDE_CELL),
        Column("IPC by MDM", is_number=True),
        Column("by the bound", is_number=True),
    )
    return Table("Predicted effect of changes.", columns(header), rows, tuple(notes))


def _range(low: float, value: float, high: float) -> str:
    return "" if low == value == high else f"{format_value(low)} to {format_value(high)}"
