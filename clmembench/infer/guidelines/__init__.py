"""The guidelines of Fang et al. 2017 and some beyond, re-derived from what was measured of one device. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clmembench.analysis.derive import Derived
from clmembench.infer.guidelines import beyond, constant_memory, global_memory, image_memory, local_memory, private_memory
from clmembench.infer.guidelines.advice import Advice, Guidelines, Known
from clmembench.model import DeviceInfo, Finding

EVERY: tuple[Guidelines, ...] = (
    private_memory.guidelines,
    local_memory.guidelines,
    constant_memory.guidelines,
    global_memory.guidelines,
    image_memory.guidelines,
    beyond.guidelines,
)


def advised(values: Sequence[Derived], info: DeviceInfo, findings: Mapping[str, Finding] | None = None) -> list[Advice]:
    """Advice by each guideline on a device, in the order of the paper: from the values of a run, as `derive` gives them,
    and findings of what saturates its memory."""
    known = Known.of(values, info, findings or {})
    return [advice for guidelines in EVERY for advice in guidelines(known)]
