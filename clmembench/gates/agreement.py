"""Values of one run that measure one thing: which there are, how far they differ, why, and which contradict each other. Pure.

Benchmarks say which quantities their points measure (model.Quantity); what the best of one says is held against the best of all
others. A kernel that computes the right result in less time proves what the device can do, so of two values that differ
without a reason the worse one is wrong: a roof that another kernel exceeds is no roof.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clmembench.analysis.derive import Derived, key_of, left_out
from clmembench.analysis.roofs import cache_bytes_of
from clmembench.gates.thresholds import AGREEMENT
from clmembench.model import BenchmarkInfo, DeviceInfo, Quantity, Run
from clmembench.model.metrics import gain, more_is_better
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes, format_in, format_params

GATE = "agreement"
PLACES = ("compute_units", "work_groups", "placement")  # parameters that say where a point was measured


@dataclass(frozen=True, slots=True)
class ComparedClaim:
    """The best value of a quantity by one benchmark, all that it was chosen among, and why a better one may be missing."""

    quantity: Quantity
    best: Derived
    values: tuple[Derived, ...]
    incomplete: str
    data_bytes: float  # infinite where they surely lie in memory, or the quantity is none of memory


@dataclass(frozen=True, slots=True)
class AgreementPair:
    """A quantity that two claims are of: the better one first, the other's share of it with its interval, why they differ, and
    whether that is no explanation, so that they contradict each other."""

    name: str
    better: Derived
    other: Derived
    share: float
    share_low: float
    share_high: float
    why: str
    contradicts: bool
    doubted: tuple[Derived, ...]  # of a contradiction, the values that are wrong
    better_label: str
    other_label: str


def pairs(values: Sequence[Derived], run: Run, sheet: SpecSheet | None) -> list[AgreementPair]:
    """The best claim of each quantity with every other claim of it, and each speed-up above the number of compute units."""
    claims: dict[tuple[str, str], list[ComparedClaim]] = defaultdict(list)
    cards, info, least = run.header.benchmarks, run.header.device, _least_memory_bytes(run.header.device, sheet)
    own = [v for v in values if not cards[v.benchmark].peer_of]
    for name, card in cards.items():
        mine = [v for v in own if v.benchmark == name and v.place.compute_units is None]
        for claim in _claims(card, mine, run, least):
            claims[(claim.quantity.name, claim.best.unit)].append(claim)
    found = [pair for (name, _), several in claims.items() for pair in _pairs(name, several, info.has_cpu_cores)]
    return [*found, *_speed_ups([v for v in own if _is_usable(v) and v.place.compute_units is not None], info, least)]


def _least_memory_bytes(info: DeviceInfo, sheet: SpecSheet | None) -> float:
    """Bytes of data from which on they lie in memory. Some drivers claim a core's cache alone, or none."""
    return max(AGREEMENT.min_memory_to_cache_ratio * cache_bytes_of(info, sheet), AGREEMENT.min_memory_bytes)


def contradictions(values: Sequence[Derived], run: Run, sheet: SpecSheet | None) -> Iterator[tuple[Derived, str]]:
    """The values that a better one of the same quantity proves wrong, each with the reason."""
    for pair in pairs(values, run, sheet):
        if pair.contradicts:
            for value in pair.doubted:
                yield value, pair.why


def _is_usable(value: Derived) -> bool:
    """Whether a value takes part: good ones, and those that this gate has doubted, so that judging again changes nothing."""
    numbers = value.median is not None and value.ci_low is not None and value.ci_high is not None
    known = value.status == "ok" or (value.status == "suspect" and value.gate == GATE)
    return known and numbers and min(value.median or 0.0, value.ci_low or 0.0) > 0


def _claims(card: BenchmarkInfo, values: Sequence[Derived], run: Run, least: float) -> Iterator[ComparedClaim]:
    for quantity in card.quantities:
        if quantity.devices != "all" and (quantity.devices == "cores") != run.header.device.has_cpu_cores:
            continue
        mine = [v for v in values if v.metric == quantity.metric and _has_params(v, quantity)]
        largest = max((_number(v, quantity.largest) for v in mine), default=0)
        mine = [v for v in mine if not quantity.largest or _number(v, quantity.largest) == largest]
        usable = tuple(v for v in mine if _is_usable(v))
        if usable:
            best = max(usable, key=lambda v: gain(v.median or 0.0, v.better))
            data = _data_bytes(best, quantity)
            in_memory = not quantity.beyond_caches or data >= least
            yield ComparedClaim(quantity, best, usable, _incomplete(quantity, mine, run), math.inf if in_memory else data)


def _incomplete(quantity: Quantity, values: Sequence[Derived], run: Run) -> str:
    """Why the best of these points need not be the best that the benchmark finds; "" where it should be."""
    names = {name for v in values for name in (*v.params, *v.tuning)} - {quantity.largest}
    if chosen := sorted(names & set(run.header.axes)):
        return f"its points were chosen: -a {chosen[0]}"
    lost = [v for v in values if not _is_usable(v) and v.status != "skipped"]
    keys, name = {v.key for v in values}, values[0].benchmark
    spent = [r for r in left_out(run) if r.benchmark == name and (r.role == "tune" or key_of(r) in keys)]
    if lost or spent:
        return f"{count(len(lost) + len(spent), 'other point')} of it gave no value"
    return ""


def _has_params(value: Derived, quantity: Quantity) -> bool:
    return all(value.params.get(name) in chosen for name, chosen in quantity.params.items())


def _number(value: Derived, name: str) -> int:
    found = value.params.get(name)
    return found if type(found) is int else 0


def _data_bytes(value: Derived, quantity: Quantity) -> int:
    """The data that a point is over: by its parameter in bytes, or else what a pass moves."""
    return _number(value, quantity.largest) if quantity.largest.endswith("_bytes") else value.nbytes


def _pairs(name: str, claims: Sequence[ComparedClaim], on_cores: bool) -> Iterator[AgreementPair]:
    for claim in claims:
        if _is_bounded(claim):
            continue  # of a kernel that only has to stay below there is nothing to compare
        # a cache helps less where the data are more
        rivals = [rival for rival in claims if rival.data_bytes >= AGREEMENT.min_data_share * claim.data_bytes]
        best = max(rivals, key=lambda rival: gain(rival.best.median or 0.0, rival.best.better))
        if best is claim:
            continue
        share, low, high = _share(claim.best, best.best)
        reasons, explained = _reasons(claim, best.best, high, on_cores)
        contradicts = high < (AGREEMENT.min_roof_share if _is_bounded(best) else AGREEMENT.min_share) * explained
        if not contradicts and high < explained:
            near = f"within {1 - AGREEMENT.min_share:.0%}"
            if share >= AGREEMENT.min_share * explained:
                reasons.append(f"{near}, as moments and orders of access of one run differ")
            else:
                reasons.append(f"only its interval lies partly {near}: measure again on a quieter host")
        why = "; ".join(reasons) or "within the intervals of both"
        if contradicts:
            why = _contradiction(name, claim, best.best, reasons)
        doubted = claim.values if contradicts else ()
        yield AgreementPair(
            name, best.best, claim.best, share, low, high, why, contradicts, doubted, _label(best), _label(claim)
        )


def _is_bounded(claim: ComparedClaim) -> bool:
    """Whether a claim is of a kernel that the quantity bounds, however far it stays below."""
    return bool(claim.quantity.limit) and not claim.quantity.least_share


def _label(claim: ComparedClaim) -> str:
    """The benchmark, and the parameters that its quantity names."""
    own = {name: value for name, value in claim.best.params.items() if name in claim.quantity.params}
    return f"{claim.best.benchmark} {format_params(own)}".strip()


def _share(other: Derived, best: Derived) -> tuple[float, float, float]:
    """How good the other is as a share of the best, with its bounds by the intervals of both."""
    ratios = [
        gain(a / b, other.better)
        for a, b in (
            (other.median or 0.0, best.median or 1.0),
            (other.ci_low or 0.0, best.ci_high or 1.0),
            (other.ci_high or 0.0, best.ci_low or 1.0),
        )
    ]
    return ratios[0], min(ratios), max(ratios)


def _reasons(claim: ComparedClaim, best: Derived, high: float, on_cores: bool) -> tuple[list[str], float]:
    """Why a claim is worse than the best one, and down to which share of it that is an explanation."""
    found, explained, limit = [], 1.0, claim.quantity.limit
    known = [_units(claim.best, best, on_cores), _launch(claim.best, best), _host(claim.best, best)]
    for reason, down_to in (*known, (limit, claim.quantity.least_share if limit else 1.0), (claim.incomplete, 0.0)):
        if reason and high < explained:
            found.append(reason)
            explained *= down_to
    return found, explained


def _units(other: Derived, best: Derived, on_cores: bool) -> tuple[str, float]:
    """Fewer compute units at work, by CPU time, as of a runtime that copies with one thread; a GPU's take none."""
    mine, its = other.cpu_over_wall, best.cpu_over_wall
    if not on_cores or not mine or not its or mine >= AGREEMENT.same_units_share * its:
        return "", 1.0
    return f"{mine:.2f} compute units were at work, and {its:.2f} there", mine / its


def _launch(other: Derived, best: Derived) -> tuple[str, float]:
    """Starts and ends of launches, which are a larger part of a shorter pass; a slope (of 0 ns) has none."""
    mine, its = (_ends_ns(v) / v.pass_ns if v.pass_ns else 0.0 for v in (other, best))
    if mine - its < AGREEMENT.min_launch_share:
        return "", 1.0
    reason = f"its passes of {other.pass_ns / 1e3:.3g} us include the start and end of a launch"
    return reason, max(AGREEMENT.min_after_launch, 1 - mine + its)


def _host(other: Derived, best: Derived) -> tuple[str, float]:
    """The host's own time in both, which depends on the CPU, and the memory near it, that a process was given."""
    if (other.clock, best.clock) != ("host", "host") or other.cpu_over_wall is None or max(other.busy, best.busy):
        return "", 1.0
    return "both are by the host's clock, in processes on CPUs of their own", AGREEMENT.min_host_share


def _ends_ns(value: Derived) -> float:
    return AGREEMENT.host_launch_ns if value.clock == "host" else AGREEMENT.launch_ends_ns


def _contradiction(name: str, claim: ComparedClaim, best: Derived, known: Sequence[str]) -> str:
    top, mine = (format_in(v.median, v.unit, 4) for v in (best, claim.best))
    points = f", the best of {count(len(claim.values), 'point')}," if len(claim.values) > 1 else ""
    rest = f" ({'; '.join(known)}: no explanation of so much)" if known else ""
    return f"{name}: {_named(best)} gives {top}, and {mine}{points} is worse by more than can be explained{rest}"


def _named(value: Derived) -> str:
    return f"{value.benchmark} {format_params(dict(value.params))}".strip()


# ---- speed-up over compute units ---------------------------------------------------------------------------------------


def _speed_ups(values: Sequence[Derived], info: DeviceInfo, least: float) -> Iterator[AgreementPair]:
    """Of points over compute units, those with a speed-up above the number of units. n units do no more than n times what one
    does, unless its data come from caches, of which n units have more."""
    lines: dict[tuple[object, ...], list[Derived]] = defaultdict(list)
    for value in values:
        if more_is_better(value.better) and (value.place.compute_units or 0) <= info.compute_units:
            others = tuple(sorted((k, str(v)) for k, v in value.params.items() if k not in PLACES))
            lines[(value.benchmark, others)].append(value)
    for several in lines.values():  # one metric of a point says it all
        line = sorted((v for v in several if v.metric == several[0].metric), key=lambda v: v.place.compute_units or 0)
        yield from _above(line[0], line[1:], least)


def _above(alone: Derived, line: Sequence[Derived], least: float) -> Iterator[AgreementPair]:
    units = alone.place.compute_units or 1
    for value in line:
        times = (value.place.compute_units or 1) / units
        low, middle, high = (bound * times for bound in sorted(_share(alone, value)))
        if times <= 1 or high >= AGREEMENT.min_share:
            continue
        held = 0 < value.nbytes < least
        speed_up = (value.median or 0.0) / (alone.median or 1.0)
        name = f"speed-up of {value.benchmark} by {value.place.compute_units} of {count(units, 'compute unit')}"
        why = f"{speed_up:.2f} times as fast on {times:g} times the units"
        if held:
            why += f": its {format_bytes(value.nbytes, 1)} may lie partly in caches, of which more units have more"
        else:
            why += ", and its data lie in memory: the value on the fewer units is too low, or that on the more too high"
        doubted = () if held else (alone, value)
        yield AgreementPair(name, value, alone, middle, low, high, why, not held, doubted, _named(value), _named(alone))
