"""Tables of device_link and of the NUMA benchmarks: matrices from each to each, and the driver's path between devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clmembench.model import NODE_PLACEMENT, Finding, Run
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.report.frame import Row
from clmembench.report.table import Cell, Entry, Table, columns, noted
from clmembench.units import format_bytes, format_value

MIN_PEER_RATIO = 2.0  # times the path through pinned memory: no pipelined path through the host is so much faster than ours
MAX_STAGED_RATIO = 0.5  # of it: as where each byte waits in the host until its whole buffer or page has arrived
PEER_TO_PEER, STAGED = "peer to peer", "staged in the host"
METHOD = (
    f"bandwidth of the same bytes through pinned host memory in this run: from {MIN_PEER_RATIO:g} times of it on peer to peer, "
    f"below {MAX_STAGED_RATIO:g} times staged in the host"
)
BANDWIDTH, TIME = "device_link_bandwidth", "device_link_time"
NUMBERS = "device 0 is the one of this run; the others of its platform follow in the order of `clmembench devices`"


def device_sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """A matrix for each way that was measured between all pairs, sizes from the first device to the second, and sums."""
    whole = [row for row in rows if row.value.metric == BANDWIDTH]
    ways = list(dict.fromkeys(str(row.value.params["by"]) for row in whole))
    found = [_device_matrix(way, _pairs(whole, way)) for way in ways]
    sections = [*(table for table in found if table is not None), _sizes(rows, ways)]
    if all(row.status == "skipped" for row in whole):
        return sections
    sections.append(_at_once(whole))
    notes = [f"{way}: {_said(driver_path(run, rows, way))}" for way in ways if way != "pinned"]
    last = sections[-1]
    return [*sections[:-1], Table(last.title, last.columns, last.rows, (*last.notes, *notes, METHOD, NUMBERS))]


def driver_path(run: Run, rows: Sequence[Row], way: str) -> Finding:
    """How the driver moves a buffer from the first device to the second, by the largest size that both ways have."""
    name = f"{way}_path"
    if run.header.device.shares_host_memory:
        return undetermined_finding(name, "these devices share the host's memory: no link is between them", METHOD)
    good = {
        (str(row.value.params["by"]), int(row.value.params["array_bytes"])): row.value
        for row in rows
        if row.is_good and row.value.metric == BANDWIDTH and _route(row) == ("one", 0, 1)
    }
    sizes = sorted(size for by, size in good if by == way and ("pinned", size) in good)
    if not sizes:
        return undetermined_finding(name, f"no size was measured both by {way} and through pinned memory", METHOD)
    one, pinned = good[way, sizes[-1]], good["pinned", sizes[-1]]
    evidence = (*one.evidence, *pinned.evidence)
    if one.ci_low is None or one.ci_high is None or not pinned.ci_low or not pinned.ci_high:
        return undetermined_finding(name, "a value has no interval", METHOD, evidence)
    low, high = one.ci_low / pinned.ci_high, one.ci_high / pinned.ci_low
    path = PEER_TO_PEER if low >= MIN_PEER_RATIO else STAGED if high <= MAX_STAGED_RATIO else ""
    if not path:
        reason = f"{low:.2g} to {high:.2g} times the bandwidth through pinned memory, which both paths may reach"
        return undetermined_finding(name, reason, METHOD, evidence)
    return measured_finding(name, path, METHOD, evidence, low, high)


def numa_sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """A matrix for each policy: cores of a node down, memory of a node across."""
    names = {"first_touch": "first touch", "mbind": "mbind"}
    policies = dict.fromkeys(str(row.value.params["policy"]) for row in rows)
    return [
        matrix(
            f"{rows[0].value.benchmark}: from the cores of a node to the memory of a node, by {names.get(policy, policy)}",
            [row for row in rows if row.value.params["policy"] == policy],
            ("cores of node", node_of_cores),
            ("memory of node", node_of_memory),
        )
        for policy in policies
    ]


def node_of_cores(row: Row) -> int:
    """The node whose CPUs measured; 0 where the process had no placement."""
    return int(row.value.place.placement.removeprefix(NODE_PLACEMENT) or 0)


def node_of_memory(row: Row) -> int:
    """The node whose memory was read."""
    return int(row.value.params["memory_node"])


def matrix(
    title: str, rows: Sequence[Row], first: tuple[str, Callable[[Row], int]], second: tuple[str, Callable[[Row], int]]
) -> Table:
    """Values over two numbered things: a line for each of the first, a column for each of the second."""
    down, across = (sorted({of(row) for row in rows}) for _, of in (first, second))
    cells = {(first[1](row), second[1](row)): value_cell(row) for row in rows}
    unit = next((row.value.unit for row in rows if row.is_good), "")
    lines = tuple((str(a), *(cells.get((a, b), "–") for b in across)) for a in down)
    header = (first[0], *(f"{second[0]} {b}" for b in across))
    return noted(Table(f"{title}, in {unit}." if unit else f"{title}.", columns(header), lines))


def value_cell(row: Row) -> Entry:
    """A value with its interval, or the status and its reason."""
    value = row.value
    if not row.is_good or value.median is None:
        return Cell(row.status, reason=row.reason)
    bounds = "" if value.ci_low is None else f"({format_value(value.ci_low)} to {format_value(value.ci_high)})"
    return Cell(format_value(value.median), more=(bounds,) if bounds else (), value=value.median)


def _route(row: Row) -> tuple[str, int, int]:
    p = row.value.params
    return str(p["traffic"]), int(p["sender"]), int(p["receiver"])


def _pairs(rows: Sequence[Row], way: str) -> list[Row]:
    """Rows of one direction of every pair, at the largest size that all pairs have."""
    mine = [row for row in rows if row.value.params["by"] == way and row.value.params["traffic"] == "one"]
    sizes = [{int(r.value.params["array_bytes"]) for r in mine if _route(r) == route} for route in {_route(r) for r in mine}]
    common = set.intersection(*sizes) if sizes else set()
    return [row for row in mine if common and row.value.params["array_bytes"] == max(common)]


def _device_matrix(way: str, rows: Sequence[Row]) -> Table | None:
    if len({_route(row) for row in rows}) < 2:
        return None
    size = format_bytes(int(rows[0].value.params["array_bytes"]))
    title = f"device_link: {size} from device to device by {way}"
    return matrix(title, rows, ("from", lambda row: _route(row)[1]), ("to", lambda row: _route(row)[2]))


def _sizes(rows: Sequence[Row], ways: Sequence[str]) -> Table:
    """Bandwidth and time from the first device to the second one, a line for each size."""
    cells: dict[int, dict[tuple[str, str], Entry]] = {}
    for row in rows:
        if _route(row) == ("one", 0, 1):
            size, key = int(row.value.params["array_bytes"]), (str(row.value.params["by"]), row.value.metric)
            shown = format_value(row.value.median) if row.is_good else Cell(row.status, reason=row.reason)
            cells.setdefault(size, {})[key] = shown
    kinds = [(way, metric) for way in ways for metric in (BANDWIDTH, TIME)]
    header = ("device_link: bytes", *(f"{way}, {'GB/s' if metric == BANDWIDTH else 'us'}" for way, metric in kinds))
    lines = tuple((format_bytes(size), *(line.get(kind, "–") for kind in kinds)) for size, line in sorted(cells.items()))
    title = "From device 0 to device 1, until a kernel there has read the last word."
    return noted(Table(title, columns(header), lines))


def _at_once(rows: Sequence[Row]) -> Table:
    """Sums of both directions of a pair, and of all pairs."""
    several = [row for row in rows if row.value.params["traffic"] != "one"]
    named = {"both": "both directions", "all": "all pairs"}
    lines = tuple(
        (
            named[_route(row)[0]],
            "–" if _route(row)[0] == "all" else f"{_route(row)[1]} and {_route(row)[2]}",
            str(row.value.params["by"]),
            format_bytes(int(row.value.params["array_bytes"])),
            value_cell(row),
        )
        for row in several
    )
    header = ("device_link: at once", "devices", "by", "bytes each", "sum, GB/s")
    return noted(Table("Several copies at once, all of their bytes.", columns(header, left=3), lines))


def _said(finding: Finding) -> str:
    return str(finding.value) if finding.status == "ok" else f"undetermined: {finding.reason}"
