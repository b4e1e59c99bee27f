"""The guidelines of Fang et al. 2017 and some beyond, re-derived from what was measured of one device. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clmembench.analysis.derive import Derived
from clmembench.infer.guidelines import beyond, constant_memory, global_memory, image_memory, local_memory, private_memory
from clmembench.infer.guidelines.advice import Advice, GuidelineGroup, RunKnowledge
from clmembench.model import DeviceInfo, Finding

GUIDELINE_GROUPS: tuple[GuidelineGroup, ...] = (
    private_memory.guidelines,
    local_memory.guidelines,
    constant_memory.guidelines,
    global_memory.guidelines,
    image_memory.guidelines,
    beyond.guidelines,
)


def advice_of_guidelines(
    values: Sequence[Derived], info: DeviceInfo, findings: Mapping[str, Finding] | None = None
) -> list[Advice]:
    """Advice by each guideline on a device, in the order of the paper: from the values of a run, as `derive` gives them,
    and findings of what saturates its memory."""
    known = RunKnowledge.of(values, info, findings or {})
    return [advice for guidelines in GUIDELINE_GROUPS for advice in guidelines(known)]
