"""X1 to X7, beyond the paper: what saturates this device's memory, when local memory and private sums pay, and launches."""

from __future__ import annotations

from collections.abc import Iterator

from clmembench.derive import Derived
from clmembench.infer.effect import pick, picked, ratio
from clmembench.infer.guidelines.advice import Advice, Known, inapplicable, judged, times, unknown
from clmembench.model import Finding, Value

GRID = "the run has no copies over a grid of shapes: run benchmark copy_grid"
LAUNCHES = 10  # times as long as one more launch: a kernel that loses a tenth to it
SMALLEST = 4  # bytes: a word
NEAR = 2.0  # times: what a law of one latency, that of an idle memory, can be expected to tell


def guidelines(known: Known) -> Iterator[Advice]:
    """What saturates bandwidth first, then what pays, then what a launch costs."""
    yield _least(known, "X1", "saturating_work_group", "only large work-groups reach the bandwidth of memory", "work-items", 64)
    yield _least(known, "X2", "saturating_element_bytes", "a work-item must move more than a word for it", "B", SMALLEST + 1)
    yield _least(known, "X3", "saturating_ilp", "work-items need independent loads in flight to reach it", "words", 2)
    yield in_flight(known)
    yield bandwidth(known)
    yield atomics(known)
    yield launches(known)


WORDS = {
    "X1": (
        "use work-groups of {0:.0f} or more",
        "choose any work-group size: {0:.0f} work-items reach 95% of the best too",
    ),
    "X2": (
        "move {0:.0f} B a work-item, as vectors of words do",
        "move a word a work-item: {0:.0f} B reach 95% of the best",
    ),
    "X3": ("give each work-item {0:.0f} independent loads or more", "one load a work-item is enough: others hide its latency"),
}


def _least(known: Known, name: str, finding: str, claim: str, unit: str, above: float) -> Advice:
    """It holds where the least that reaches 95% of the best rate is `above` or more."""
    if known.taking_turns() and finding != "saturating_element_bytes":
        return inapplicable(name, claim, f"{known.taking_turns()}: more of them put no more loads in flight", unit=unit)
    found = known.findings.get(finding)
    if found is None or not isinstance(found.value, int | float):
        return unknown(name, claim, GRID if found is None else found.reason, unit=unit)
    low, high = _ends(found)
    told = (float(found.value), low, high, unit, found.evidence)
    needs, enough = (text.format(found.value) for text in WORDS[name])
    if low >= above:
        return Advice(name, claim, "holds", *told, needs)
    if high < above:
        return Advice(name, claim, "does not hold", *told, enough)
    return Advice(name, claim, "undetermined", *told, needs, f"between {low:g} and {high:g} {unit}: within the noise")


def _ends(found: Finding) -> tuple[float, float]:
    assert isinstance(found.value, int | float)
    low = found.value if found.low is None else found.low
    return float(low), float(found.value if found.high is None else found.high)


def in_flight(known: Known) -> Advice:
    """X4: the bytes that must be on their way, by Little's law and as seen."""
    claim = "Little's law, latency times bandwidth, tells how many bytes must be in flight"
    if known.taking_turns():
        return inapplicable("X4", claim, f"{known.taking_turns()}: what is in flight is the core's own doing")
    over, needed, seen = (known.findings.get(n) for n in ("found_over_needed", "needed_bytes", "saturating_bytes"))
    if over is None or needed is None or seen is None or not isinstance(over.value, int | float):
        reason = next((f.reason for f in (seen, over, needed) if f is not None and f.reason), GRID)
        return unknown("X4", claim, reason)
    low, high = _ends(over)
    told = (float(over.value), low, high, "times", tuple(dict.fromkeys((*over.evidence, *seen.evidence))))
    kib = [float(f.value) / 1024 for f in (seen, needed) if isinstance(f.value, int | float)]
    said = f"loads of {kib[0]:.0f} KiB over the whole device saturate it, where the law says {kib[1]:.0f} KiB"
    if low >= 1 / NEAR and high <= NEAR:
        return Advice("X4", claim, "holds", *told, f"keep that much in flight: {said}")
    keep = f"keep {over.value:.1f} times as much in flight: {said}"
    if low > NEAR or high < 1 / NEAR:
        return Advice("X4", claim, "does not hold", *told, keep)
    return Advice("X4", claim, "undetermined", *told, keep, f"{low:.3g} to {high:.3g} times: on either side of {NEAR:g}")


def bandwidth(known: Known) -> Advice:
    """X5: whether local memory brings more bandwidth than the first cache, which needs no copy."""
    local = max(picked(known.values, "local_read"), key=lambda v: v.median or 0.0, default=None)
    own = max(picked(known.values, "cache_read", set="own"), key=lambda v: v.median or 0.0, default=None)
    far = max(picked(known.values, "cache_read", set="shared"), key=lambda v: int(v.params["set_bytes"]), default=None)
    found, saved = ratio(local, own), ratio(local, far)
    return judged(
        "X5",
        "local memory gives more bandwidth than the nearest cache",
        found,
        f"stage what is reread: {times(found)} the nearest cache's bandwidth, and {times(saved)} that of memory",
        "leave what is reread to the nearest cache, which is as fast, and stage what it would lose: memory has "
        f"1/{saved.value if saved else 0:.3g} of the bandwidth",
        "the run has no reads of both: run benchmarks local_read and cache_read",
    )


def atomics(known: Known) -> Advice:
    """X6: additions to one address in global memory over those to one in each work-group's local memory."""
    claim = "atomics that compete for one address should be privatised, a copy a work-group"
    shared, own = ({int(v.params["items"]): v for v in _additions(known, memory)} for memory in ("global", "local"))
    sizes = sorted(shared.keys() & own.keys())
    most = sizes[-1] if sizes else 0
    found = ratio(shared.get(most), own.get(most))
    return judged(
        "X6",
        claim,
        found,
        f"add up in local memory first, then once to global: an addition of {most} work-items takes {times(found)} "
        "as long on one global address",
        f"add to the global address at once: {most} competing work-items lose {times(found)} at most",
        "the run has no atomic additions to both memories: run benchmark atomic",
    )


def _additions(known: Known, memory: str) -> list[Derived]:
    wanted: dict[str, Value] = {"op": "add", "dtype": "int", "memory": memory, "address": "same", "result": "used"}
    return [v for v in picked(known.values, "atomic", **wanted) if v.unit == "ns"]


def launches(known: Known) -> Advice:
    """X7: how long a kernel must be for launches not to matter."""
    claim = "launches cost as much as short kernels: merge them"
    one = pick(known.values, "launch_dispatch", groups=1)
    if one is None or one.median is None or one.ci_low is None or one.ci_high is None:
        return unknown("X7", claim, "the run has no cost of a launch: run benchmark launch_dispatch", unit="us")
    told = (one.median / 1e3, one.ci_low / 1e3, one.ci_high / 1e3, "us", one.evidence)
    best = known.findings.get("best_gb_s")
    rate = float(best.value) if best is not None and isinstance(best.value, int | float) else None
    moved = f", which moves {LAUNCHES * one.median * rate / 1e6:.3g} MB" if rate else ""
    advice = (
        f"give a launch {LAUNCHES * one.median / 1e3:.3g} us of work or more{moved}: one more in a queue costs {told[0]:.3g} us"
    )
    return Advice("X7", claim, "holds", *told, advice)
