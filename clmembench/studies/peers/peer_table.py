"""Ours, the best peer of the host and the theoretical limit: a table for people and an object for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from clmembench.analysis.derive import Derived
from clmembench.analysis.peers import PeerRatio, by_best
from clmembench.benchmarks import discovered
from clmembench.model import PORTABLE_KERNEL_VALUES, DeviceInfo, Fact, Placement, Run, Status, Value
from clmembench.model.metrics import sign
from clmembench.model.record import TIME_SPENT_CAUSES
from clmembench.report.frame import Row
from clmembench.report.json_outputs import Number
from clmembench.report.sections.peer_values import clock_note, is_peer, label, methods, peer_cells, peer_ratios_of_run
from clmembench.report.table import Table, columns
from clmembench.report.views import interval, percent
from clmembench.results.tuned import UNFINISHED
from clmembench.specs.sheets import Peak
from clmembench.units import format_in, format_params

COLUMNS = ("what", "ours", "our variant", "best peer", "its value", "ours / peer", "95% interval", "limit", "of limit")
# the table's problems in order: the parameters that identify a row; of all others the best choice is shown
PARAMETERS_OF_LINE: Mapping[str, tuple[str, ...]] = {
    "dgemm": ("dtype", "n"),
    "gemm": ("dtype", "n"),
    "spmv": ("matrix",),
    "stream": ("op", "dtype", "array_bytes"),
    "reduction": ("n",),
    "transfer": ("direction", "memory", "array_bytes"),
    "launch": ("groups",),
    "launch_wait": ("groups",),
    "launch_dispatch": ("groups",),
    "arithmetic": ("dtype",),
    "local_read": (),
    "cache_read": ("set", "set_bytes"),
    "mnf_covariance": ("of", "size"),
}
METRIC_OF_LINE = {"spmv": "bandwidth", "reduction": "bandwidth"}  # that a line is of, where it is not the headline


@dataclass(frozen=True, slots=True)
class PeerLine:
    """One row of the table: the problem, our value, why this one, the theoretical limit, and the libraries, best first; and
    other variants of ours that should have a value and have none, with the reason, since one of them may be better."""

    benchmark: str
    what: Mapping[str, Value]
    choice: str  # best, portable, or the format that a peer has
    ours: Row
    peers: tuple[PeerRatio, ...]
    without: tuple[str, ...] = ()

    @property
    def limit(self) -> Peak | None:
        return self.ours.peak


@dataclass(frozen=True, slots=True)
class ValueObject:
    """A value of a benchmark of ours or of a peer."""

    benchmark: str
    status: Status | Literal["undetermined"]
    reason: str
    metric: str
    unit: str
    median: Number
    ci_low: Number
    ci_high: Number
    interval: str | None
    process_medians: Sequence[float]


@dataclass(frozen=True, slots=True)
class PeerObject(ValueObject):
    """A peer on the same problem."""

    facts: Mapping[str, Value]
    verified: bool
    ratio: Number
    ratio_low: Number
    ratio_high: Number
    peer_reason: str
    other_processes_cpu: float


@dataclass(frozen=True, slots=True)
class PeerLineObject(ValueObject):
    """A problem: our value, the theoretical limit and every peer's."""

    what: Mapping[str, Value]
    choice: str
    params: Mapping[str, Value]
    tuning: Mapping[str, Value]
    clock: str
    limit: Number
    limit_source: str | None
    fraction_of_limit: Number
    without: Sequence[str]
    peers: list[PeerObject]


@dataclass(frozen=True, slots=True)
class PeersObject:
    """Ours and the host's libraries and programs on the same problems."""

    started: str
    device: str
    platform: str
    driver: str
    host: Fact
    versions: dict[str, str]
    lines: list[PeerLineObject]


def has_peer_lines(run: Run) -> bool:
    """True where a run has a peer, or anything else that the table has a line for."""
    return any(record.benchmark in PARAMETERS_OF_LINE or is_peer(run, record.benchmark) for record in run.records)


def peer_lines(run: Run, table: Sequence[Row]) -> list[PeerLine]:
    """Every line: our best value, and where they differ the portable one and the one in the format of a peer."""
    pairs: dict[tuple[object, ...], list[PeerRatio]] = {}
    for pair in peer_ratios_of_run(run, table):
        pairs.setdefault((pair.ours.key, pair.ours.metric), []).append(pair)
    lines = []
    for benchmark, names in PARAMETERS_OF_LINE.items():
        groups = _groups(benchmark, names, table)
        for what in sorted(groups, key=lambda what: _place(benchmark, what, run.header.device)):
            mine = groups[what]
            without = tuple(f"{_variant(r, what)} {r.status}: {r.reason}" for r in mine if _is_missed(r))
            chosen = _chosen(mine, {(r.value.key, r.value.metric): pairs.get((r.value.key, r.value.metric), []) for r in mine})
            for choice, row in chosen:
                peers = by_best(pairs.get((row.value.key, row.value.metric), []))
                lines.append(PeerLine(benchmark, dict(what), choice, row, tuple(peers), without if choice == "best" else ()))
    return lines


def _place(benchmark: str, what: Iterable[tuple[str, Value]], info: DeviceInfo) -> tuple[tuple[bool, float], ...]:
    """Where a line stands among its benchmark's: numbers by size, words as their axis has them. Runs of limited time measure
    points in another order."""
    known = discovered().get(benchmark)

    def place(name: str, value: Value) -> tuple[bool, float]:
        if not isinstance(value, str):
            return False, float(value)
        words = list(known.axes[name].values(info)) if known is not None and name in known.axes else []
        return True, words.index(value) if value in words else len(words)

    return tuple(place(name, value) for name, value in what)


def _variant(row: Row, what: Iterable[tuple[str, Value]]) -> str:
    return format_params({name: value for name, value in row.value.params.items() if name not in dict(what)})


def _is_missed(row: Row) -> bool:
    """Whether a point has no value although the device can measure it."""
    return not row.is_good and (row.status != "skipped" or row.value.cause in TIME_SPENT_CAUSES)


def _groups(benchmark: str, names: tuple[str, ...], table: Sequence[Row]) -> Mapping[tuple[tuple[str, Value], ...], list[Row]]:
    """The rows of each line, one metric each: of a point that has no value its reason alone."""
    wanted = METRIC_OF_LINE.get(benchmark)
    groups: dict[tuple[tuple[str, Value], ...], list[Row]] = {}
    seen: set[tuple[object, ...]] = set()
    mine = [row for row in table if row.value.benchmark == benchmark and row.value.place == Placement()]
    known = {row.value.metric for row in mine}
    for row in mine:
        value = row.value
        if (wanted in known and value.metric != wanted and row.status == "ok") or value.key in seen:
            continue
        seen.add(value.key)
        what = tuple((name, value.params[name]) for name in names if name in value.params)
        groups.setdefault(what, []).append(row)
    return groups


def _chosen(mine: Sequence[Row], pairs: Mapping[tuple[object, ...], list[PeerRatio]]) -> list[tuple[str, Row]]:
    good = [row for row in mine if row.is_good]
    if not good:
        return [("none", mine[0])]
    best = _best(good)
    chosen = [("best", best)]
    portable = [row for row in good if PORTABLE_KERNEL_VALUES & set(row.value.params.values())]
    if portable and best not in portable:
        chosen.append(("portable", _best(portable)))
    formats = {
        (name, str(fact))
        for found in pairs.values()
        for pair in found
        for name, fact in pair.peer.facts.items()
        if name in pair.ours.params and name not in pair.peer.params
    }
    for name, fact in sorted(formats):
        like = [row for row in good if str(row.value.params.get(name, "")).startswith(fact)]
        if like and best not in like:
            chosen.append((fact, _best(like)))
    return chosen


def _best(rows: Sequence[Row]) -> Row:
    return max(rows, key=lambda row: sign(row.value.better) * (row.value.median or 0.0))


def cells(line: PeerLine) -> tuple[str, ...]:
    """The cells of a line, by COLUMNS."""
    value = line.ours.value
    own = _variant(line.ours, line.what.items())
    mine = format_in(value.median, value.unit) if value.median is not None and line.ours.status == "ok" else line.ours.status
    peers = peer_cells(line.peers[0]) if line.peers else ("–", "–", "–", "–")
    limit = (
        (format_in(line.limit.value, line.limit.unit), percent(line.ours.fraction)) if line.limit is not None else ("–", "–")
    )
    return (_what(line), mine, own or "–", *peers, *limit)


def _what(line: PeerLine) -> str:
    what = label(line.benchmark, line.what)
    return what if line.choice in ("best", "none") else f"{what}, {line.choice}"


def peer_section(run: Run, lines: Sequence[PeerLine]) -> Table:
    """The table, with the device, versions and methods in its notes."""
    header, device = run.header, run.header.device
    pairs = [pair for line in lines for pair in line.peers]
    clocks = tuple(dict.fromkeys(clock_note(line.ours.value) for line in lines if line.ours.status == "ok"))
    limits = dict.fromkeys(
        f"limit, {format_in(line.limit.value, line.limit.unit)}: {line.limit.source}"
        + (f"; {line.limit.derived}" if line.limit.derived else "")
        for line in lines
        if line.limit is not None
    )
    packages = ", ".join(f"{name} {version}" for name, version in header.packages.items())
    made = (
        f"{header.started[:10]}, {device.name}, {device.platform} {device.driver}, host {header.host.get('cpu')}; "
        f"clmembench {header.tool_version}{', ' + packages if packages else ''}"
    )
    reasons = dict.fromkeys(f"{line.ours.value.benchmark}: {line.ours.reason}" for line in lines if line.choice == "none")
    unmeasured = [f"{_what(line)}: best of those measured, without {'; '.join(line.without)}" for line in lines if line.without]
    unmeasured += [f"{_what(line)}: {note}" for line in lines for note in line.ours.value.notes if note.startswith(UNFINISHED)]
    further = [method for method in methods(pairs) if method not in clocks]
    notes = (made, *unmeasured, *clocks, *further, *limits, *reasons)
    return Table(
        "Ours, the best peer of this host and the theoretical limit.", columns(COLUMNS), tuple(map(cells, lines)), notes
    )


def peer_object(run: Run, lines: Sequence[PeerLine]) -> PeersObject:
    """Each line with every peer and how it was timed."""
    header, device = run.header, run.header.device
    return PeersObject(
        started=header.started,
        device=device.name,
        platform=device.platform,
        driver=device.driver,
        host=header.host.get("cpu"),
        versions={"clmembench": header.tool_version, **header.packages},
        lines=[_line_object(line) for line in lines],
    )


def _line_object(line: PeerLine) -> PeerLineObject:
    value = line.ours.value
    return PeerLineObject(
        **_fields_of_value(value, line.ours.status, line.ours.reason),
        what=line.what,
        choice=line.choice,
        params=value.params,
        tuning=value.tuning,
        clock=value.clock,
        limit=line.limit.value if line.limit else None,
        limit_source=line.limit.source if line.limit else None,
        fraction_of_limit=line.ours.fraction,
        without=line.without,
        peers=[
            PeerObject(
                **_fields_of_value(pair.peer, pair.peer.status, pair.peer.reason),
                facts=pair.peer.facts,
                verified=pair.peer.checked,
                ratio=pair.ratio.value if pair.ratio else None,
                ratio_low=pair.ratio.low if pair.ratio else None,
                ratio_high=pair.ratio.high if pair.ratio else None,
                peer_reason=pair.reason,
                other_processes_cpu=pair.busy,
            )
            for pair in line.peers
        ],
    )


def _fields_of_value(value: Derived, status: str, reason: str) -> dict[str, Any]:
    """The fields of a ValueObject."""
    good = status == "ok"
    return {
        "benchmark": value.benchmark,
        "status": status,
        "reason": reason,
        "metric": value.metric,
        "unit": value.unit,
        "median": value.median if good else None,
        "ci_low": value.ci_low if good else None,
        "ci_high": value.ci_high if good else None,
        "interval": interval(value) if good else None,
        "process_medians": value.medians,
    }
