"""Ratios of our values to those of peers at the same points of one run, and the best peer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis import stats
from clmembench.analysis.derive import Derived
from clmembench.model import BenchmarkInfo, Placement
from clmembench.model.metrics import more_is_better

MAX_OTHERS_CPU = 0.2  # of a CPU, used by other processes: a ratio is then partly of what they did


@dataclass(frozen=True, slots=True)
class PeerRatio:
    """A value of ours and a peer's of the same point. `ratio` is ours over the peer's, turned so that above 1 ours is better;
    None where either has no value, and `reason` says which. `busy`: the share of the CPU that other processes used, where it
    was so much that the ratio is weaker than it looks."""

    ours: Derived
    peer: Derived
    ratio: stats.Ratio | None
    reason: str = ""
    busy: float = 0.0


@dataclass(frozen=True, slots=True)
class Spreads:
    """How much the logarithm of a ratio is expected to differ between processes: of what takes its time on the device, and of
    what is as short as a launch, `short_ns`, which is the host's doing too."""

    device: float
    host: float
    short_ns: float

    def of(self, pair: tuple[Derived, Derived]) -> float:
        """That of a pair of values: what is a slope, and takes no time by itself, is the device's."""
        return self.host if any(0 < value.pass_ns < self.short_ns for value in pair) else self.device


def peer_ratios(values: Sequence[Derived], cards: Mapping[str, BenchmarkInfo], spreads: Spreads) -> list[PeerRatio]:
    """Every value of ours with every peer's of its point and metric, in their order; judged before (gates).

    A peer's point is that of ours where all of its parameters have the same values: what it has no parameter for, such as a
    variant or a format, is our own choice. Only points on the whole device have peers.
    """
    theirs: dict[tuple[str, str], list[Derived]] = {}
    for value in values:
        if value.benchmark in cards and cards[value.benchmark].peer_of:
            theirs.setdefault((cards[value.benchmark].peer_of, value.metric), []).append(value)
    found = []
    for ours in values:
        if ours.place != Placement() or ours.benchmark not in cards or cards[ours.benchmark].peer_of:
            continue
        for peer in theirs.get((ours.benchmark, ours.metric), ()):
            if all(name in ours.params and ours.params[name] == value for name, value in peer.params.items()):
                found.append(_beside(ours, peer, spreads))
    return found


def _beside(ours: Derived, peer: Derived, spreads: Spreads) -> PeerRatio:
    for value, whose in ((ours, "ours"), (peer, "the peer's")):
        if value.status != "ok" or value.median is None or not value.medians or min(value.medians) <= 0:
            return PeerRatio(ours, peer, None, f"{whose} is {value.status}{': ' + value.reason if value.reason else ''}")
    mine, other = (dict(zip(v.measured_in, v.medians, strict=True)) for v in (ours, peer))
    both = sorted(set(mine) & set(other))
    if not both:
        return PeerRatio(ours, peer, None, "no process measured both")
    pairs = [(other[p], mine[p]) if more_is_better(ours.better) else (mine[p], other[p]) for p in both]
    ratio = stats.paired_ratio([a for a, _ in pairs], [b for _, b in pairs], spreads.of((ours, peer)))
    busy = max(ours.others, peer.others)
    return PeerRatio(ours, peer, ratio, busy=busy if busy > MAX_OTHERS_CPU else 0.0)


def by_best(pairs: Sequence[PeerRatio]) -> list[PeerRatio]:
    """The pairs of one value of ours, the best peer first and those without a ratio last."""
    higher = bool(pairs) and more_is_better(pairs[0].ours.better)
    good = [pair for pair in pairs if pair.ratio is not None]
    good.sort(key=lambda pair: pair.peer.median or 0.0, reverse=higher)
    return good + [pair for pair in pairs if pair.ratio is None]


def grouped(pairs: Sequence[PeerRatio]) -> list[list[PeerRatio]]:
    """One list for each value of ours, each as `by_best` has it."""
    groups: dict[tuple[object, ...], list[PeerRatio]] = {}
    for pair in pairs:
        groups.setdefault((pair.ours.key, pair.ours.metric), []).append(pair)
    return [by_best(group) for group in groups.values()]
