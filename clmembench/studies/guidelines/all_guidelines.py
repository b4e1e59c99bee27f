"""The guidelines of Fang et al. 2017 and some beyond, re-derived from what was measured of one device. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clmembench.analysis.derive import Derived
from clmembench.model import DeviceInfo, Finding, Value
from clmembench.studies.guidelines import beyond, constant_memory, global_memory, image_memory, local_memory, private_memory
from clmembench.studies.guidelines.advice import Advice, GuidelineGroup, RunKnowledge, inapplicable_advice

GUIDELINE_GROUPS: tuple[GuidelineGroup, ...] = (
    private_memory.guidelines,
    local_memory.guidelines,
    constant_memory.guidelines,
    global_memory.guidelines,
    image_memory.guidelines,
    beyond.guidelines,
)


# benchmark and parameters of the points that a guideline needs, by the first letters of its name
NEEDED_POINTS: Mapping[str, tuple[str, Mapping[str, Value]]] = {
    "L": ("private_array", {}),
    "S1": ("banks", {}),
    "S": ("subgroup", {"memory": "local"}),
    "C1": ("step_latency", {}),
    "G2": ("datatypes", {}),
    "G": ("subgroup", {"memory": "global"}),
    "T": ("subgroup", {"memory": "image"}),
    "X1": ("copy_grid", {}),
    "X2": ("datatypes", {}),
    "X3": ("copy_grid", {}),
    "X4": ("copy_grid", {}),
    "X5": ("local_read", {}),
    "X6": ("atomic", {}),
    "X7": ("launch_dispatch", {}),
}


def advice_of_guidelines(
    values: Sequence[Derived], info: DeviceInfo, findings: Mapping[str, Finding] | None = None
) -> list[Advice]:
    """Advice by each guideline on a device, in the order of the paper: from the derived values of a run and the findings on the
    saturation of its memory."""
    known = RunKnowledge.of(values, info, findings or {})
    return [_if_applicable(known, advice) for guidelines in GUIDELINE_GROUPS for advice in guidelines(known)]


def _if_applicable(known: RunKnowledge, advice: Advice) -> Advice:
    """The advice; not applicable where the device cannot run the points that it needs."""
    benchmark, params = (
        NEEDED_POINTS.get(advice.id) or NEEDED_POINTS.get(advice.id[0]) or ("subgroup", {"memory": known.constant()})
    )
    why = known.absent(benchmark, **params) if advice.verdict == "undetermined" else ""
    return inapplicable_advice(advice.id, advice.guideline, why, unit=advice.unit) if why else advice
