"""Which device is the best in one quantity, by how much, and why others are not compared: what answers are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from clmembench.analysis.decision import DEFAULT_MARGIN
from clmembench.model import DeviceInfo
from clmembench.model.device_identity import is_same_platform
from clmembench.model.metrics import more_is_better, score
from clmembench.report.device_runs import short_names
from clmembench.report.frame import LabelledRun
from clmembench.report.scorecard.headline_cells import common_size
from clmembench.report.scorecard_cells import BOUND, OLDER, OTHER_SIZE, Decision, Line, Scorecard, ScorecardCell
from clmembench.units import count, format_value

MAX_NAMED_RIVALS = 6  # devices that a sentence names beside the best
MIN_RATIO_TO_BOUND = 1.5  # of the best value to another's bound, whose own interval is not known
MAX_PAIRS = 3  # pairs of runtimes with a sentence: a cluster's nodes are of one model


@dataclass(frozen=True, slots=True)
class Rival:
    """A device against the best one: how many times as good the best is, and the cell that says so, `size` where it is not the
    device's own headline but the value at the largest size that both have."""

    place: int
    found: Decision
    cell: ScorecardCell
    size: str = ""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The devices of one line: the best one, those that are compared with it in the order of their values, and the reasons why
    others are not."""

    line: Line
    best: int
    rivals: tuple[Rival, ...]
    objections: tuple[tuple[int, str], ...] = ()

    def of(self, *verdicts: str) -> list[Rival]:
        """The rivals to whom the best one stands like that."""
        return [rival for rival in self.rivals if rival.found.verdict in verdicts]

    def at_least(self) -> list[tuple[int, float]]:
        """The devices with a bound that the best one is surely beyond, and how many times as good it is at least."""
        best, ratios = self.line.cells[self.best], []
        is_higher = more_is_better(self.line.better)
        for place, cell in enumerate(self.line.cells):
            closed = cell.side == ("at most" if is_higher else "at least")
            if closed and cell.limit and cell.meaning == best.meaning:
                end = (best.low if is_higher else best.high) or best.value or 0.0
                ratios.append((place, end / cell.limit if is_higher else cell.limit / end))
        return sorted(((p, r) for p, r in ratios if r > MIN_RATIO_TO_BOUND), key=lambda one: one[1])


def ranking(line: Line, found: Scorecard, columns: Sequence[LabelledRun] = ()) -> Ranking | None:
    """The ranking of a line as `compare` decides it, with `columns` at the largest common size where the devices' own differ;
    None where no device has a value that may be compared."""
    cells = line.cells[: len(found.devices)]
    having = [place for place, cell in enumerate(cells) if cell.value]
    ranked = sorted(having, key=lambda place: -score(cells[place].value or 0.0, line.better))
    if not ranked:
        return None
    best, rivals, objections = ranked[0], [], []
    for place in ranked[1:]:
        why = found.pairs.objection(line, best, place)
        own = found.pairs.decide(line, place, best)
        smaller = common_size(line, columns[best], columns[place]) if columns and why == OTHER_SIZE else None
        if own is not None:
            rivals.append(Rival(place, own, cells[place]))
        elif smaller is not None and smaller[0].noisy is not None and smaller[1].noisy is not None:
            decision = found.pairs.decide_values(place, best, smaller[1].noisy, smaller[0].noisy, line.better)
            rivals.append(Rival(place, decision, smaller[1], smaller[1].size))
        else:
            objections.append((place, ", ".join(filter(None, (why, cells[place].size)))))
    others = [place for place, cell in enumerate(cells) if cell.status in (OLDER, BOUND)]
    for place in sorted(others, key=lambda place: -score(cells[place].limit or 0.0, line.better)):
        objections.append((place, f"by an {OLDER}" if cells[place].status == OLDER else cells[place].text))
    return Ranking(line, best, tuple(rivals), tuple(objections))


def ranking_details(one: Ranking, found: Scorecard) -> Iterator[str]:
    """A ranking in sentences: the best value, its ratios with their intervals, and what is undecided or not compared."""
    names, cell = short_names(found.labels), one.line.cells[one.best]
    remark = _remark(cell)
    value = f"{cell.text.partition(', ')[0]}{f' ({remark})' if remark else ''}"
    yield f"{one.line.name} ({one.line.group}): {names[one.best]} has {value}."
    better, equal = one.of("faster"), one.of("same")
    if better:
        ratios = [_ratio_with_interval(rival, names) for rival in named(better)]
        left = len(better) - len(ratios)
        more = f" {count(left, 'device')} between the last two {'is' if left == 1 else 'are'} in the table." if left else ""
        yield f"It is {listed(ratios)}; brackets have 95% intervals.{more}"
    if equal:
        yield f"It is as good within {DEFAULT_MARGIN:.0%} as {shortened([names[rival.place] for rival in equal])}."
    undecided = [names[rival.place] for rival in one.of("undecided", "slower")]
    if undecided:
        yield f"Undecided against {shortened(undecided)}: intervals that include run-to-run variation overlap."
    reasons: dict[str, list[str]] = {}
    for place, why in one.objections:
        reasons.setdefault(why, []).append(names[place])
    if reasons:
        yield f"Not compared: {'; '.join(f'{shortened(of)} ({why})' for why, of in reasons.items())}."
    sources = [
        names[rival.place]
        for rival in (*better, *equal)
        if found.pairs.are_other_kernels(one.best, rival.place, (one.line.benchmark,))
    ]
    if sources:
        yield f"Kernels of the same version but another source measured {shortened(sources)}."


def _ratio_with_interval(rival: Rival, names: Sequence[str]) -> str:
    gain, size = rival.found.gain, f" at {rival.size}" if rival.size else ""
    ends = f"{format_value(gain.low)} to {format_value(gain.high)}"
    return f"{format_value(gain.value)} times as good as {names[rival.place]}{size} ({ends})"


def _remark(cell: ScorecardCell) -> str:
    """The size that a value was measured at, where it depends on one, and its fraction of the peak."""
    return ", ".join(filter(None, (cell.size, f"{cell.fraction:.0%} of {cell.peak_name}" if cell.fraction is not None else "")))


def named(rivals: Sequence[Rival]) -> list[Rival]:
    """The rivals that a sentence names: all, or of many the first few and the last."""
    return list(rivals) if len(rivals) <= MAX_NAMED_RIVALS else [*rivals[: MAX_NAMED_RIVALS - 1], rivals[-1]]


def listed(texts: Sequence[str]) -> str:
    """Texts as a list in a sentence."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def shortened(names: Sequence[str], most: int = MAX_NAMED_RIVALS) -> str:
    """Names as a list in a sentence, of many the first few and the number of the others."""
    if len(names) <= most:
        return listed(names)
    return listed([*names[: most - 1], count(len(names) - most + 1, "other" if most > 1 else "device")])


def runtime_details(found: Scorecard) -> list[str]:
    """A sentence for each two columns that are a CPU of one model with as many compute units, under different platforms, of
    MAX_PAIRS of them at most. That it is the same machine cannot be known from runs, and is not claimed."""
    devices = found.devices
    pairs = [(a, b) for a, b in combinations(range(len(devices)), 2) if _is_one_cpu(devices[a], devices[b])]
    said = [text for a, b in pairs[:MAX_PAIRS] for text in _runtime_detail(found, a, b)]
    left = len(pairs) - MAX_PAIRS
    more = f"{count(left, 'more pair')} of such columns {'is' if left == 1 else 'are'} in the table."
    return [*said, more] if left > 0 else said


def _is_one_cpu(one: DeviceInfo, other: DeviceInfo) -> bool:
    alike = (one.kind, one.cpu_id, one.compute_units) == (other.kind, other.cpu_id, other.compute_units)
    return alike and one.kind == "cpu" and bool(one.cpu_id) and not is_same_platform(one, other)


def _runtime_detail(found: Scorecard, a: int, b: int) -> Iterator[str]:
    lines = [(line, found.pairs.decide(line, b, a)) for line in found.lines if line.better]
    decided = [(line.name, one) for line, one in lines if one is not None]
    better = sorted(((one.gain.value, name) for name, one in decided if one.verdict == "faster"), reverse=True)
    worse = sorted(((1 / one.gain.value, name) for name, one in decided if one.verdict == "slower"), reverse=True)
    if not better and not worse:
        return
    names = short_names(found.labels)
    told = [_better_in(better, names[a]), _better_in(worse, names[b])]
    left = len(decided) - len(better) - len(worse)
    rest = f"; {count(left, 'quantity', 'quantities')} the same or undecided" if left else ""
    layer = _layer(found.devices[a], found.devices[b])
    yield f"One CPU model under two runtimes: {' and '.join(filter(None, told))}{rest}.{layer}"


def _layer(one: DeviceInfo, other: DeviceInfo) -> str:
    """What two runtimes of one driver differ in."""
    if {one.runtime, other.runtime} != {"opencl", "sycl"} or one.driver != other.driver:
        return ""
    return (
        " Both run kernels by the same driver: times of kernels should agree, and differ where the host disturbed one of the "
        "runs. run --runtime opencl,sycl measures both interleaved, and the cost of SYCL's layer."
    )


def _better_in(ratios: Sequence[tuple[float, str]], name: str) -> str:
    if not ratios:
        return ""
    most = ", ".join(f"{quantity}: {format_value(ratio)} times" for ratio, quantity in ratios[:3])
    return f"{name} is better in {count(len(ratios), 'quantity', 'quantities')} ({most})"
