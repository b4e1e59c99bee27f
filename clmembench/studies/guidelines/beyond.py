"""X1 to X7, beyond the paper: saturation of memory, benefits of local memory and privatised atomics, cost of launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clmembench.analysis.derive import Derived
from clmembench.model import Finding, Value
from clmembench.studies.access.effect import bounded_ratio, values_with
from clmembench.studies.access.saturation import MIN_SATURATED_RATE_SHARE, SaturatingValue
from clmembench.studies.guidelines.advice import (
    Advice,
    RunKnowledge,
    advice_by_ratio,
    format_ratio,
    format_upper_bound,
    inapplicable_advice,
    only_if_complete,
    undetermined_advice,
)

CORE_TURNS_UNKNOWN = "unknown whether the work-items of a core run one after another: run suite access"
NO_COPY_GRID = "the run has no copies over a grid of launch configurations: run benchmark copy_grid"
ADDITIONS: Mapping[str, Value] = {"op": "add", "dtype": "int", "address": "same", "result": "used"}
# Thresholds and limits, each with its reason
MAX_GRID_HOLES_SHARE = 0.1  # share of the configurations: with more missing, the smallest that saturates may be among them
MIN_KERNEL_LAUNCH_RATIO = 10  # times the cost of a launch: a shorter kernel loses a tenth or more to it
SINGLE_WORD_BYTES = 4  # bytes
MAX_NEGLIGIBLE_LAUNCH_US = 0.5  # microseconds a launch: kernels shorter than ten such launches are rare
MAX_LITTLES_LAW_RATIO = 2.0  # ratio: accuracy of Little's law with the latency of idle memory


def guidelines(known: RunKnowledge) -> Iterator[Advice]:
    """Saturation of bandwidth first, then what pays off, then the cost of a launch."""
    yield _saturating_shape(
        known,
        "X1",
        "saturating_work_group",
        "only large work-groups reach the bandwidth of memory",
        "work-items",
        "use work-groups of {0:.0f} or more{1}",
        "choose any work-group size: {0:.0f} work-items suffice{1}",
    )
    yield element_size(known)
    yield _saturating_shape(
        known,
        "X3",
        "saturating_ilp",
        "work-items need independent loads in flight to reach it",
        "words",
        "give each work-item {0:.0f} independent loads or more{1}",
        "one load per work-item is enough: other work-items hide its latency{1}",
    )
    yield bytes_in_flight(known)
    yield local_bandwidth(known)
    yield privatised_atomics(known)
    yield launch_cost(known)


def _serial_advice(known: RunKnowledge, name: str, claim: str, therefore: str, unit: str = "times") -> Advice | None:
    """Advice where the work-items of a core run one after another, or may do so; None elsewhere."""
    if known.taking_turns():
        return inapplicable_advice(name, claim, f"{known.taking_turns()}: {therefore}", unit=unit)
    return undetermined_advice(name, claim, CORE_TURNS_UNKNOWN, unit=unit) if known.may_take_turns() else None


def _saturating_shape(known: RunKnowledge, name: str, finding: str, claim: str, unit: str, needs: str, enough: str) -> Advice:
    """The guideline holds if the smallest value tried does not reach 95% of the best rate, and does not hold if it does."""
    if serial := _serial_advice(known, name, claim, "more of them only lengthen a loop, without more loads in flight", unit):
        return serial
    smallest = known.findings.get(finding)
    if smallest is None or not isinstance(smallest.value, int | float):
        return undetermined_advice(name, claim, NO_COPY_GRID if smallest is None else smallest.reason, unit=unit)
    effect = (float(smallest.value), *_interval_of(smallest), unit, smallest.evidence)
    shape, first = (smallest.shape, smallest.is_smallest_tried) if isinstance(smallest, SaturatingValue) else ("", False)
    as_in = f", as {shape} (work-group x ILP x groups)" if shape else ""
    advice = (enough if first else needs).format(smallest.value, as_in)
    short = _why_grid_falls_short(known) or _why_grid_has_holes(known)
    if short:
        return Advice(
            name, claim, "undetermined", *effect, f"{smallest.value:.0f} {unit} are enough for the grid's best{as_in}", short
        )
    if smallest.low != smallest.high:
        return Advice(
            name, claim, "undetermined", *effect, advice, f"noise leaves open {smallest.low:g} to {smallest.high:g} {unit}"
        )
    return Advice(name, claim, "does not hold" if first else "holds", *effect, advice)


def _why_grid_falls_short(known: RunKnowledge) -> str:
    """Why the saturation of the grid's copies does not apply to memory; "" if they come close to the best copy of the run."""
    grid, best = known.findings.get("best_gb_s"), _best_copy(known)
    if grid is None or best is None or not isinstance(grid.value, int | float) or best.median is None or best.ci_low is None:
        return ""
    if (grid.high or grid.value) >= MIN_SATURATED_RATE_SHARE * best.ci_low:
        return ""
    share = grid.value / best.median
    return f"the best copy of the grid moves {share:.0%} of this run's best, so what saturates it need not saturate memory"


def _why_grid_has_holes(known: RunKnowledge) -> str:
    """Why the grid is too incomplete to show the smallest configuration that saturates; "" if it is not."""
    gone, whole = known.without_value("copy_grid"), sum(v.benchmark == "copy_grid" for v in known.values)
    return f"{gone} of {whole} configurations have no value in this run" if gone > MAX_GRID_HOLES_SHARE * whole else ""


def _best_copy(known: RunKnowledge) -> Derived | None:
    """The fastest copy by data type, or the device's own."""
    return max(values_with(known.values, "datatypes"), key=lambda v: v.median or 0.0, default=None)


def element_size(known: RunKnowledge) -> Advice:
    """X2, by the fewest bytes per work-item with which a copy of any type reaches 95% of the best rate."""
    claim = "a work-item must move more than a word for it"
    if serial := _serial_advice(known, "X2", claim, "bytes per work-item only change the length of a loop", "B"):
        return serial
    fewest_bytes = known.findings.get("saturating_element_bytes")
    if fewest_bytes is None or not isinstance(fewest_bytes.value, int | float):
        return undetermined_advice("X2", claim, "the run has no copies by data type: run benchmark datatypes", unit="B")
    low, high = _interval_of(fewest_bytes)
    effect = (float(fewest_bytes.value), low, high, "B", fewest_bytes.evidence)
    needs = f"move {fewest_bytes.value:.0f} B per work-item, as one vector or as elements a work-group apart"
    if low > SINGLE_WORD_BYTES:
        return Advice("X2", claim, "holds", *effect, needs)
    if high <= SINGLE_WORD_BYTES:
        return Advice(
            "X2",
            claim,
            "does not hold",
            *effect,
            f"move one word per work-item: {fewest_bytes.value:.0f} B reach 95% of the best rate",
        )
    return Advice("X2", claim, "undetermined", *effect, needs, f"noise leaves open {low:g} to {high:g} B")


def _interval_of(found: Finding) -> tuple[float, float]:
    assert isinstance(found.value, int | float)
    low = found.value if found.low is None else found.low
    return float(low), float(found.value if found.high is None else found.high)


def bytes_in_flight(known: RunKnowledge) -> Advice:
    """X4: the bytes that must be in flight, by Little's law and as measured."""
    claim = "Little's law, latency times bandwidth, predicts how many bytes must be in flight"
    if serial := _serial_advice(known, "X4", claim, "the core alone decides what is in flight"):
        return serial
    over, needed, seen = (known.findings.get(n) for n in ("found_over_needed", "needed_bytes", "saturating_bytes"))
    if over is None or needed is None or seen is None or not isinstance(over.value, int | float):
        reason = next((f.reason for f in (seen, over, needed) if f is not None and f.reason), NO_COPY_GRID)
        return undetermined_advice("X4", claim, reason)
    low, high = _interval_of(over)
    effect = (float(over.value), low, high, "times", tuple(dict.fromkeys((*over.evidence, *seen.evidence))))
    kib = [float(f.value) / 1024 for f in (seen, needed) if isinstance(f.value, int | float)]
    sizes_text = f"loads of {kib[0]:.0f} KiB in flight saturate the device, where the law requires {kib[1]:.0f} KiB"
    if low >= 1 / MAX_LITTLES_LAW_RATIO and high <= MAX_LITTLES_LAW_RATIO:
        return Advice("X4", claim, "holds", *effect, f"keep that much in flight: {sizes_text}")
    keep = f"keep {over.value:.1f} times as much in flight: {sizes_text}"
    if low > MAX_LITTLES_LAW_RATIO or high < 1 / MAX_LITTLES_LAW_RATIO:
        return Advice("X4", claim, "does not hold", *effect, keep)
    return Advice(
        "X4",
        claim,
        "undetermined",
        *effect,
        keep,
        f"{low:.3g} to {high:.3g} times: the interval contains {MAX_LITTLES_LAW_RATIO:g}",
    )


def local_bandwidth(known: RunKnowledge) -> Advice:
    """X5: whether local memory brings more bandwidth than the first cache, which needs no copy."""
    local = max(values_with(known.values, "local_read"), key=lambda v: v.median or 0.0, default=None)
    own = max(values_with(known.values, "cache_read", set="own"), key=lambda v: v.median or 0.0, default=None)
    far = max(values_with(known.values, "cache_read", set="shared"), key=lambda v: int(v.params["set_bytes"]), default=None)
    found, saved = bounded_ratio(local, own), bounded_ratio(local, far)
    size = int(far.params["set_bytes"]) >> 20 if far is not None else 0
    away = f", and {format_ratio(saved)} that of a set of {size} MiB" if saved is not None else ""
    lost = f"; a set of {size} MiB is read at {1 / saved.value:.0%} of local memory's rate" if saved is not None else ""
    return advice_by_ratio(
        "X5",
        "local memory gives more bandwidth than the nearest cache",
        found,
        f"stage data that is reread often: {format_ratio(found)} the nearest cache's bandwidth{away}",
        f"do not stage for bandwidth what the nearest cache holds: local memory gives {format_ratio(found)} as much{lost}",
        "the run has no reads of both: run benchmarks local_read and cache_read",
    )


def privatised_atomics(known: RunKnowledge) -> Advice:
    """X6: additions to one address in global memory over those to one in each work-group's local memory."""
    claim = "privatise atomics that compete for one address: one copy per work-group"
    shared, own = ({int(v.params["items"]): v for v in _atomic_additions(known, memory)} for memory in ("global", "local"))
    sizes = sorted(shared.keys() & own.keys())
    most = sizes[-1] if sizes and sizes[-1] > 1 else 0  # one work-item has no contention
    ratio = bounded_ratio(shared.get(most), own.get(most))
    advice = advice_by_ratio(
        "X6",
        claim,
        ratio,
        f"add up in local memory first, then once to global memory: an addition of {most} work-items takes "
        f"{format_ratio(ratio)} "
        "as long on one global address",
        f"add to the global address directly: {most} competing work-items lose at most {format_upper_bound(ratio)}"
        if ratio
        else "",
        "the run has no atomic additions of several work-items to both memories: run benchmark atomic",
    )
    gone = sum(known.without_value("atomic", **ADDITIONS, memory=memory) for memory in ("global", "local"))
    return only_if_complete(advice, gone, "atomic additions")


def _atomic_additions(known: RunKnowledge, memory: str) -> list[Derived]:
    return [v for v in values_with(known.values, "atomic", **ADDITIONS, memory=memory) if v.unit == "ns"]


def launch_cost(known: RunKnowledge) -> Advice:
    """X7: how long a kernel must be for launches not to matter."""
    claim = "launches cost as much as short kernels: merge them"
    one = next(iter(values_with(known.values, "launch_dispatch", groups=1)), None)
    if one is None or one.median is None or one.ci_low is None or one.ci_high is None:
        return undetermined_advice("X7", claim, "the run has no cost of a launch: run benchmark launch_dispatch", unit="us")
    effect = (one.median / 1e3, one.ci_low / 1e3, one.ci_high / 1e3, "us", one.evidence)
    best = _best_copy(known)
    moved = (
        f", which moves {MIN_KERNEL_LAUNCH_RATIO * one.median * best.median / 1e6:.3g} MB"
        if best is not None and best.median
        else ""
    )
    work = f"{MIN_KERNEL_LAUNCH_RATIO * one.median / 1e3:.3g} us of work or more{moved}"
    if effect[2] < MAX_NEGLIGIBLE_LAUNCH_US:
        return Advice(
            "X7",
            claim,
            "does not hold",
            *effect,
            f"launch as often as is convenient: one more launch in a queue costs {effect[0]:.3g} us",
        )
    give = f"give each launch {work}: one more launch in a queue costs {effect[0]:.3g} us"
    if effect[1] >= MAX_NEGLIGIBLE_LAUNCH_US:
        return Advice("X7", claim, "holds", *effect, give)
    reason = f"{effect[1]:.3g} to {effect[2]:.3g} us: the interval contains {MAX_NEGLIGIBLE_LAUNCH_US:g}"
    return Advice("X7", claim, "undetermined", *effect, give, reason)
