"""Our values and those of the host's peers: a section of a summary, and how both were timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from clmembench.analysis.derive import Derived
from clmembench.analysis.noise import PROCESS_SD
from clmembench.analysis.peers import PeerRatio, Spreads, grouped, peer_ratios
from clmembench.model import Run, Value
from clmembench.report.frame import Row
from clmembench.report.table import Table, columns
from clmembench.units import format_in, format_params, format_value

TITLE = "Comparison with this host's peers: ours is better where the whole interval is above 1."
HEAD = ("what", "ours", "peer", "its value", "ours / peer", "95% interval")
MAX_SHORT_PASS_NS = 1e4  # a pass this short consists mostly of launch jitter
MAX_INTERVAL_RATIO = 4.0  # upper over lower end of an interval, from half to twice: a wider one decides nothing
CLOCK_NOTES = {
    "device": "ours: event profiling, from the start of the first command of a pass to the end of its last",
    "host": "ours: host clock, from the first call until the host knows that all commands have completed",
    "queue": "ours: queueing delay, by event profiling",
}
GAPS_NOTE = "the passes of a peer are timed together, gaps included; each of our passes is timed on its own"


def clock_note(ours: Derived) -> str:
    """How a value of ours was timed."""
    return f"ours: {ours.facts['timed']}" if "timed" in ours.facts else CLOCK_NOTES[ours.clock]


def is_peer(run: Run, name: str) -> bool:
    """True where a benchmark of a run is a peer of another one."""
    card = run.header.benchmarks.get(name)
    return card is not None and bool(card.peer_of)


def without_peers(run: Run, table: Sequence[Row]) -> list[Row]:
    """The rows of our own benchmarks."""
    return [row for row in table if not is_peer(run, row.value.benchmark)]


def peer_ratios_of_run(run: Run, table: Sequence[Row]) -> list[PeerRatio]:
    """Every value of ours with every peer's value of its point; intervals are calibrated on runs between which nothing
    changed."""
    device = PROCESS_SD[run.header.device.kind]
    return peer_ratios(
        [row.value for row in table], run.header.benchmarks, Spreads(device, PROCESS_SD["host"], MAX_SHORT_PASS_NS)
    )


def section(run: Run, table: Sequence[Row]) -> Table | None:
    """Every point of ours that has peers, with each of them; None where the run has none."""
    groups = grouped([pair for pair in peer_ratios_of_run(run, table) if pair.ours.status != "skipped"])
    missing = _missing(run, table)
    if not groups:
        return Table(TITLE, columns(HEAD[:1]), (), missing) if missing else None
    body = []
    names = Counter(label(group[0].ours.benchmark, group[0].ours.params) for group in groups)
    for group in groups:
        ours = group[0].ours
        what = label(ours.benchmark, ours.params)
        if names[what] > 1:  # the shape alone tells them apart
            what = f"{what} {format_params(ours.tuning)}"
        for number, pair in enumerate(group):
            mine = format_in(ours.median, ours.unit) if ours.median is not None and ours.status == "ok" else ours.status
            head = (what, mine) if number == 0 else ("", "")
            body.append((*head, *peer_cells(pair)))
    return Table(TITLE, columns(HEAD), tuple(body), (*methods([p for g in groups for p in g]), *missing))


def label(benchmark: str, params: Mapping[str, Value]) -> str:
    """A point in few letters: words and sizes say by themselves what they are."""

    def told(name: str, value: Value) -> str:
        plain = isinstance(value, str) or name.endswith("_bytes")
        return format_params({name: value}).removeprefix(f"{name}=" if plain else "")

    return " ".join([benchmark, *(told(name, value) for name, value in params.items())])


def _missing(run: Run, table: Sequence[Row]) -> tuple[str, ...]:
    """Reasons why peers that seemed available have no value, each once."""
    told = {
        f"{row.value.benchmark}: {row.status}: {row.reason}"
        for row in table
        if is_peer(run, row.value.benchmark) and row.status != "ok"
    }
    return tuple(sorted(told))


def peer_cells(pair: PeerRatio) -> tuple[str, ...]:
    """The peer, its value, and ours over it with its interval."""
    peer = pair.peer
    if pair.ratio is None:
        value = format_in(peer.median, peer.unit) if peer.median is not None and peer.status == "ok" else peer.status
        return named(peer), value, "–", "–"
    ratio = pair.ratio
    value = format_in(peer.median or 0.0, peer.unit)
    if ratio.high > MAX_INTERVAL_RATIO * ratio.low:
        return named(peer), value, "undetermined", "too few rounds for their noise"
    return named(peer), value, _three(ratio.value), f"{_three(ratio.low)} to {_three(ratio.high)}"


def _three(ratio: float) -> str:
    return f"{ratio:.3f}" if 0.1 <= ratio < 10 else format_value(ratio)


def named(peer: Derived) -> str:
    """A peer's library and version, as its record has them; else the name of the reference."""
    library, version = peer.facts.get("library"), peer.facts.get("version")
    return " ".join(str(part) for part in (library, version) if part) or peer.benchmark


def methods(pairs: Sequence[PeerRatio]) -> tuple[str, ...]:
    """Timing methods of ours and of each peer, each once, and what else makes a ratio weaker than it looks."""
    clocks = dict.fromkeys(clock_note(pair.ours) for pair in pairs)
    theirs: dict[str, str] = {}
    for pair in pairs:
        facts = pair.peer.facts
        threads = (
            f", {facts['threads']} threads" if facts.get("threads", 1) != 1 else ", 1 thread" if "threads" in facts else ""
        )
        if "timed" in facts:
            theirs[f"{named(pair.peer)}{threads}"] = str(facts["timed"])
    said = [f"{name}: {how}" for name, how in theirs.items()]
    alone = any("timed" not in pair.ours.facts and "CUDA events" in str(pair.peer.facts.get("timed")) for pair in pairs)
    gaps = [GAPS_NOTE] if alone else []
    counts = {min(len(p.ours.medians), len(p.peer.medians)) for p in pairs if p.ratio is not None}
    many = f"{min(counts)} to {max(counts)}" if len(counts) > 1 else "".join(map(str, counts))
    rounds = [f"ratios are of medians of the same process round, ours and the peer's in turn; rounds: {many}"] if counts else []
    busy = max((p.busy for p in pairs), default=0.0)
    weak = [f"other processes used up to {busy:.0%} of the CPU meanwhile: believe the ratios less"] if busy else []
    notes = dict.fromkeys(note for p in pairs for note in p.peer.notes)
    return (*clocks, *said, *gaps, *rounds, *notes, *weak)
