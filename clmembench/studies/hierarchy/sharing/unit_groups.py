"""Which compute units share the cache behind the one for constants, from the times of slices that one of them loaded. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clmembench.analysis import derive
from clmembench.model import Array, Finding, Record
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.sharing.sharing_records import Fit, as_global_loads, question_records, stored_reads

NAME = "units_of_a_constant_cache"
METHOD = (
    "one compute unit loads an array of constants, then each other one times a slice of it that was not visited before; "
    "control: nobody loads it first"
)
# Thresholds and limits, each with its reason
MIN_COLD_TO_WARM_RATIO = 1.5  # slices from memory over laps from the cache: with less, hit and miss are not told apart
SHARED_SHARE = (0.25, 0.75)  # of the way from the control to a hit: below a unit misses, above it hits, between is open
MIN_KNOWN_SHARE = 0.9  # of pairs of units: a map with more gaps has no groups
MAX_LISTED_GROUPS = 12  # in the words of a finding


def unit_findings(records: Sequence[Record], void: str, fits: Mapping[tuple[str, int], Fit]) -> Mapping[str, Finding]:
    """How many compute units share that cache, of each group where they differ. `void` says why loads of constants tell
    nothing, "" where they do; `fits` are the sets that stay, by path and bytes of local memory."""
    asked = question_records(records, "units")
    if not asked:
        return {}
    record = asked[-1]
    names = (derive.id_of(record),)
    found = stored_reads(record, ("ticks", "source_ticks", "units", "steps"))
    if found is None:
        return {NAME: undetermined_finding(NAME, record.reason or "the record has no map of them", METHOD, names)}
    units, laps, samples = found["units"][0].astype(int), unit_laps(record), found["ticks"].shape[0]
    count, steps = units.size, found["steps"][0]
    if laps is None or laps.size != count or found["ticks"].shape[1] != count * (count + 1):
        return {NAME: undetermined_finding(NAME, "the record's map is damaged", METHOD, names)}
    warm = float(np.nanmedian(laps)) if np.isfinite(laps).any() else np.nan
    plain = fits.get(("global", 0))
    void = void or (as_global_loads("constant arrays", warm, plain) if plain is not None else "")
    if void:
        return {NAME: undetermined_finding(NAME, void, METHOD, names)}
    ticks = found["ticks"].reshape(samples, count + 1, count) / steps[0]
    known = np.where(ticks > 0, ticks, np.nan)
    with np.errstate(all="ignore"):
        middle = _median(known)
    return {NAME: _sharing(middle, warm, units, fits.get(("constant_array", 0)), names)}


def unit_laps(record: Record) -> Array | None:
    """Ticks a load of each compute unit, once it has loaded the whole array: the median over samples, NaN where a unit was not
    timed; None where the record holds none, or damaged ones."""
    found = stored_reads(record, ("source_ticks", "steps"))
    if found is None or found["source_ticks"].shape[1] % 2 or found["steps"].shape[1] != 2 or not found["steps"][0, 1] > 0:
        return None
    laps = found["source_ticks"].reshape(len(found["source_ticks"]), -1, 2)[:, 1:, 1] / found["steps"][0, 1]
    return _median(np.where(laps > 0, laps, np.nan))


def _median(known: Array) -> Array:
    """The median over samples of what was measured in at least half of them, else NaN."""
    there = np.isfinite(known).mean(axis=0) >= 0.5
    filled = np.where(there, np.where(np.isfinite(known), known, np.nan), 0.0)
    found: Array = np.where(there, np.nanmedian(filled, axis=0), np.nan)
    return found


def _sharing(ticks: Array, warm: float, units: Array, array_fit: Fit | None, names: tuple[str, ...]) -> Finding:
    """The finding, from ticks a step by (control and sources, unit) and those of a source's second lap."""
    control, sources = ticks[0], ticks[1:]
    cold = float(np.nanmedian(control)) if np.isfinite(control).any() else np.nan
    if units.size < 2:
        return undetermined_finding(NAME, "a map needs two compute units", METHOD, names)
    if not cold >= MIN_COLD_TO_WARM_RATIO * warm > 0:
        why = f"slices that nobody loaded take {cold:.4g} ticks a step, and an array that the unit itself loaded {warm:.4g}"
        return undetermined_finding(NAME, f"hits and misses are not told apart: {why}", METHOD, names)
    if array_fit is not None and warm <= 1.1 * array_fit.hit_ticks:
        why = "the whole array stays in the nearest cache of constants, so the one behind it was not asked"
        return undetermined_finding(NAME, why, METHOD, names)
    share = (control[None, :] - sources) / (control[None, :] - warm)
    apart = ~np.eye(units.size, dtype=bool)
    hit = np.where(share >= SHARED_SHARE[1], 1.0, np.where(share <= SHARED_SHARE[0], 0.0, np.nan))
    both = np.where(np.isnan(hit), hit.T, np.where(np.isnan(hit.T), hit, np.where(hit == hit.T, hit, np.nan)))
    known = float(np.isfinite(both[apart]).mean())
    if known < MIN_KNOWN_SHARE:
        why = f"only {known:.0%} of the pairs of compute units were told apart"
        return undetermined_finding(NAME, why, METHOD, names)
    groups, widest = _groups(both == 1.0), _groups((both == 1.0) | (np.isnan(both) & apart))
    if groups != widest:
        why = "some pairs of compute units are neither a hit nor a miss, or were not timed, and groups depend on them"
        return undetermined_finding(NAME, why, METHOD, names)
    if any((both[np.ix_(group, group)][~np.eye(len(group), dtype=bool)] == 0.0).any() for group in groups):
        why = "units that each share it with a third do not share it with each other: no groups"
        return undetermined_finding(NAME, why, METHOD, names)
    sizes = sorted({len(group) for group in groups})
    text = _group_text(units, groups)
    if len(sizes) > 1:  # as where units of some groups are switched off
        each = " + ".join(str(len(group)) for group in groups)
        return measured_finding(NAME, each, f"{METHOD}; {text}", names, sizes[0], sizes[-1])
    return measured_finding(NAME, sizes[0], f"{METHOD}; {text}", names)


def _groups(shared: Array) -> list[list[int]]:
    """The units that are connected by sharing, each in one list."""
    left, groups = set(range(len(shared))), []
    while left:
        group, open_ones = set[int](), {min(left)}
        while open_ones:
            unit = open_ones.pop()
            group.add(unit)
            open_ones |= {int(n) for n in np.flatnonzero(shared[unit])} - group
        groups.append(sorted(group))
        left -= group
    return groups


def _group_text(units: Array, groups: Sequence[Sequence[int]]) -> str:
    """The groups in words, the first of many."""
    if all(len(group) == 1 for group in groups):
        return f"each of {len(groups)} units has its own"
    shown = ", ".join("+".join(str(units[n]) for n in group) for group in groups[:MAX_LISTED_GROUPS])
    return f"{len(groups)} groups: {shown}{' ...' if len(groups) > MAX_LISTED_GROUPS else ''}"
