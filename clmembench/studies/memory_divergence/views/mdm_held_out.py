"""Held-out kernels of stored runs: times predicted by the memory divergence model, and measured times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from clmembench.gates.whole import judged_values
from clmembench.model import Run
from clmembench.model.device_identity import name_key
from clmembench.resources import mdm_hardware_paths
from clmembench.specs.sheets import SpecSheet
from clmembench.studies.memory_divergence import held_out_plan as mdm_held_out
from clmembench.studies.memory_divergence.mdm_inputs import HardwareSheet, load_hardware
from clmembench.studies.memory_divergence.model.equations import Model, ModelOptions
from clmembench.studies.memory_divergence.model.predict import predictions
from clmembench.studies.memory_divergence.views.mdm_validation import inputs_of

READINGS: Mapping[str, ModelOptions] = {"block": ModelOptions(), "sector": ModelOptions(request="sector")}


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One kernel: its measured time of a pass, and by reading and model the predicted one, with its range by the inputs."""

    name: str
    measured_us: float
    predicted_us: Mapping[tuple[str, Model], tuple[float, float, float]]
    dominant: str  # of MDM with sectors

    def log_ratio(self, reading: str, model: Model) -> float:
        """ln(predicted / measured) performance: above 0 the model overpredicts."""
        return math.log(self.measured_us / self.predicted_us[reading, model][0])


def hardware_for(run: Run, sheet: SpecSheet | None) -> HardwareSheet:
    """The inputs from the run itself, else the shipped ones of this device. Raises ValueError if there are neither."""
    inputs = inputs_of([run], sheet)
    if not inputs.missing:
        return inputs.sheet()
    for path in mdm_hardware_paths():
        shipped = load_hardware(path.stem)
        if name_key(shipped.name) == name_key(run.header.device.name):
            return shipped
    return inputs.sheet()


def has_held_out(run: Run) -> bool:
    """Whether a run, of a device that the model applies to, has a kernel with a declared profile."""
    if run.header.device.has_cpu_cores:
        return False
    return any(record.benchmark in mdm_held_out.DECLARED and record.status == "ok" for record in run.records)


def held_out(run: Run, sheet: SpecSheet | None) -> tuple[list[HeldOut], HardwareSheet]:
    """Every declared kernel that the run measured, and the inputs. Raises ValueError where inputs are missing."""
    hardware = hardware_for(run, sheet)
    kernels = []
    for value in judged_values(run, sheet)[1]:
        if value.status != "ok" or mdm_held_out.TIMED_METRICS.get(value.benchmark) != value.metric or not value.pass_ns:
            continue
        kernel = mdm_held_out.kernel_of(value) if value.place.compute_units is None else None
        if kernel is None:
            continue
        resident = mdm_held_out.resident_sub_groups(value, hardware)
        rounds = kernel.sub_groups / (resident * hardware.quantities.compute_units.value)
        ghz = value.ghz or hardware.quantities.clock_ghz.value
        times: dict[tuple[str, Model], tuple[float, float, float]] = {}
        dominant = ""
        for reading, options in READINGS.items():
            profile = mdm_held_out.profile_of(kernel, resident, hardware, reading == "sector")
            for one in predictions(hardware, profile, options):
                scale = rounds / ghz / 1000
                times[reading, one.model] = (one.cycles * scale, one.cycles_low * scale, one.cycles_high * scale)
                dominant = one.dominant if (reading, one.model) == ("sector", "MDM") else dominant
        kernels.append(HeldOut(kernel.name, value.pass_ns / 1000, times, dominant))
    return kernels, hardware
