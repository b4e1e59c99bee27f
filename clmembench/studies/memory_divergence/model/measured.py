"""Inputs of the memory divergence model from measurements: each with its interval and source, or why it is unknown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.studies.memory_divergence.mdm_inputs import UNITS, HardwareQuantities, HardwareSheet, InputQuantity
from clmembench.studies.memory_divergence.model.knee import Knee, knee
from clmembench.studies.memory_divergence.model.measured_memory import (
    Evidence,
    dram_bandwidth,
    dram_latency,
    level_findings,
    llc_bytes,
    llc_latency,
    noc_bandwidth,
    usable_values,
    value_range,
)

ASSUMED_SUB_GROUP_ITEMS = 32  # if the driver does not report their width
NVIDIA_MAX_SUB_GROUPS = 64  # CUDA C Programming Guide, technical specifications: 64 warps of 32 an SM, CC 8.0 and 9.0
TURING_SCHEDULERS = 4  # same guide, architecture: 4 warp schedulers an SM, each issues one instruction a cycle, CC 7.x to 9.0
BLOCK_BYTES, SECTOR_BYTES = 128, 32


@dataclass(frozen=True, slots=True)
class MeasuredInputs:
    """The inputs that runs of one device provide, by name; `missing` has, for each other one, why it is unknown and how to
    measure it."""

    name: str
    origin: str
    found: Mapping[str, InputQuantity]
    missing: Mapping[str, str]

    def sheet(self) -> HardwareSheet:
        """The hardware. Raises ValueError naming what is missing."""
        if self.missing:
            raise ValueError("; ".join(f"{name}: {why}" for name, why in self.missing.items()))
        return HardwareSheet(self.name, self.origin, HardwareQuantities(**self.found))


def measured_inputs(evidence: Evidence) -> MeasuredInputs:
    """Every input, or why it is missing."""
    llc = llc_bytes(evidence)
    clock = _clock(evidence.values)
    latency = llc_latency(evidence)
    noc = noc_bandwidth(evidence.values, llc)
    made: dict[str, InputQuantity | str] = {
        "compute_units": InputQuantity(evidence.info.compute_units, UNITS["compute_units"], "the driver"),
        "clock_ghz": clock,
        "noc_gb_s": noc,
        "dram_gb_s": dram_bandwidth(evidence.values, llc),
        "llc_latency_cycles": latency,
        "dram_latency_cycles": dram_latency(evidence, latency, llc),
        "mshrs": _mshrs(evidence, noc, latency, clock),
        **_issue(evidence, clock),
        "block_bytes": _line(evidence, "line_bytes", BLOCK_BYTES, "the model's block"),
        "sector_bytes": _line(evidence, "sector_bytes", SECTOR_BYTES, "NVIDIA's GPUs since Maxwell fill sectors of 32 B"),
    }
    found = {name: one for name, one in made.items() if isinstance(one, InputQuantity)}
    missing = {name: one for name, one in made.items() if isinstance(one, str)}
    if llc is not None:
        found["llc_bytes"] = llc
    if evidence.dependent_cycles is not None:
        found["dependent_cycles"] = evidence.dependent_cycles
    return MeasuredInputs(evidence.info.name, evidence.origin, found, missing)


def _clock(values: Sequence[Derived]) -> InputQuantity | str:
    clocks = sorted(v.ghz for v in values if v.ghz and v.status == "ok")
    if not clocks:
        return "no point has the core's clock: measure on a device whose in-kernel cycle counter works"
    spread = [(clock, clock, clock) for clock in clocks[len(clocks) // 20 : len(clocks) - len(clocks) // 20] or clocks]
    found = value_range("clock_ghz", spread, f"dependent-ALU chain beside {len(clocks)} points; the middle 90% of them")
    assert found is not None
    return found


def _mshrs(
    evidence: Evidence, noc: InputQuantity | str, latency: InputQuantity | str, clock: InputQuantity | str
) -> InputQuantity | str:
    found = knee(evidence.values)
    if found.lines is not None:
        high = found.lines.high if not found.bound else max(found.lines.high, _most_lines(evidence))
        source = f"mlp: {found.reason}" if found.reason else "mlp: knee of the time of a round over its lines"
        bound = "lower" if found.bound else ""
        return InputQuantity(found.lines.value, UNITS["mshrs"], source, found.lines.low, high, bound)  # type: ignore[arg-type]
    return _mshrs_by_little(evidence, found, noc, latency, clock)


def _mshrs_by_little(
    evidence: Evidence, found: Knee, noc: InputQuantity | str, latency: InputQuantity | str, clock: InputQuantity | str
) -> InputQuantity | str:
    """A lower bound: the lines that must be in flight to reach the measured bandwidth at the unloaded latency, which load only
    increases."""
    if isinstance(noc, str) or isinstance(latency, str) or isinstance(clock, str):
        return f"{found.reason}; and there is no bandwidth and latency for a bound: clmembench model measure -d DEVICE"
    a_line = BLOCK_BYTES * evidence.info.compute_units * clock.value
    lines = noc.value * latency.value / a_line
    source = "a lower bound by Little's law: bandwidth from the L2 x its latency; mlp was not measured, which finds the knee"
    return InputQuantity(lines, UNITS["mshrs"], source, noc.ends[0] * latency.ends[0] / a_line, _most_lines(evidence), "lower")


def _most_lines(evidence: Evidence) -> float:
    """Lines that the first cache has room for: no more can be in flight to it."""
    sizes = [float(one.high or 0) for one in level_findings(evidence, "L1", "size_bytes")]
    figure = evidence.sheet.figures.get("l1_bytes") if evidence.sheet is not None else None
    return (max(sizes) if sizes else figure.value if figure is not None else 256 << 10) / BLOCK_BYTES


def _issue(evidence: Evidence, clock: InputQuantity | str) -> dict[str, InputQuantity | str]:
    """Schedulers and residency. Measured multiply-adds per cycle give a lower bound of the issue rate."""
    per = InputQuantity(1, UNITS["issue_per_scheduler"], "counted with the schedulers")
    info = evidence.info
    most: InputQuantity | str = "the driver does not report how many sub-groups a compute unit can hold"
    issue: InputQuantity | str = "no rate of multiply-adds in float: run -b arithmetic -a dtype=float"
    if "nvidia" in info.features:
        guide = "CUDA C Programming Guide, technical specifications (compute capability 7.0 and later)"
        most = InputQuantity(
            NVIDIA_MAX_SUB_GROUPS, UNITS["max_sub_groups"], f"{guide}: at most 64 warps an SM; 32 to 48 on some"
        )
        issue = InputQuantity(
            TURING_SCHEDULERS, UNITS["schedulers"], f"{guide}: 4 schedulers an SM, one instruction a cycle each"
        )
    rates = [v for v in usable_values(evidence.values, "arithmetic", "GFLOP/s") if v.params.get("dtype") == "float"]
    if rates and isinstance(clock, InputQuantity):
        best = max(rates, key=lambda v: v.median or 0)
        items = info.sub_group_items or ASSUMED_SUB_GROUP_ITEMS
        width = (best.median or 0) / (2 * items * info.compute_units * (best.ghz or clock.value))
        issue = InputQuantity(
            round(width, 3), UNITS["schedulers"], "arithmetic, multiply-adds in float: instructions a cycle and compute unit",
            round(width, 3), max(round(width, 3), issue.value if isinstance(issue, InputQuantity) else 0.0),
        )  # fmt: skip
    return {"schedulers": issue, "issue_per_scheduler": per, "max_sub_groups": most}


def _line(evidence: Evidence, finding: str, default: int, why: str) -> InputQuantity:
    name = "block_bytes" if finding == "line_bytes" else "sector_bytes"
    findings = level_findings(evidence, "L1", finding)
    if findings:
        return InputQuantity(float(findings[0].value or default), UNITS[name], f"L1 by chase: {findings[0].method}")
    return InputQuantity(default, UNITS[name], why)
