"""Possible changes of a kernel and their predicted gains by the model: lines, occupancy, footprint. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from clmembench.studies.memory_divergence.mdm_inputs import HardwareSheet, Profile, Range
from clmembench.studies.memory_divergence.model.equations import Model, ModelOptions
from clmembench.studies.memory_divergence.model.predict import Prediction, predictions

ADVISING: tuple[Model, ...] = ("MDM", "bound")  # the model, and the upper bound of any schedule
MIN_GAIN = 0.005  # share of the IPC: smaller changes are not listed


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """A change of a kernel, and the IPC after it over the IPC before, by MDM and by the bound. `of` names the changed quantity:
    lines, stores, footprint, request or sub_groups."""

    of: str
    text: str
    gain: float
    bound_gain: float


@dataclass(frozen=True, slots=True)
class Limit:
    """The most sub-groups, and the most missing lines per sub-group and interval, with which no interval is memory-divergent:
    the misses of all resident sub-groups fit the MSHRs. None if no read of the kernel misses."""

    sub_groups: int | None
    read_misses: float | None


def limits(sheet: HardwareSheet, profile: Profile) -> Limit:
    """Where divergence begins, in sub-groups at this profile's misses, and in misses at its number of sub-groups."""
    mshrs = sheet.quantities.mshrs.value
    most = max(_middle(one.read_misses) for one in profile.interval)
    return Limit(int(mshrs // most), mshrs / profile.warps) if most > 0 else Limit(None, None)


def changes(sheet: HardwareSheet, profile: Profile, options: ModelOptions | None = None) -> list[ProfileChange]:
    """Every change that the profile allows, the largest gain by MDM first. Changes of occupancy need `stall_cycles`: C_i is
    valid for one number of sub-groups only."""
    options = options or ModelOptions()
    before = predictions(sheet, profile, options, ADVISING)
    gains = []
    for of, text, changed, reading in _tried(sheet, profile, options):
        after = predictions(sheet, changed, reading, ADVISING)
        gain, bound_gain = (_ratio(*pair) for pair in zip(after, before, strict=True))
        if abs(gain - 1) >= MIN_GAIN:
            gains.append(ProfileChange(of, text, gain, bound_gain))
    return sorted(gains, key=lambda change: -change.gain)


def _ratio(after: Prediction, before: Prediction) -> float:
    return after.ipc_sm / before.ipc_sm


def _tried(sheet: HardwareSheet, profile: Profile, options: ModelOptions) -> Iterator[tuple[str, str, Profile, ModelOptions]]:
    intervals = profile.interval
    if any(_middle(one.read_misses) > 0 for one in intervals):
        halved = tuple(replace(one, read_misses=_scaled(one.read_misses, 0.5)) for one in intervals)
        yield "lines", "half as many distinct lines a load", replace(profile, interval=halved), options
    if any(_middle(one.write_misses) > 0 for one in intervals):
        none = tuple(replace(one, write_misses=0.0) for one in intervals)
        yield "stores", "no stores that leave the compute unit", replace(profile, interval=none), options
    if any(_middle(one.llc_miss_ratio) > 0 for one in intervals):
        near = tuple(replace(one, llc_miss_ratio=0.0) for one in intervals)
        yield "footprint", "a footprint within the last-level cache", replace(profile, interval=near), options
    if options.request == "block" and sheet.quantities.sector_bytes.value < sheet.quantities.block_bytes.value:
        yield "request", "requests of a sector instead of a block", profile, replace(options, request="sector")
    if intervals[0].stall_cycles is not None:
        yield from _occupancies(sheet, profile, options)


def _occupancies(
    sheet: HardwareSheet, profile: Profile, options: ModelOptions
) -> Iterator[tuple[str, str, Profile, ModelOptions]]:
    most = int(sheet.quantities.max_sub_groups.value)
    limit = limits(sheet, profile).sub_groups
    wanted = {profile.warps // 2: "half", profile.warps * 2: "twice", most: "the most"}
    if limit is not None:
        wanted[limit] = "the maximum whose misses fit the MSHRs"
    for warps, what in sorted(wanted.items()):
        if 1 <= warps <= most and warps != profile.warps:
            yield "sub_groups", f"{warps} resident sub-groups ({what})", replace(profile, warps=warps), options


def _middle(number: float | Range) -> float:
    return number.value if isinstance(number, Range) else number


def _scaled(number: float | Range, by: float) -> float | Range:
    return Range(number.value * by, number.low * by, number.high * by) if isinstance(number, Range) else number * by
