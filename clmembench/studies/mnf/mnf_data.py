"""The case study MNF for programs, as `casestudy mnf` prints it under --json and --csv."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from clmembench import sanitize
from clmembench.analysis import stats
from clmembench.analysis.derive import Derived
from clmembench.model import Run, Value
from clmembench.report.json_outputs import Number
from clmembench.report.table import Table, columns
from clmembench.studies.mnf.mnf_tables import gains, ways
from clmembench.studies.mnf.mnf_whole import Hotspot, RotationVariant, host_hotspots
from clmembench.studies.mnf.versions import VersionGain, is_usable


@dataclass(frozen=True, slots=True)
class StepObject:
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
    evidence: Sequence[str]


@dataclass(frozen=True, slots=True)
class WholeObject:
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


@dataclass(frozen=True, slots=True)
class HostStepObject:
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


@dataclass(frozen=True, slots=True)
class CaseStudyObject:
    """The case study on one device."""

    device: str
    size: Value | None
    steps: list[StepObject]
    whole: list[WholeObject]
    host: list[HostStepObject]


FIELDS = tuple(field.name for field in fields(StepObject) if field.name != "evidence")  # of CSV


def study_object(run: Run) -> CaseStudyObject:
    """Every version and what it is compared with, every way to the whole, and every step of a library of the host. What has no
    number is null."""
    versions, whole = gains(run), ways(run)
    sizes = [one.params["size"] for one in (*(gain.value for gain in versions), *(way.value for way in whole))]
    return CaseStudyObject(
        device=sanitize.printable(run.header.device.name),
        size=sizes[0] if sizes else None,
        steps=[_step(gain) for gain in versions],
        whole=[_way(way) for way in whole],
        host=[_spot(spot) for spot in host_hotspots(run)],
    )


def version_fields(run: Run) -> Table:
    """One line for each version of a step and what it is compared with, for CSV."""
    return Table("", columns(FIELDS), tuple(tuple(getattr(_step(gain), name) for name in FIELDS) for gain in gains(run)))


def _step(gain: VersionGain) -> StepObject:
    change = gain.change
    return StepObject(
        step=gain.benchmark,
        of=gain.of,
        variant=gain.variant,
        over=change.over if change else None,
        change=change.what if change else None,
        guideline=(change.guideline or None) if change else None,
        **_timed(gain.value, gain.reason),
        **_ends("gain", gain.over_previous),
        **_ends("over_first", gain.over_first),
        verdict=gain.verdict,
        evidence=gain.evidence,
    )


def _way(way: RotationVariant) -> WholeObject:
    return WholeObject(
        how="kernels" if way.kernels else "numpy",
        filter=way.kernels.get("filter"),
        covariance=way.kernels.get("covariance"),
        transform=way.kernels.get("transform"),
        memory=way.memory,
        **_timed(way.value),
        kernels_ms=way.kernels_ms,
        **_ends("over_first", way.over_first),
        **_ends("over_numpy", way.over_numpy),
    )


def _spot(spot: Hotspot) -> HostStepObject:
    return HostStepObject(
        library=spot.library,
        step=spot.step,
        size=spot.value.params["size"],
        **_timed(spot.value),
        cores=spot.value.cpu_over_wall if is_usable(spot.value) else None,
        share=spot.share,
        scaled_share=spot.scaled_share,
    )


def _ends(name: str, ratio: stats.Ratio | None) -> dict[str, Any]:
    return {
        name: ratio.value if ratio else None,
        f"{name}_low": ratio.low if ratio else None,
        f"{name}_high": ratio.high if ratio else None,
    }


def _timed(value: Derived, reason: str = "") -> dict[str, Any]:
    """The fields that are of a value; `reason` replaces its own."""
    good = is_usable(value)
    return {
        "status": value.status,
        "time_ms": value.median if good else None,
        "time_low_ms": value.ci_low if good else None,
        "time_high_ms": value.ci_high if good else None,
        "verified": value.checked,
        "reason": reason or value.reason,
    }
