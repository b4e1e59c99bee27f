"""The case study MNF for programs: objects with every version's gain, every way to the whole and the host's steps; fields."""

from __future__ import annotations

from typing import Any

from clmembench import sanitize
from clmembench.analysis import stats
from clmembench.analysis.derive import Derived
from clmembench.model import Run
from clmembench.report.table import Table, columns
from clmembench.studies.mnf.mnf_tables import gains, ways
from clmembench.studies.mnf.mnf_whole import Hotspot, RotationVariant, host_hotspots
from clmembench.studies.mnf.versions import VersionGain, is_usable

FIELDS = (
    "step", "of", "variant", "over", "change", "guideline", "status", "time_ms", "time_low_ms", "time_high_ms",
    "gain", "gain_low", "gain_high", "over_first", "over_first_low", "over_first_high", "verdict", "verified", "reason",
)  # fmt: skip


def study_object(run: Run) -> dict[str, Any]:
    """One object: device, size, `steps` (an object a version and what it is compared with, by FIELDS and the evidence for
    its gain), `whole` (an object a way) and `host` (an object a library and step, with the cube that it was of and how many
    cores it used). What has no number is null."""
    found, whole = gains(run), ways(run)
    sizes = [gain.value.params["size"] for gain in found] + [way.value.params["size"] for way in whole]
    return {
        "device": sanitize.printable(run.header.device.name),
        "size": sizes[0] if sizes else None,
        "steps": [{**version_object(gain), "evidence": list(gain.evidence)} for gain in found],
        "whole": [_way(way) for way in whole],
        "host": [_spot(spot) for spot in host_hotspots(run)],
    }


def version_fields(run: Run) -> Table:
    """One line for each version of a step and what it is compared with, for CSV."""
    return Table("", columns(FIELDS), tuple(tuple(version_object(gain).values()) for gain in gains(run)))


def version_object(gain: VersionGain) -> dict[str, Any]:
    """A version of a step, by FIELDS."""
    change, timed = gain.change, _timed(gain.value)
    fields = {
        "step": gain.benchmark,
        "of": gain.of,
        "variant": gain.variant,
        "over": change.over if change else None,
        "change": change.what if change else None,
        "guideline": (change.guideline or None) if change else None,
        **timed,
        **_ends("gain", gain.over_previous),
        **_ends("over_first", gain.over_first),
        "verdict": gain.verdict,
        "reason": gain.reason or timed["reason"],
    }
    return {name: fields[name] for name in FIELDS}


def _way(way: RotationVariant) -> dict[str, Any]:
    return {
        "how": "kernels" if way.kernels else "numpy",
        **{step: way.kernels.get(step) for step in ("filter", "covariance", "transform")},
        "memory": way.memory,
        **_timed(way.value),
        "kernels_ms": way.kernels_ms,
        **_ends("over_first", way.over_first),
        **_ends("over_numpy", way.over_numpy),
    }


def _spot(spot: Hotspot) -> dict[str, Any]:
    return {
        "library": spot.library,
        "step": spot.step,
        "size": spot.value.params["size"],
        **_timed(spot.value),
        "cores": spot.value.cpu_over_wall if is_usable(spot.value) else None,
        "share": spot.share,
        "scaled_share": spot.scaled_share,
    }


def _ends(name: str, ratio: stats.Ratio | None) -> dict[str, float | None]:
    return {
        name: ratio.value if ratio else None,
        f"{name}_low": ratio.low if ratio else None,
        f"{name}_high": ratio.high if ratio else None,
    }


def _timed(value: Derived) -> dict[str, Any]:
    good = is_usable(value)
    return {
        "status": value.status,
        "time_ms": value.median if good else None,
        "time_low_ms": value.ci_low if good else None,
        "time_high_ms": value.ci_high if good else None,
        "verified": value.checked,
        "reason": value.reason,
    }
