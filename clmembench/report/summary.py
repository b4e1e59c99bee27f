"""What a person wants to know at the end of a run: sections of a few lines each, and warnings with advice."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from clmembench.gates.point import DRIFT
from clmembench.host import checks
from clmembench.model import CHASE, Card, Run
from clmembench.model.direction import gain
from clmembench.report import studies
from clmembench.report.rows import Row, interval, percent
from clmembench.report.section import Reasons, Section, columns
from clmembench.report.sections import peer_values
from clmembench.report.sections.level_table import cycles_cell, levels_section
from clmembench.specs.sheets import SpecSheet
from clmembench.units import count, format_bytes, format_in, format_param, format_params, format_value

OTHERS = 0.05  # of all CPUs: what a host's own services take
NOISY = 0.05
CORES = 0.9
LARGE = 64 << 20  # bytes that a pass moves: beside them a launch's idle ends are nothing


def sections(run: Run, table: Sequence[Row]) -> list[Section]:
    """A section or two a benchmark, in file order: levels where it has a growing axis, else its points at the largest size; and
    its points over compute units. A study has its own sections. What a hierarchy is inferred from is not for people,
    and references have a section with ours (peers)."""
    found = []
    ours = {name: card for name, card in run.header.benchmarks.items() if not card.peer_of}
    for name, card in ours.items():
        everywhere, placed = split([row for row in table if row.value.benchmark == name != CHASE])
        own = studies.tables(name)
        if everywhere and own is not None:
            found += own(run, everywhere)
        elif everywhere:
            found.append(levels_section(run, name, card, everywhere) if card.growing else _points(name, card, everywhere))
        if placed:
            found.append(_scaling(name, card, placed, run.header.device.kind))
    return found


def split(table: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Rows on the whole device, and those of a study over compute units beside them. Where a user asked for all points on some
    compute units there is no such study."""
    whole = [row for row in table if row.value.place.compute_units is None]
    placed = [row for row in table if row.value.place.compute_units is not None]
    return (whole, placed) if whole else (placed, [])


def _points(name: str, card: Card, mine: Sequence[Row]) -> Section:
    """A line for each point at the largest size: what differs between points, the headline metric, then the others."""
    sizes = [row.value.params.get("array_bytes") for row in mine]
    largest = max((s for s in sizes if isinstance(s, int)), default=None)
    points = _by_point([row for row in mine if largest is None or row.value.params.get("array_bytes") == largest])
    heads = [point[0] for point in points]
    varying, title = _varying(card.summary, heads)
    first = {row.value.metric for row in heads}
    others = list(dict.fromkeys(row.value.metric for point in points for row in point[1:] if row.value.metric not in first))
    cycles = any(row.value.cycles for row in heads)
    fractions = any(row.fraction for row in heads)
    tuned = [n for n in card.tuning if any(n in row.value.tuning for row in heads)]
    found, reasons = [], Reasons()
    for point in points:
        row, value = point[0], point[0].value
        cells = [_cell(n, value.params.get(n)) for n in varying]
        more = {r.value.metric: r for r in point[1:]}
        if value.median is None or row.status != "ok":
            cells += [row.status, reasons.number(row.reason)] + [""] * (cycles + fractions + len(others))
        else:
            cells += [format_in(value.median, value.unit), interval(value)]
            cells += [cycles_cell(value.cycles)] * cycles + [percent(row.fraction)] * fractions
            cells += [_median(more.get(metric)) for metric in others]
        cells += ["/".join(str(value.tuning.get(n, "")) for n in tuned)] * bool(tuned)
        found.append(tuple(cells))
    header = [f"{name}: {varying[0]}" if varying[0] else name, *varying[1:], "median", "95% interval"]
    header += ["cycles"] * cycles + ["of peak"] * fractions + others + [f"best {'/'.join(tuned)}"] * bool(tuned)
    notes = dict.fromkeys(note for row in heads for note in row.value.notes)
    return Section(title, columns(tuple(header), left=len(varying)), tuple(found), (*reasons.notes(), *notes))


def _scaling(name: str, card: Card, mine: Sequence[Row], kind: str) -> Section:
    """The headline metric of one point over compute units, beside that on the fewest of them: how many times faster, or of the
    cost of one operation how many times dearer."""
    heads = [point[0] for point in _by_point(mine)]
    good = [row for row in heads if row.status == "ok" and row.value.median]
    least = min(good, key=lambda row: row.value.place.compute_units or 0, default=None)
    dearer = any(m.form == "slope" for m in card.metrics if heads and m.name == heads[0].value.metric)
    named = any(row.value.place.placement for row in heads)
    found, reasons = [], Reasons()
    for row in heads:
        value, place = row.value, row.value.place
        cells = [str(place.compute_units)] + [place.placement] * named
        if value.median is None or row.status != "ok" or least is None:
            cells += [row.status, reasons.number(row.reason), ""]
        else:
            assert least.value.median
            times = value.median / least.value.median
            cells += [format_in(value.median, value.unit), interval(value)]
            cells += [format_value(times if dearer else gain(times, value.better))]
        used = f"{value.cpu_over_wall:.2f}" if value.cpu_over_wall is not None else ""
        found.append(tuple(cells + [used] * (kind == "cpu")))
    units = "compute units" if kind == "cpu" else "work-groups"
    params = {
        k: v
        for k, v in (heads[0].value.params if heads else {}).items()
        if k not in ("compute_units", "work_groups", "placement", card.x)
    }
    if card.x in ("array_bytes", "n", "matrix") and heads and card.x in heads[0].value.params:
        params[card.x] = heads[0].value.params[card.x]
    over = f" over {least.value.place.compute_units}" if least is not None and least is not heads[0] else ""
    header = (f"{name}: {units}",) + ("placement",) * named
    header += ("median", "95% interval", ("cost ratio" if dearer else "speed-up") + over) + ("CPU/wall",) * (kind == "cpu")
    of = f": {format_params(params)}" if params else ""
    return Section(f"{name} over {units}{of}.", columns(header, left=1 + named), tuple(found), reasons.notes())


def _by_point(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of one point together, its headline metric first."""
    points: dict[str, list[Row]] = {}
    for row in rows:
        value = row.value
        points.setdefault(repr((value.benchmark, value.params, value.tuning, value.place)), []).append(row)
    return list(points.values())


def _varying(summary: str, heads: Sequence[Row]) -> tuple[list[str], str]:
    """The parameters that differ between points, and the summary with those that do not."""
    names = list(dict.fromkeys(name for row in heads for name in row.value.params))
    values = {name: {repr(row.value.params.get(name)) for row in heads} for name in names}
    varying = [name for name in names if len(values[name]) > 1]
    if not varying:  # one point: say which, where its size is not the title's
        varying = [name for name in names if name != "array_bytes"]
    same = {name: heads[0].value.params[name] for name in names if name not in varying}
    here = f"; here {format_params(same)}" if same else ""
    return varying or [""], f"{summary.rstrip('.')}{here}."


def _cell(name: str, value: object) -> str:
    return "" if value is None else format_param(name, value)


def _median(row: Row | None) -> str:
    if row is None or row.value.median is None or row.status != "ok":
        return "–" if row is None or row.status == "ok" else row.status
    share = f" ({percent(row.fraction)})" if row.fraction is not None else ""
    return format_in(row.value.median, row.value.unit) + share


def warnings(run: Run, table: Sequence[Row], sheet: SpecSheet | None) -> list[str]:
    """What makes this run's numbers weaker than they look, each with what to do about it."""
    device, host = run.header.device, run.header.host
    table = peer_values.without_peers(run, table)  # what is odd about another library stands beside its values
    found: list[str] = list(run.notes)
    for status, advice in (
        ("failed", "see show --json for each reason"),
        ("timeout", "raise --timeout, or look for what hangs"),
        ("wrong", "the device computed a wrong result: suspect its driver; no number is shown for these"),
        ("suspect", "not counted as results; show --json has each one's gate and reason"),
        ("undetermined", "the effect, if there is one, is smaller than the noise"),
    ):
        hit = [point[0] for point in _by_point([row for row in table if row.status == status])]
        if hit:
            points = f"{count(len(hit), 'point')} {'is' if len(hit) == 1 else 'are'}"
            where = f"{hit[0].value.benchmark} {format_params(dict(hit[0].value.params))}"
            why = ": ".join(filter(None, (hit[0].value.gate, hit[0].reason)))
            found.append(f"{points} {status} (first: {where}: {why}): {advice}")
    trials = [r for r in run.records if r.role == "tune" and r.status in ("wrong", "failed", "timeout")]
    if trials:
        where = f"{trials[0].benchmark} {format_params(dict(trials[0].params))}: {trials[0].status}: {trials[0].reason}"
        found.append(f"{count(len(trials), 'tuning trial')} gave no value (first: {where}): those shapes were not considered")
    moves = [r.core_clock.moved for r in run.records if r.core_clock is not None and r.core_clock.moved > DRIFT]
    if moves:
        found.append(
            f"the core clock moved by over {DRIFT:.0%} during {count(len(moves), 'measurement')} "
            f"(at most {max(moves):.0%}): fix the clock or quieten the host; intervals there are as much wider"
        )
    found += _crowded(run)
    wide = [row for row in table if row.status == "ok" and row.value.ci_high is not None and _half_width(row) > NOISY]
    if wide:
        points = count(len(_by_point(wide)), "point")
        found.append(f"{points} with a 95% interval wider than +-{NOISY:.0%}: quieten the host")
    found += _cores(run, table) if device.kind == "cpu" else []
    sizes = [row.value.params.get("array_bytes") for row in table if row.value.unit == "GB/s"]
    arrays = [size for size in sizes if isinstance(size, int)]
    if device.cache_bytes and arrays and max(arrays) < 4 * device.cache_bytes:
        found.append(
            f"the largest arrays, {format_bytes(max(arrays))}, are under four times the claimed cache of "
            f"{format_bytes(device.cache_bytes)}: bandwidth may be partly the cache's; raise --size"
        )
    found += [f"at the start: {complaint}" for complaint in checks.complaints(device, host, run.header.sensors)]
    if sheet is None:
        found.append(f"no spec sheet matches {device.name}: no fraction of peak; add one to platforms/")
    few = min((row.value.processes for row in table if row.value.processes > 1), default=6)
    if few < 6:
        found.append(
            f"intervals over {few} processes are their range, which covers {1 - 2 / 2**few:.0%}: use --processes 6 for 95%"
        )
    if table and all(row.value.processes <= 1 for row in table):
        found.append(
            "intervals are within one process; fresh ones often differ by more in cache-sensitive points: use --processes 6"
        )
    return found


def _cores(run: Run, table: Sequence[Row]) -> list[str]:
    """Points over much memory that did not get all cores: their bandwidth is of fewer cores than it says."""
    units, suites = run.header.device.compute_units, {name: card.suite for name, card in run.header.benchmarks.items()}
    slow = [
        point[0].value
        for point in _by_point([row for row in table if row.value.place.compute_units is None])
        if suites[point[0].value.benchmark] != "link" and point[0].value.nbytes >= LARGE
    ]
    slow = [value for value in slow if value.cpu_over_wall and value.cpu_over_wall < CORES * units]
    if not slow:
        return []
    least = min(slow, key=lambda value: value.cpu_over_wall or 0)
    return [
        f"{count(len(slow), 'point')} over large arrays used less than {CORES:.0%} of {units} compute units "
        f"(least {least.cpu_over_wall:.2f}: {least.benchmark} {format_params(dict(least.params))}): "
        "other programs took the CPU, or the runtime did not use all threads"
    ]


def _crowded(run: Run) -> list[str]:
    """Who else used the host's CPUs during which benchmark, where that was much: the mean over its records."""
    shares: dict[str, dict[str, list[float]]] = {"others": {}, "stolen": {}}
    for record in run.records:
        for name, share in (("others", record.cpu_others), ("stolen", record.cpu_stolen)):
            if share is not None:
                shares[name].setdefault(record.benchmark, []).append(share)
    means = {name: {b: statistics.fmean(found) for b, found in of.items()} for name, of in shares.items()}
    busy = {name: {b: share for b, share in of.items() if share > OTHERS} for name, of in means.items()}
    who = {"others": "other processes used", "stolen": "the hypervisor's other guests took"}
    advice = {"others": "stop them, or measure again later", "stolen": "measure on a host of your own"}
    return [
        f"{who[name]} {', '.join(f'{share:.0%} of the CPU during {b}' for b, share in of.items())}: {advice[name]}"
        for name, of in busy.items()
        if of
    ]


def _half_width(row: Row) -> float:
    value = row.value
    assert value.median is not None and value.ci_low is not None and value.ci_high is not None
    return (value.ci_high - value.ci_low) / 2 / abs(value.median)
