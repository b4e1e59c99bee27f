"""Sentences on one CPU under two runtimes: in which headline quantities compare calls each better, and by how much at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from clmembench.model import DeviceInfo
from clmembench.model.device_identity import is_same_platform
from clmembench.report.scorecard_cells import Scorecard
from clmembench.units import count, format_value

MAX_PAIRS = 3  # pairs of columns with a sentence: a cluster's nodes are of one model


def runtime_sentences(found: Scorecard) -> list[str]:
    """A sentence for each two columns that are a CPU of one model with as many compute units, under different platforms, of
    MAX_PAIRS of them at most. That it is the same machine cannot be known from runs, and is not claimed."""
    devices = found.devices
    pairs = [(a, b) for a, b in combinations(range(len(devices)), 2) if _is_one_cpu(devices[a], devices[b])]
    said = [text for a, b in pairs[:MAX_PAIRS] for text in _sentence(found, a, b)]
    left = len(pairs) - MAX_PAIRS
    return (
        [*said, f"{count(left, 'more pair')} of such columns {'is' if left == 1 else 'are'} in the table."]
        if left > 0
        else said
    )


def _is_one_cpu(one: DeviceInfo, other: DeviceInfo) -> bool:
    alike = (one.kind, one.cpu_id, one.compute_units) == (other.kind, other.cpu_id, other.compute_units)
    return alike and one.kind == "cpu" and bool(one.cpu_id) and not is_same_platform(one, other)


def _sentence(found: Scorecard, a: int, b: int) -> Iterator[str]:
    lines = [(line, found.pairs.decide(line, b, a)) for line in found.lines if line.better]
    decided = [(line.name, one) for line, one in lines if one is not None]
    better = sorted(((one.gain.value, name) for name, one in decided if one.verdict == "faster"), reverse=True)
    worse = sorted(((1 / one.gain.value, name) for name, one in decided if one.verdict == "slower"), reverse=True)
    if not better and not worse:
        return
    first, second = found.labels[a], found.labels[b]
    told = [_told(better, first), _told(worse, second)]
    left = len(decided) - len(better) - len(worse)
    rest = f"; {count(left, 'quantity', 'quantities')} the same or undecided" if left else ""
    layer = _layer(found.devices[a], found.devices[b])
    yield f"Of a CPU of one model under two runtimes, {' and '.join(filter(None, told))}{rest}.{layer}"


def _layer(one: DeviceInfo, other: DeviceInfo) -> str:
    """What two runtimes of one driver differ in."""
    if {one.runtime, other.runtime} != {"opencl", "sycl"} or one.driver != other.driver:
        return ""
    return (
        " Both run kernels by the same driver, so that kernels' own times should agree, and differ where the host disturbed "
        "one of the runs; run --runtime opencl,sycl measures both interleaved, and what the layer of SYCL costs."
    )


def _told(ratios: Sequence[tuple[float, str]], label: str) -> str:
    if not ratios:
        return ""
    most = ", ".join(f"{name}: {format_value(ratio)} times" for ratio, name in ratios[:3])
    return f"{label} is better in {count(len(ratios), 'quantity', 'quantities')} ({most})"
