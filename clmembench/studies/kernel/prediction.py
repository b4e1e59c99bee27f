"""Predictions of a traced kernel for the devices of stored runs, as tables, text and JSON show them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived
from clmembench.analysis.little import Estimate
from clmembench.analysis.plateaus import CurvePoint
from clmembench.analysis.roofline import Roofline
from clmembench.model import DeviceInfo, Run
from clmembench.report import frame
from clmembench.report.sections.roofline_tables import derive_roofline
from clmembench.report.which_device.measured_kernels import chase_curve
from clmembench.studies.guidelines.advice_table import derive_guidelines, effect_text
from clmembench.studies.kernel.cost import cost
from clmembench.studies.kernel.demand import Demand, demand
from clmembench.studies.kernel.divergence import divergence_model_ns
from clmembench.studies.kernel.facts import DevicePrediction, KernelFacts, Number
from clmembench.studies.kernel.rates import KernelRates, kernel_rates
from clmembench.studies.kernel.requests import Sample
from clmembench.studies.kernel.suggestions import Alternatives, alternatives, suggestions
from clmembench.studies.memory_divergence.mdm_inputs import HardwareSheet
from clmembench.studies.memory_divergence.model.measured import measured_inputs
from clmembench.studies.memory_divergence.model.measured_memory import Evidence
from clmembench.units import format_bytes

IMAGE = re.compile(r"@\w*(?:read|write)_image")  # a call, which the simulator does by loads


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """A device with the rates that its runs give, and the effects of guidelines there by their ids."""

    name: str
    rates: KernelRates
    effects: Mapping[str, str]
    hardware: HardwareSheet | None  # inputs of the memory divergence model, where the runs have them
    roofline: Roofline | None


def measured_devices(runs: Sequence[Run]) -> list[MeasuredDevice]:
    """The devices of runs, those of one device, or of equal ones, together, later ones first."""
    devices: dict[str, list[Run]] = {}
    for run in runs:
        devices.setdefault(run.header.device.name, []).insert(0, run)
    found = []
    for mine in devices.values():
        info, values, effects = mine[0].header.device, list[Derived](), dict[str, str]()
        curve: Sequence[CurvePoint] = ()
        roofline = None
        for run in mine:
            sheet = frame.sheet_of(run)
            rows = frame.rows(run, sheet)
            roofline = roofline or derive_roofline(run, rows, sheet)
            values += [row.value for row in rows]
            curve = max(curve, chase_curve(run), key=len)
            for advice in derive_guidelines(run, rows):
                if text := effect_text(advice):
                    effects.setdefault(advice.id, text)
        found.append(MeasuredDevice(info.name, kernel_rates(values, curve, info), effects, _hardware(info, values), roofline))
    return found


def _hardware(info: DeviceInfo, values: Sequence[Derived]) -> HardwareSheet | None:
    """The inputs of the memory divergence model; None for CPUs, which it does not describe, and where some are missing."""
    inputs = measured_inputs(Evidence(info, values, (), None, info.name))
    return None if info.has_cpu_cores or inputs.missing else inputs.sheet()


def predict(sample: Sample, facts: KernelFacts, devices: Sequence[MeasuredDevice]) -> list[DevicePrediction]:
    """The launch on each device, the shortest time first."""
    demands: dict[tuple[int, int, bool], tuple[Demand, tuple[Alternatives, ...]]] = {}
    found = []
    for device in devices:
        rates = device.rates
        key = rates.width, rates.line_bytes, rates.is_parallel
        if key not in demands:
            every = alternatives(sample, facts, demand(sample, facts, *key))
            demands[key] = every[-1].need, every
        refused = _refusal(sample, rates.info)
        found.append(_refused(device, refused) if refused else _prediction(device, *demands[key]))
    return sorted(found, key=lambda one: one.ns if one.ns is not None else float("inf"))


def _refused(device: MeasuredDevice, why: str) -> DevicePrediction:
    return DevicePrediction(device.name, None, None, None, "", {}, (), None, None, None, (), {}, refused=why)


def _refusal(sample: Sample, info: DeviceInfo) -> str:
    """Why a launch has no predicted time on a device; "" where it may have."""
    if any(IMAGE.search(text) for text in sample.texts.values()):
        return "times of images are not predicted"
    if sample.group_items > info.max_work_group:
        return f"its work-groups have at most {info.max_work_group:,} work-items, not {sample.group_items:,}"
    if sample.local_bytes > info.local_mem_bytes:
        most, wanted = format_bytes(info.local_mem_bytes), format_bytes(sample.local_bytes)
        return f"its work-groups have {most} of local memory, not {wanted}"
    return ""


def _prediction(device: MeasuredDevice, need: Demand, changed: Sequence[Alternatives]) -> DevicePrediction:
    found = cost(need, device.rates)
    low, value, high = ends(found.ns)
    mdm = None
    if device.hardware is not None and found.ns is not None:
        mdm = divergence_model_ns(need, device.rates, device.hardware, found.groups, found.memory_share)
    changes = suggestions(changed, device.rates)
    broken = {one.guideline for one in changes}
    return DevicePrediction(
        device.name, value, low, high, found.bound,
        {name: part.value for name, part in found.parts.items()}, found.missing,
        ends(mdm)[1], ends(found.roofline)[1], ends(found.bytes_only)[1], tuple(changes),
        {id: text for id, text in device.effects.items() if id in broken}, unmeasured=found.unmeasured,
    )  # fmt: skip


def ends(one: Estimate | None) -> tuple[Number, Number, Number]:
    """The low end, the value and the high end, or three Nones."""
    return (None, None, None) if one is None else (one.low, one.value, one.high)
