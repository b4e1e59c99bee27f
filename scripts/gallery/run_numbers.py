"""Numbers of stored runs for the pages of the gallery: each is what a command of the project prints as JSON of a run.

An expression of a page names the run, the benchmark and its parameters. One whose point is missing, ambiguous or not ok raises
MissingNumber, which names it.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import gzip
import io
import json
import math
import shlex
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clmembench import units
from clmembench.cli.commands.run import print_results
from clmembench.cli.program import app
from clmembench.report import frame, render
from clmembench.report.sections.peer_values import MAX_INTERVAL_RATIO
from clmembench.results import jsonl
from clmembench.studies.memory_divergence.views import mdm_held_out, mdm_tables
from scripts.site_tables import cells, read

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "reports"
PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
Found = Mapping[str, Any]


class MissingNumber(LookupError):
    """A number that no run holds."""


@dataclass(frozen=True, slots=True)
class Number:
    """A value with its 95% interval. A page shows it with its unit, or by one of the forms below."""

    value: float
    low: float | None
    high: float | None
    unit: str
    figures: int = 3
    peak: float | None = None  # fraction of the theoretical peak

    def __str__(self) -> str:
        return units.format_in(self.value, self.unit, self.figures)

    @property
    def bare(self) -> str:
        """Without the unit."""
        return units.format_value(self.value, self.figures)

    @property
    def interval(self) -> str:
        """The 95% interval without the unit."""
        return f"{units.format_value(self.low, self.figures)} to {units.format_value(self.high, self.figures)}"

    @property
    def ratio(self) -> str:
        """To three decimals, as ratios are."""
        return f"{self.value:.3f}"

    @property
    def ratio_interval(self) -> str:
        """To three decimals, with the interval; undetermined where the table of peers would say so."""
        if self.low is None or self.high is None or self.high > MAX_INTERVAL_RATIO * self.low:
            return "undetermined"
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    @property
    def of_peak(self) -> str:
        """The percentage of the theoretical peak."""
        if self.peak is None:
            raise MissingNumber("no theoretical peak")
        return f"{self.peak:.1%}"

    def digits(self, count: int) -> Number:
        """With so many significant digits."""
        return replace(self, figures=count)

    def to(self, unit: str) -> Number:
        """In another unit of the same kind, such as TB/s."""
        base, prefix = next((unit[1:], one) for one in (unit[0], self.unit[0]) if one in PREFIXES)
        own = self.unit.removesuffix(base)
        if own not in PREFIXES or self.unit != own + base or prefix not in PREFIXES:
            raise MissingNumber(f"{self.unit} is no {unit}")
        factor = PREFIXES[own] / PREFIXES[prefix]
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        return replace(self, value=self.value * factor, low=low, high=high, unit=unit)


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a stored table as the table shows it, with its interval."""

    text: str
    interval: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Predicted:
    """Kernels of docs/tables/kernel-predictions.csv, which scripts/validate_kernels.py makes of runs."""

    rows: Sequence[Found]

    @property
    def kernels(self) -> int:
        """Their number."""
        return len(self.rows)

    @property
    def within(self) -> int:
        """How many times lie in the interval of the prediction."""
        return sum(float(row["low_us"]) <= float(row["measured_us"]) <= float(row["high_us"]) for row in self.rows)

    def factor(self, model: str) -> str:
        """The geometric mean of the factor between the times by a model and the measured ones."""
        logs = [abs(math.log(float(row[f"{model}_us"]) / float(row["measured_us"]))) for row in self.rows]
        return units.format_value(math.exp(statistics.fmean(logs)))


def value(run: str, benchmark: str, metric: str = "", **params: object) -> Number:
    """A value of a point: the one with these parameters and no or the fewest others."""
    return _number(_point(run, benchmark, metric, params), run, "median", "ci_low", "ci_high")


def cycles(run: str, benchmark: str, metric: str = "", **params: object) -> Number:
    """A value in cycles of the core clock."""
    return replace(_number(_point(run, benchmark, metric, params), run, "cycles", "cycles_low", "cycles_high"), unit="cycles")


def energy(run: str, benchmark: str, metric: str = "", **params: object) -> Number:
    """The energy of a point's work, or the work for it."""
    found = _point(run, benchmark, metric, params)
    status = {"status": found["energy_status"], "unit": found["energy_unit"], "reason": found["energy_reason"]}
    return replace(_number({**found, **status}, run, "energy", "energy_low", "energy_high"), peak=None)


def ours(run: str, benchmark: str, choice: str = "best", **what: object) -> Number:
    """Our value on a line of the table of peers."""
    return _number(_line(run, benchmark, choice, what), run, "median", "ci_low", "ci_high")


def peer(run: str, benchmark: str, choice: str = "best", library: str = "", **what: object) -> Number:
    """The value of the best peer, or of this one, on a line of the table of peers."""
    return _number(_peer(run, benchmark, choice, library, what), run, "median", "ci_low", "ci_high")


def ratio(run: str, benchmark: str, choice: str = "best", library: str = "", **what: object) -> Number:
    """The ratio of ours to the best peer, or to this one, above 1 where ours is better."""
    return replace(_number(_peer(run, benchmark, choice, library, what), run, "ratio", "ratio_low", "ratio_high"), unit="")


def guideline(run: str, name: str) -> Number:
    """The effect of a guideline."""
    found = _only(printed("advise", run), f"{run}: guideline {name}", id=name)
    return _number(
        {**found, "status": "undetermined" if found["verdict"] == "undetermined" else "ok"}, run, "effect", "low", "high"
    )


def guidelines(run: str, verdict: str) -> int:
    """The number of guidelines with this verdict; "" counts all."""
    return sum(not verdict or one["verdict"] == verdict for one in printed("advise", run))


def mnf(run: str, key: str, part: str = "steps", **of: object) -> Number:
    """A value of the case study MNF: time_ms, gain, over_first or over_numpy of a version."""
    unit = "ms" if key.endswith("_ms") else ""
    low, high = (f"time_{end}_ms" if key == "time_ms" else f"{key}_{end}" for end in ("low", "high"))
    found = _only(printed("casestudy mnf", run)[part], f"{run}: MNF {of}", **of)
    return replace(_number(found, run, key, low, high), unit=unit)


def inferred(table: str, level: str, name: str, space: str = "global") -> Cell:
    """A value of a table of a hierarchy, which is made of a run before the pages that show it; of one that is undetermined only
    the interval is shown."""
    header, *rows = read(table)
    lines = [dict(zip(header, row, strict=True)) for row in rows]
    line = _only(lines, f"{table}: {level} {name} {space}", level=level, property=name, space=space)
    if line["status"] != "ok" and not line["interval"].startswith("at least"):
        raise MissingNumber(f"{table}: {level} {name} is {line['status']}: {line['why']}")
    return Cell(line["value"] if line["status"] == "ok" else line["interval"], line["interval"])


def mdm(run: str, model: str, kind: str, reading: str = "block") -> str:
    """The mean error of a model of memory divergence in % of IPC, of kernels of a class, by lines or sectors."""
    found = _only(printed("model validate", run)["errors"], f"{run}: {model}", model=model, kind=kind, reading=reading)
    return f"{found['mean_error_percent']:.0f}%"


def mdm_input(run: str, name: str) -> Number:
    """An input of the models of memory divergence."""
    found = printed("model validate", run)["hardware"]["quantities"][name]
    return Number(found["value"], found["low"], found["high"], found["unit"])


def predicted(device: str, sizes: str, *classes: str) -> Predicted:
    """The predicted kernels of a device and their sizes, of these classes or of all."""
    header, *rows = read("kernel-predictions")
    lines = [dict(zip(header, row, strict=True)) for row in rows]
    chosen = [
        row for row in lines if (row["device"], row["sizes"]) == (device, sizes) and row["class"] in (classes or {row["class"]})
    ]
    if not chosen:
        raise MissingNumber(f"kernel-predictions: {device} {sizes} {' '.join(classes)}: 0 kernels")
    return Predicted(chosen)


def started(run: str) -> str:
    """The day of a run."""
    return str(_header(run)["started"])[:10]


def command(run: str) -> str:
    """The command of a run, without the names of its files."""
    words = list(_header(run)["argv"])
    for option in ("-o", "--output", "--figure"):
        if option in words:
            del words[words.index(option) : words.index(option) + 2]
    return shlex.join(["clmembench", *(word for word in words if word != "--overwrite")])


def seconds(run: str) -> Number:
    """How long a run took, from its first record to its last."""
    total = _output(f"show {_path(run)} --time --csv").splitlines()[-1].split(",")
    return Number(float(total[-1]), None, None, "s")


def table(name: str, run: str, number: int = 1) -> str:
    """The n-th table that a command prints of a run, as the text of a CSV file."""
    tables = _output(f"{name} {_path(run)} --md").split("\n\n")
    rows = [found for part in tables if (found := cells(part.splitlines()))]
    if len(rows) < number:
        raise MissingNumber(f"{name} prints {len(rows)} tables of {run}")
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows[number - 1])
    return out.getvalue()


def held_out(*runs: str) -> str:
    """Kernels that the memory divergence model had not seen, of several runs of a device, as the text of a CSV file."""
    kernels: list[mdm_held_out.HeldOut] = []
    for run in runs:
        stored = jsonl.read(_path(run))
        found, hardware = mdm_held_out.held_out(stored, frame.sheet_of(stored))
        kernels += found
    return render.csv_text(mdm_tables.held_out_section(kernels, hardware))


def console(words: str, *passages: tuple[str, str]) -> str:
    """A command of files in reports/ and what it prints: each passage from a line with the first words to one with the last."""
    lines = _output(words.replace("reports/", f"{RUNS}/")).splitlines()
    found = [f"$ clmembench {words}"]
    for first, last in passages:
        start = next((number for number, line in enumerate(lines) if first in line), len(lines))
        end = next((number for number, line in enumerate(lines[start:], start + 1) if last in line), 0)
        if not end:
            raise MissingNumber(f"{words} prints no lines from {first} to {last}")
        found += lines[start:end]
        lines = lines[end:]
    return "\n".join(found) + "\n"


def ending(run: str, name: str) -> str:
    """What a run printed at its end, had its results file this name."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(name).write_bytes(gzip.decompress(_path(run).read_bytes()))
        with contextlib.redirect_stdout(io.StringIO()) as out:
            print_results(Path(name))
    return out.getvalue()


FUNCTIONS = (
    value,
    cycles,
    energy,
    ours,
    peer,
    ratio,
    guideline,
    guidelines,
    mnf,
    mdm,
    mdm_input,
    predicted,
    started,
    command,
    seconds,
    table,
    inferred,
    held_out,
    console,
    ending,
)


@functools.cache
def printed(name: str, run: str) -> Any:
    """What a command prints of a run as JSON."""
    return json.loads(_output(f"{name} {_path(run)} --json"))


@functools.cache
def _output(words: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        app(shlex.split(words), standalone_mode=False)
    return out.getvalue()


@functools.cache
def _header(run: str) -> Found:
    with gzip.open(_path(run), "rt", encoding="utf-8") as file:
        return dict(json.loads(file.readline()))


def _path(run: str) -> Path:
    path = RUNS / f"{run}.jsonl.gz"
    if not path.exists():
        raise MissingNumber(f"no run {run} in reports")
    return path


def _point(run: str, benchmark: str, metric: str, params: Found) -> Found:
    what = " ".join(filter(None, (f"{run}: {benchmark}", metric, units.format_params(params))))
    points = [one for one in printed("show", run) if one["benchmark"] == benchmark and metric in ("", one["metric"])]
    matching = [one for one in points if all(one["params"].get(name) == wanted for name, wanted in params.items())]
    matching = [one for one in matching if one["metric"] == matching[0]["metric"]]
    fewest = min((len(one["params"]) for one in matching), default=0)
    return _single([one for one in matching if len(one["params"]) == fewest], what, "params")


def _line(run: str, benchmark: str, choice: str, what: Found) -> Found:
    lines = [one for one in printed("peers", run)["lines"] if (one["benchmark"], one["choice"]) == (benchmark, choice)]
    matching = [one for one in lines if all(one["what"].get(name) == wanted for name, wanted in what.items())]
    return _single(matching, f"{run}: peers of {benchmark} {units.format_params(what)} ({choice})", "what")


def _peer(run: str, benchmark: str, choice: str, library: str, what: Found) -> Found:
    line = _line(run, benchmark, choice, what)
    peers = [one for one in line["peers"] if library in ("", one["facts"].get("library"))]
    if not peers:
        raise MissingNumber(f"{run}: no peer {library} of {benchmark} {units.format_params(what)}")
    return dict(peers[0])


def _only(found: Sequence[Found], what: str, **of: object) -> Found:
    return _single([one for one in found if all(one.get(name) == wanted for name, wanted in of.items())], what, "")


def _single(found: Sequence[Found], what: str, key: str) -> Found:
    if len(found) != 1:
        choices = "; ".join(units.format_params(one[key]) for one in found[:8]) if key else ""
        raise MissingNumber(f"{what}: {len(found)} points" + (f": {choices}" if choices else ""))
    return found[0]


def _number(found: Found, what: str, *keys: str) -> Number:
    middle, low, high = (found.get(key) for key in keys)
    if found.get("status", "ok") != "ok" or middle is None:
        raise MissingNumber(f"{what}: {found.get('benchmark', '')} {found.get('params', '')} is {found.get('status')}: "
                            f"{found.get('reason') or found.get('peer_reason')}")  # fmt: skip
    peak = found.get("fraction_of_peak", found.get("fraction_of_limit"))
    return Number(middle, low, high, found.get("unit") or "", peak=peak)
