"""Predictions of all models for a hardware and an interval profile, with the range from uncertain inputs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from clmembench.studies.memory_divergence.mdm_inputs import HardwareSheet, Profile, range_of
from clmembench.studies.memory_divergence.model.equations import (
    MODELS,
    OURS,
    Hardware,
    Interval,
    Model,
    ModelOptions,
    Numbers,
    Terms,
    bound_terms,
    contention_free_cycles,
    interval_terms,
)

STALLS = ("mshr", "noc", "dram")  # terms added to the contention-free cycles
TRIED_STALLS = 17  # from one end of their interval to the other
MAX_BREAKS = 64  # steps of ceil() that are tried within the interval of the MSHRs; if there are more, those nearest its ends


@dataclass(frozen=True, slots=True)
class IntervalTerms:
    """Every intermediate of the equations for one interval of the profile, in cycles unless noted otherwise."""

    divergent: bool
    concurrent_misses: float
    latency_cycles: float
    noc_service_cycles: float
    dram_service_cycles: float
    noc_queue_cycles: float
    dram_queue_cycles: float
    memory_cycles: float
    mshr_cycles: float
    contention_free_cycles: float
    cycles: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The performance of a kernel on a compute unit by one model: instructions a cycle of all resident sub-groups, and cycles
    of one round of them, each with the range from the inputs' intervals; `ipc` is that of the device.

    `ours` marks models that are not the paper's; `capped` that the IPC is limited to the issue width, which the cycles alone
    would exceed; `stack` has cycles by cause, of which `dominant` is the largest; `intervals` is empty for the bound, which has
    no intermediates except its stack."""

    model: Model
    ours: bool
    ipc_sm: float
    ipc_sm_low: float
    ipc_sm_high: float
    ipc: float
    cycles: float
    cycles_low: float
    cycles_high: float
    capped: bool
    dominant: str
    stack: dict[str, float]
    intervals: Sequence[IntervalTerms]


def ipc_of(hardware: Hardware, intervals: Interval, repeats: Numbers, cycles: Any) -> Any:
    """Equation 1, at most the issue width."""
    warps, issue = (np.max(np.atleast_1d(one), axis=-1) for one in (intervals.warps, hardware.issue_width))
    instructions = np.sum(np.multiply(intervals.instructions, repeats) + np.zeros_like(intervals.read_misses), axis=-1)
    return np.minimum(warps * instructions / cycles, issue)


def predictions(
    sheet: HardwareSheet, profile: Profile, options: ModelOptions | None = None, models: Sequence[Model] = MODELS
) -> list[Prediction]:
    """One prediction for each model."""
    options = options or ModelOptions()
    inputs = Inputs(sheet, profile, options)
    ends = {end: (inputs.hardware(end), inputs.intervals(end)) for end in (-1, 0, 1)}
    return [_prediction(model, inputs, ends) for model in models]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of one prediction. End -1 takes from every input's interval the end that costs fewest cycles, 1 the one that
    costs most, and 0 the value."""

    sheet: HardwareSheet
    profile: Profile
    options: ModelOptions

    def hardware(self, end: int = 0) -> Hardware:
        """The hardware; more bandwidth and MSHRs cost fewer cycles; more of any other input costs more."""
        q, options = self.sheet.quantities, self.options

        def at(name: str, sign: int = 1) -> float:
            quantity = getattr(q, name)
            low, high = quantity.ends
            return float((low, quantity.value, high)[1 + sign * end])

        issue = options.issue or (1.0 if options.scheduling == "gto" else at("schedulers", -1) * at("issue_per_scheduler", -1))
        return Hardware(
            at("compute_units"), at("clock_ghz"), q.mshrs.value, at("noc_gb_s", -1), at("dram_gb_s", -1),
            at("llc_latency_cycles"), at("dram_latency_cycles"), issue,
            at("block_bytes") if options.request == "block" else self._sectors(at("sector_bytes")),
        )  # fmt: skip

    def _sectors(self, one_sector: float) -> Any:
        return np.array([one.request_bytes or one_sector for one in self.profile.interval])

    def _of(self, name: str, end: int) -> Any:
        return np.array([range_of(getattr(one, name))[1 + end] for one in self.profile.interval])

    def repeats(self) -> Any:
        """How often each interval is repeated."""
        return np.array([float(one.repeats) for one in self.profile.interval])

    def has_stalls(self) -> bool:
        """Whether C_i is computed from the stalls of one sub-group, and so is valid for other numbers of sub-groups too."""
        return self.profile.interval[0].stall_cycles is not None

    def contention_free(self, end: int = 0) -> Any:
        """C_i of each interval."""
        if not self.has_stalls():
            return self._of("cycles", end)
        instructions, issue = self._of("instructions", 0), self.hardware(end).issue_width
        warps, scheduling = float(self.profile.warps), self.options.scheduling

        def at(stalls: Any) -> Any:
            return contention_free_cycles(instructions, stalls, self.repeats(), warps, issue, scheduling)

        if end == 0:
            return at(self._of("stall_cycles", 0))
        # longer stalls hide more instructions of others, so C_i need not grow with them: try several
        low, high = self._of("stall_cycles", -1), self._of("stall_cycles", 1)
        tried = at(low + np.linspace(0, 1, TRIED_STALLS)[:, None] * (high - low))
        return np.min(tried, axis=0) if end < 0 else np.max(tried, axis=0)

    def intervals(self, end: int = 0) -> Interval:
        """The intervals of the profile."""
        return Interval(
            self._of("instructions", 0), self.contention_free(end), self._of("read_misses", end),
            self._of("write_misses", end), self._of("llc_miss_ratio", end), float(self.profile.warps),
        )  # fmt: skip

    def alone(self, end: int = 0) -> Any:
        """Cycles of one sub-group that runs alone; if only C_i is known, C_i, which is a lower bound of every interval."""
        if not self.has_stalls():
            return self.contention_free(end)
        return self._of("instructions", 0) / self.hardware(end).issue_width + self._of("stall_cycles", end)


Ends = dict[int, tuple[Hardware, Interval]]  # hardware and intervals at each end of the inputs' intervals, as Inputs has them


def _prediction(model: Model, inputs: Inputs, ends: Ends) -> Prediction:
    (hardware, intervals), repeats = ends[0], inputs.repeats()
    terms: list[IntervalTerms] = []
    if model == "bound":
        stack = bound_stack(inputs, 0)
        cycles = max(stack.values())
        low, high = max(bound_stack(inputs, -1).values()), max(bound_stack(inputs, 1).values())
    else:
        found = interval_terms(model, hardware, intervals, inputs.options)
        terms = _by_interval(found, len(repeats))
        stack = {"contention_free": float(np.sum(intervals.contention_free_cycles * repeats))}
        stack |= {name: float(np.sum(getattr(found, _FIELDS[name]) * repeats)) for name in STALLS}
        cycles = float(np.sum(found.cycles * repeats))
        low, high = (float(np.sum(_extreme_cycles(model, inputs, ends, end) * repeats)) for end in (-1, 1))
    low, high = min(low, cycles), max(high, cycles)
    rates = [float(ipc_of(ends[end][0], intervals, repeats, at)) for end, at in ((0, cycles), (1, high), (-1, low))]
    ipc, ipc_low, ipc_high = rates[0], min(rates), max(rates)
    uncapped = inputs.profile.warps * float(np.sum(intervals.instructions * repeats)) / cycles
    capped = bool(uncapped > hardware.issue_width)
    dominant = max(stack, key=lambda name: stack[name])
    device = ipc * float(np.max(hardware.compute_units))
    rates_and_cycles = (ipc, ipc_low, ipc_high, device, cycles, low, high)
    return Prediction(model, model in OURS, *rates_and_cycles, capped, dominant, stack, terms)


def _by_interval(terms: Terms, intervals: int) -> list[IntervalTerms]:
    """The terms of each interval; what all intervals share is a single number in `terms`."""
    each = (np.broadcast_to(getattr(terms, field.name), intervals) for field in fields(IntervalTerms))
    return [IntervalTerms(bool(divergent), *map(float, more)) for divergent, *more in zip(*each, strict=True)]


_FIELDS = {"mshr": "mshr_cycles", "noc": "noc_queue_cycles", "dram": "dram_queue_cycles"}


def bound_stack(inputs: Inputs, end: int = 0) -> dict[str, float]:
    """Cycles of the whole profile that each resource needs alone; sub-groups overlap, so the largest bounds them all."""
    hardware, intervals = inputs.hardware(end), inputs.intervals(end)
    low, high = inputs.sheet.quantities.mshrs.ends
    hardware = hardware if end == 0 else replace(hardware, mshrs=high if end < 0 else low)
    terms = bound_terms(hardware, intervals, inputs.alone(end), inputs.options)
    return {name: float(np.sum(each * inputs.repeats())) for name, each in terms.items()}


def _extreme_cycles(model: Model, inputs: Inputs, ends: Ends, end: int) -> Any:
    """The least (-1) or most (1) cycles of each interval for inputs within their intervals: an outer bound.

    Cycles are monotonic in every input except the number of MSHRs: more of them fill the queues, and each step of ceil() saves
    a batch. So both ends of its interval, and both sides of each step, are tried."""
    (hardware, intervals), (other_hardware, other) = ends[end], ends[-end]
    own, mshrs = intervals.contention_free_cycles, inputs.sheet.quantities.mshrs
    tried = np.array([*_mshr_breaks(intervals, *mshrs.ends), mshrs.value])[:, None]
    terms = interval_terms(model, replace(hardware, mshrs=tried), intervals, inputs.options)
    cycles = [terms.cycles]
    if model == "MDM-overlap":  # a longer latency makes batches longer, but it is part of C_i and hides a queue
        hiding = interval_terms(model, other_hardware, other, inputs.options).latency_cycles
        batches = (np.maximum(np.multiply(intervals.read_misses, intervals.warps) / tried, 1.0) - 1) * terms.latency_cycles
        service = np.maximum(terms.noc_service_cycles, terms.dram_service_cycles)
        queue = hardware.compute_units * terms.concurrent_misses * service
        cycles.append(own + np.maximum(batches, np.maximum(0.0, queue - hiding)))
    if model == "GPUMech" and inputs.options.gpumech_dram == "md1":  # a longer interval thins arrivals at the M/D/1 queue
        thinned = replace(intervals, contention_free_cycles=other.contention_free_cycles)
        late = interval_terms(model, replace(hardware, mshrs=tried), thinned, inputs.options).cycles
        cycles.append(late + own - other.contention_free_cycles)
    every = np.concatenate([np.atleast_2d(one) for one in cycles])
    return np.min(every, axis=0) if end < 0 else np.max(every, axis=0)


def _mshr_breaks(intervals: Interval, low: float, high: float) -> list[float]:
    """The ends of the interval of the MSHRs, and both sides of each step in it where the number of batches changes."""
    candidates = {low, high}
    for reads in np.unique(np.multiply(intervals.read_misses, intervals.warps)):
        steps = np.arange(max(1, np.ceil(reads / high)), np.floor(reads / low) + 1) if reads > 0 else np.array([])
        if steps.size > MAX_BREAKS:
            steps = np.concatenate([steps[: MAX_BREAKS // 2], steps[-MAX_BREAKS // 2 :]])
        for place in reads / steps:
            candidates |= {float(np.clip(near, low, high)) for near in (place, place * (1 - 1e-9), place * (1 + 1e-9))}
    return sorted(candidates)
