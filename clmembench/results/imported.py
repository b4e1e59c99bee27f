"""Published results, and summaries of other programs, which `import` writes to a file, a line per device: without samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter
from pydantic.json_schema import SkipJsonSchema

from clmembench.model import Value
from clmembench.results import jsonl, limits, line_limits, run_files
from clmembench.results.record_lines import decode, encode, first_problem
from clmembench.sanitize import input_problem, printable
from clmembench.specs.sheets import SpecSheet

SCHEMA = 1
MARK = b'{"imported":'  # how each line begins
MAX_VALUES = 10_000
MAX_MEASUREMENT = 1e18  # in any unit: an exabyte, or what a sentinel such as DBL_MAX is far beyond

# what only sheets in platforms/ have: an import file neither gets it nor gives it
SheetText = Annotated[SkipJsonSchema[str], Field(exclude=True), BeforeValidator(lambda _: "")]
SheetBound = Annotated[SkipJsonSchema[float | None], Field(exclude=True), BeforeValidator(lambda _: None)]
Sheet = Annotated[SkipJsonSchema[SpecSheet | None], Field(exclude=True), BeforeValidator(lambda _: None)]


class ImportFault(ValueError):
    """A file is not of the program it should be of; the message says in what."""


@dataclass(frozen=True, slots=True)
class ImportedValue:
    """One number as a program reports it: its own `name`, the value in `unit`, and in `statistic` what it is of the program's
    repetitions. `least` and `most` are the extremes of those, where it reports them: no interval of the value.

    `benchmark`, `metric` and `params` are ours where the meaning is the same, else empty; `note` says what differs.
    """

    # not in the docstring, which is in the schema of import files: a published value has benchmark, metric and parameters as
    # its sheet has them, no name and no statistic, and what Published says of `source` and the fields after it

    name: str
    value: float
    unit: str
    statistic: str
    benchmark: str = ""
    metric: str = ""
    params: Mapping[str, Value] = field(default_factory=dict)
    least: float | None = None
    most: float | None = None
    note: str = ""
    source: SheetText = ""
    read_from: SheetText = ""
    quote: SheetText = ""
    qualifier: SheetText = ""
    low: SheetBound = None
    high: SheetBound = None
    formula: SheetText = ""
    derived: SheetText = ""

    @property
    def paper(self) -> str:
        """Authors and year of what `quote` begins in."""
        return self.source.split("; ")[0].partition(", ")[0]


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """What one program reported of one device; `left_out` says what of the file is none of these values, and why. `backend` is
    what the program reached the device by, `file` and `sha256` are of the file it was read from, and `address` is which of the
    host's devices it is, where the program says so."""

    imported: int
    program: str
    version: str
    device: str
    backend: str
    driver: str
    date: str
    values: tuple[ImportedValue, ...]
    left_out: tuple[str, ...] = ()
    file: str = ""
    sha256: str = ""
    address: str = ""
    sheet: Sheet = None  # that published values are from

    @property
    def origin(self) -> str:
        """Where the values are from, for people."""
        if self.sheet is not None:
            return "published"
        return "imported from " + ", ".join(filter(None, (f"{self.program} {self.version}".strip(), self.backend)))


def published_run(sheet: SpecSheet) -> ImportedRun:
    """What was published of the device of a sheet."""
    values = tuple(ImportedValue(name="", statistic="", **asdict(result)) for result in sheet.published)
    return ImportedRun(SCHEMA, "", "", sheet.name, "", "", "", values, sheet=sheet)


def with_distinct_devices(runs: Sequence[ImportedRun]) -> list[ImportedRun]:
    """The runs of one file; equal devices get their address, or else their number, behind their name."""
    names = [(run.device, run.origin) for run in runs]
    found = []
    for place, (run, name) in enumerate(zip(runs, names, strict=True)):
        count, number = names.count(name), names[:place].count(name) + 1
        found.append(replace(run, device=f"{run.device} ({run.address or f'{number} of {count}'})") if count > 1 else run)
    return found


def as_objects(runs: Sequence[ImportedRun]) -> list[dict[str, Any]]:
    """The runs as lines of an import file and `import --json` have them."""
    objects: list[dict[str, Any]] = TypeAdapter(list[ImportedRun]).dump_python(list(runs))
    return objects


def as_lines(runs: Sequence[ImportedRun]) -> str:
    """The content of an import file."""
    return "".join(f"{encode(run)}\n" for run in as_objects(runs))


def is_import_file(path: Path) -> bool:
    """Whether a file begins as an import file does; False where it cannot be read."""
    try:
        with run_files.open_content(path, pipe=False) as file:
            return file.read(len(MARK)) == MARK
    except (OSError, jsonl.ResultsError):
        return False


def read(path: Path) -> list[ImportedRun]:
    """The runs in an import file. Raises ImportFault where it is damaged, or of a newer schema."""
    try:
        content = run_files.read_regular(path, line_limits.MAX_LINE_BYTES)
        runs = [checked(decode(ImportedRun, line)) for line in content.splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        why = input_problem(error) if isinstance(error, OSError) else first_problem(error)
        raise ImportFault(f"{path}: no import file: {why}") from error
    if any(run.imported != SCHEMA for run in runs):
        raise ImportFault(f"{path} is an import file of another schema than {SCHEMA}: upgrade clmembench, or import it again")
    return runs


def checked(run: ImportedRun) -> ImportedRun:
    """The run without values that are 0 or below, or beyond any measurement, which `left_out` then names. Raises ImportFault
    for too many values, too long texts, and parameters or extremes that are none."""
    if len(run.values) > MAX_VALUES or len(run.left_out) > MAX_VALUES:
        raise ImportFault(f"over {MAX_VALUES} values")
    texts = [run.program, run.version, run.device, run.backend, run.driver, run.date, run.address, *run.left_out]
    texts += [text for value in run.values for text in (value.name, value.unit, value.statistic, value.note)]
    if max(map(len, texts), default=0) > limits.MAX_NAME_LETTERS:
        raise ImportFault(f"a text is over {limits.MAX_NAME_LETTERS} letters")
    for value in run.values:
        limits.check_params(value.name[:40], value.params)
        if any(end is not None and not math.isfinite(end) for end in (value.least, value.most)):
            raise ImportFault(f"{value.name[:100]}: its extremes are no numbers")
    good = tuple(value for value in run.values if 0 < value.value <= MAX_MEASUREMENT)
    bad = (f"{value.name}: {value.value:g} {value.unit} is no measurement" for value in run.values if value not in good)
    return replace(run, values=good, left_out=(*run.left_out, *map(printable, bad)))
