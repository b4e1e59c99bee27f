"""Shape of the case study as `casestudy mnf --json` prints it."""

from __future__ import annotations

from typing import Literal

# pydantic refuses the TypedDict of typing before Python 3.12
from typing_extensions import TypedDict

from clmembench.model import Value
from clmembench.report.json_outputs import Number


class StepObject(TypedDict):
    """A version of a step of the case study, and what it is compared with."""

    step: str
    of: str
    variant: str
    over: str | None
    change: str | None
    guideline: str | None
    status: str
    time_ms: Number
    time_low_ms: Number
    time_high_ms: Number
    gain: Number
    gain_low: Number
    gain_high: Number
    over_first: Number
    over_first_low: Number
    over_first_high: Number
    verdict: str | None
    verified: bool
    reason: str
    evidence: list[str]


class WholeObject(TypedDict):
    """A way to the whole of the case study."""

    how: Literal["kernels", "numpy"]
    filter: str | None
    covariance: str | None
    transform: str | None
    memory: str
    status: str
    time_ms: Number
    time_low_ms: Number
    time_high_ms: Number
    verified: bool
    reason: str
    kernels_ms: Number
    over_first: Number
    over_first_low: Number
    over_first_high: Number
    over_numpy: Number
    over_numpy_low: Number
    over_numpy_high: Number


class HostStepObject(TypedDict):
    """A step of the case study by a library of the host."""

    library: str
    step: str
    size: Value
    status: str
    time_ms: Number
    time_low_ms: Number
    time_high_ms: Number
    verified: bool
    reason: str
    cores: Number
    share: Number
    scaled_share: Number


class CaseStudyObject(TypedDict):
    """The case study on one device."""

    device: str
    size: Value | None
    steps: list[StepObject]
    whole: list[WholeObject]
    host: list[HostStepObject]
