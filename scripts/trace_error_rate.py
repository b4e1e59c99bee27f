"""Measures how often `infer` is right, wrong or silent about random simulated hierarchies; prints a Markdown table.

Wrong is: a capacity off by more than two lines or 2%; an inexact line, sector, page, number of ways, sets or entries; another
policy; a latency or penalty off by more than 5%. Latencies are compared with the recorded ones, which include the simulated
clock's constant overhead. Every property of every level that exists counts: those of a level that was not found are `missing`.
Bounds of an undetermined value are judged too: they are wrong where they exclude the truth by more than that.
Usage: python scripts/trace_error_rate.py FIRST LAST [--processes N] [--wrong] [--write]
`--write` puts the sentence and the table into docs/topology.md, the only place that has them.
Ended early (SIGTERM, SIGINT), it prints the table of what is done.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pathlib
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from clmembench.model import Accesses, CacheLevel, Finding
from clmembench.studies.hierarchy.replacement.policy_rates import ALIKE_WITH_TWO_WAYS
from clmembench.studies.traces.level_names import MEMORY, SLOWEST
from clmembench.studies.traces.traces import infer_from_traces
from tests.hierarchies import random_trace_set
from tests.simulated import Cache, Path, Tlb, tlbs_of

EXACT_PARAMETERS = {"line_bytes", "sector_bytes", "ways", "sets", "policy", "page_bytes", "entries", "reach_bytes"}
UNJUDGED = ("effective_bytes", "all_caches_bytes", "pair_bytes", "set_bits", "victim_probabilities", "prefetch_bytes")
MAX_SECONDS = 300  # for one hierarchy
DOCS = pathlib.Path(__file__).parent.parent / "docs" / "topology.md"
OUTCOMES = ("right", "wrong", "undetermined", "inconsistent", "missing")


class Row(NamedTuple):
    """One answer: the device's seed or name, the parameter, one of OUTCOMES, why there is no answer, what was said, the ground
    truth, and whether the bounds of an undetermined value hold it (None: it has none)."""

    device: int | str
    parameter: str
    outcome: str
    reason: str
    said: Any
    true: Any
    bounds_hold: bool | None = None


def accesses(columns: dict[str, Any]) -> Accesses:
    """A trace of the simulator, as the file's reader returns it."""
    first = {name: int(values[0]) for name, values in columns.items() if name != "latency"}
    return Accesses(
        str(first["trace_id"]), first["array_bytes"], first["stride_bytes"], first["step"], columns["offset_bytes"],
        columns["latency"].astype(float),
    )  # fmt: skip


def ways_of(level: Cache | Tlb) -> int | str:
    """The ways of equal sets as a number, of unequal sets as 17+6x8."""
    counts = sorted(Counter(level.sets.ways).items(), key=lambda c: -c[0])
    if len(counts) == 1:
        return counts[0][0]
    return "+".join(str(ways) if n == 1 else f"{n}x{ways}" for ways, n in counts)


def true_cache(cache: Cache, bias: float) -> dict[str, Any]:
    """Ground truth of a cache, by the names of findings."""
    return {
        "size_bytes": cache.size_bytes, "line_bytes": cache.line_bytes, "sector_bytes": cache.sector_bytes or cache.line_bytes,
        "ways": ways_of(cache), "sets": len(cache.sets.ways), "policy": cache.policy, "latency_cycles": cache.hit_cycles + bias,
    }  # fmt: skip


def true_tlbs(path: Path) -> list[dict[str, Any]]:
    """Ground truth of a path's TLBs, by the names of findings; penalties of data in the first cache that asks them."""
    return [
        {
            "entries": tlb.entries, "page_bytes": tlb.page_bytes, "reach_bytes": tlb.entries * tlb.page_bytes,
            "ways": ways_of(tlb), "sets": len(tlb.sets.ways), "policy": tlb.policy, "penalty_cycles": level["penalty_cycles"],
        }
        for tlb, level in zip(path.tlbs, tlbs_of(path, 1.0), strict=True)
    ]  # fmt: skip


def is_right(name: str, finding: Finding, true: dict[str, Any] | None) -> bool:
    """Whether an answer is near enough to the ground truth; a property that does not exist has no right answer."""
    if true is None or name not in true:
        return name not in EXACT_PARAMETERS | {"size_bytes", "latency_cycles", "penalty_cycles"}
    said, value = finding.value, true[name]
    if name == "policy" and said == "LRU" and true.get("ways") == 2 and value in ALIKE_WITH_TWO_WAYS:
        return True  # the same policy by other names
    if name in EXACT_PARAMETERS:
        return bool(said == value)
    slack = max(2 * true["line_bytes"], 0.02 * value) if name == "size_bytes" else 0.05 * abs(value)
    return bool(abs(said - value) <= slack)


def judge_hierarchy(seed: int) -> tuple[list[Row], float]:
    """All answers about one hierarchy, and their seconds."""
    machine, traces = random_trace_set(seed)
    began = time.perf_counter()
    found = infer_from_traces([accesses(t) for t in traces])
    seconds = time.perf_counter() - began
    rows: list[Row] = []
    path = machine.paths["global"]
    scale = 1 / machine.ghz if machine.in_ns else 1.0
    bias = machine.noise.bias_cycles
    caches = [true_cache(c, bias) for c in path.caches]
    levels = [level for level in found.levels if level.name not in (MEMORY, SLOWEST)]
    rows += [name_row(seed, level, number, len(path.caches)) for number, level in enumerate(found.levels)]
    for number in range(max(len(levels), len(caches))):
        findings = levels[number].findings if number < len(levels) else {}
        rows += outcomes(seed, "", findings, caches[number] if number < len(caches) else None, scale)
    memory = {n: f for level in found.levels[len(levels) :] for n, f in level.findings.items() if n == "latency_cycles"}
    rows += outcomes(seed, "", memory, {"latency_cycles": path.memory_cycles + bias}, scale)
    tlbs = true_tlbs(path)
    for number in range(max(len(found.tlb), len(tlbs))):
        findings = found.tlb[number].findings if number < len(found.tlb) else {}
        rows += outcomes(seed, "TLB ", findings, tlbs[number] if number < len(tlbs) else None, scale)
    return rows, seconds


def name_row(device: int, level: CacheLevel, number: int, caches: int) -> Row:
    """Whether a level's name is right, or leaves open which level it is."""
    true = f"L{number + 1}" if number < caches else MEMORY
    outcome = "undetermined" if level.name.endswith("seen") else "right" if level.name == true else "wrong"
    return Row(device, "name", outcome, "", level.name, true)


def outcomes(device: int | str, prefix: str, findings: Any, true: dict[str, Any] | None, scale: float) -> list[Row]:
    """The outcome of each finding of one level, and of each property that it has and no finding tells."""
    scaled = (
        None if true is None else {n: v * scale if n in ("latency_cycles", "penalty_cycles") else v for n, v in true.items()}
    )
    rows: list[Row] = []
    for name, finding in findings.items():
        if name.endswith("_ns") or name in UNJUDGED:
            continue
        value = (scaled or {}).get(name)
        outcome, hold = finding.status, None
        if outcome == "ok":
            outcome = "right" if is_right(name, finding, scaled) else "wrong"
        elif outcome == "undetermined":
            hold = bounds_hold(name, finding, scaled)
        rows.append(
            Row(
                device,
                prefix + name,
                outcome,
                finding.reason,
                finding.value if hold is None else (finding.low, finding.high),
                value,
                hold,
            )
        )
    for name in (scaled or {}).keys() - findings.keys():
        rows.append(Row(device, prefix + name, "missing", "no finding", None, (scaled or {})[name]))
    return rows


def bounds_hold(name: str, finding: Finding, true: dict[str, Any] | None) -> bool | None:
    """Whether the bounds of an undetermined value hold the truth, as far as an answer may be off; None: it has no bounds."""
    value = (true or {}).get(name)
    if (finding.low is None and finding.high is None) or not isinstance(value, int | float):
        return None
    slack = 0.0
    if name in ("size_bytes", "latency_cycles", "penalty_cycles"):
        slack = max(2 * (true or {}).get("line_bytes", 0), 0.02 * value) if name == "size_bytes" else 0.05 * abs(value)
    return (finding.low is None or finding.low <= value + slack) and (finding.high is None or finding.high >= value - slack)


def table(rows: list[Row], by: Callable[[Row], str] = lambda row: row.parameter, heading: str = "parameter") -> str:
    """A Markdown table by parameter, or by what `by` says."""
    lines = [f"| {heading} | answers | ok and right | ok and wrong | undetermined | inconsistent | missing | bounds, wrong |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in [*sorted({by(r) for r in rows}), "all"]:
        chosen = [r for r in rows if name in (by(r), "all")]
        own, total = Counter(r.outcome for r in chosen), len(chosen)
        shares = " | ".join(f"{own[k]} ({own[k] / total:.1%})" for k in OUTCOMES)
        bounded = [r for r in chosen if r.bounds_hold is not None]
        lines.append(f"| {name} | {total} | {shares} | {len(bounded)}, {sum(not r.bounds_hold for r in bounded)} |")
    return "\n".join(lines)


def sentence(rows: Sequence[Row], what: str, done: int, asked: int) -> str:
    """What a table says in all, of how many devices."""
    own, total = Counter(r.outcome for r in rows), max(1, len(rows))
    bounds = [r.bounds_hold for r in rows if r.bounds_hold is not None]
    shares = f"{own['right'] / total:.1%} right, {own['wrong'] / total:.2%} wrong ({own['wrong']})"
    excluded = f"{sum(not hold for hold in bounds)} of {len(bounds)} bounds exclude the truth"
    return f"{what}, {done} of {asked} done in time: {len(rows)} answers, {shares}; {excluded}."


def write_block(name: str, text: str, docs: pathlib.Path = DOCS) -> None:
    """Put text between the two marks of a name in the docs. Raises ValueError where there are no such marks."""
    page = docs.read_text(encoding="utf-8")
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"{docs} has no block {name}: write {begin.strip()} and {end} on lines of their own")
    before, rest = page.split(begin)
    docs.write_text(f"{before}{begin}{text.strip()}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def try_seed(judge: Callable[[int], Any], seed: int) -> tuple[Any, str]:
    """The result of `judge` for a seed; or None, with the reason: it failed, or exceeded LONGEST."""

    def late(*_: object) -> None:
        raise TimeoutError(f"took longer than {MAX_SECONDS} s of CPU time")

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)  # of the CPU: others may use the host
    try:
        return judge(seed), ""
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return None, f"{type(error).__name__}: {error} ({pathlib.Path(where.filename).name}:{where.lineno})"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def judged(judge: Callable[[int], Any], seeds: Sequence[int], processes: int, tally: Counter[str]) -> Iterator[tuple[int, Any]]:
    """Each seed that did not fail, with its result, in the order in which results are ready. The others are listed on standard
    error; `tally` counts `done` and `failed`. SIGTERM and SIGINT end it early, so that a caller prints what is done."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to the whole group, it comes twice
        raise KeyboardInterrupt

    with ProcessPoolExecutor(processes, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
        waiting = {pool.submit(try_seed, judge, seed): seed for seed in seeds}
        signal.signal(signal.SIGTERM, end)
        try:
            for future in as_completed(waiting):
                seed, (result, why) = waiting[future], future.result()
                tally["done"] += 1
                if result is None:
                    tally["failed"] += 1
                    print(f"seed {seed}: {why}", file=sys.stderr, flush=True)
                else:
                    yield seed, result
        except (KeyboardInterrupt, BrokenProcessPool):
            print("ended early", file=sys.stderr, flush=True)
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.kill()


def print_wrong(rows: Sequence[Row]) -> None:
    """Lists wrong answers and bounds on standard error."""
    for row in rows:
        if row.outcome == "wrong" or row.bounds_hold is False:
            what = "bounds" if row.bounds_hold is False else "said"
            print(f"{row.device}: {row.parameter} {what} {row.said}, is {row.true}", file=sys.stderr, flush=True)


def main() -> None:
    """Judges the seeds of the command line and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--wrong", action="store_true", help="list what is wrong, to standard error")
    parser.add_argument("--write", action="store_true", help="put sentence and table into the docs")
    asked = parser.parse_args()
    rows: list[Row] = []
    longest, tally, seeds = 0.0, Counter[str](), range(asked.first, asked.last + 1)
    for _, (some, seconds) in judged(judge_hierarchy, seeds, asked.processes, tally):
        rows += some
        longest = max(longest, seconds)
        if asked.wrong:
            print_wrong(some)
    told = sentence(rows, f"Seeds {asked.first} to {asked.last}", tally["done"] - tally["failed"], len(seeds))
    print(f"{told}\n\n{table(rows)}\n\nThe slowest inference took {longest:.1f} s.")
    if asked.write:
        write_block("errors-of-traces", f"{told}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
