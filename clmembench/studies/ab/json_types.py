"""Shape of an A/B measurement as `compare --live --json` prints it."""

from __future__ import annotations

from typing import Literal

# pydantic refuses the TypedDict of typing before Python 3.12
from typing_extensions import NotRequired, TypedDict  # noqa: UP035

from clmembench.analysis.stats import Ratio
from clmembench.model import Value
from clmembench.report.json_outputs import Number


class LiveValueObject(TypedDict):
    """One value of an interleaved A/B run."""

    benchmark: str
    params: dict[str, Value]
    metric: str
    unit: str
    better: Literal["higher", "lower"]
    verdict: Literal["faster", "slower", "same", "undecided", "failed"]
    a: Number
    b: Number
    ratio: Ratio | None
    gain: Ratio | None
    rounds: int
    smallest_slowdown: Number
    reason: str
    notes: list[str]


class LiveComparisonObject(TypedDict):
    """An interleaved A/B run: its settings and values."""

    sides: list[str]
    margin: float
    error: float
    seed: int
    files: list[str]
    rounds: int
    seconds: float
    values: list[LiveValueObject]
    layer: NotRequired[list[str]]  # of run --runtime opencl,sycl: sentences on what the layer costs
