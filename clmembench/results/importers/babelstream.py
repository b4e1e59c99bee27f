"""BabelStream's `--csv` table (of 3.4 to 6.0): an operation a line, with the best, worst and mean time of its repetitions."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from clmembench.model import Value
from clmembench.results.imported import SCHEMA, ImportedRun, ImportedValue, ImportFault
from clmembench.results.importers.foreign_text import decimal_step, first_line, number, refuse_wrong, whole_number

SEPARATORS = (",", ";", "\t")  # its own, and those of spreadsheets
COLUMNS = ("function", "num_times", "n_elements", "sizeof")
RUNTIMES = ("min_runtime", "max_runtime", "avg_runtime")
OPERATIONS = {"copy": ("copy", 2), "mul": ("scale", 2), "add": ("add", 3), "triad": ("triad", 3), "dot": ("dot", 2)}
ARRAYS_ONLY = {"nstream": 4}  # arrays that an operation moves which ours do not have
DTYPES = {4: "float", 8: "double"}
UNITS = {
    "mbytes": 1e6, "mibytes": 2.0**20, "gbytes": 1e9, "gibytes": 2.0**30,
    "mb": 1e6, "gb": 1e9, "tb": 1e12, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40,
}  # fmt: skip
MAX_RELATIVE_DISAGREEMENT = 0.01  # between a line's rate and its time
MAX_RELATIVE_STEP = 0.1  # of a time's last digit: with fewer digits, as 0.0003, a time may be a rounded one
MIN_NOTED_STEP = 0.01  # of a time's last digit: with fewer digits, as 0.020, the value has a note that says so
MAX_ROUNDED_DISAGREEMENT = 0.001  # which a rate has by chance only from a time that was rounded to so few digits
MAX_SECONDS = 1e6
MAX_LINE_LETTERS = 10_000  # of a line, of the program's messages too
MAX_TIMES = 10**9
MAX_ELEMENTS = 1 << 48
DECIMAL_COMMA = re.compile(r"0,\d+")  # a time; in 613,678 the comma alone may be one of thousands
WRONG = re.compile(r"validation\b.*\bfail|\bfail\w*\b.*\bvalidation", re.IGNORECASE)


class Table(NamedTuple):
    """Lines of one header, and what a text in the header's column `rate` counts in bytes per second."""

    header: list[str]
    rows: list[list[str]]
    rate: str
    unit: float


def read(text: str) -> list[ImportedRun]:
    """The one device of a table, whose name stands above it in some implementations. The value is the rate of the mean time;
    `most` and `least` are those of the best time, which BabelStream prints as its rate, and of the worst. Where only its sum
    failed BabelStream's validation, the sum alone is left out."""
    wrong = [line for line in text.splitlines() if WRONG.search(line)]
    refuse_wrong([line for line in wrong if re.search(r"\bsum\b", line, re.IGNORECASE) is None], "BabelStream")
    table = _table(text)
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    kinds = Counter((row["function"].lower(), row["n_elements"], row["sizeof"]) for row in rows)
    if twice := [name for (name, *_), count in kinds.items() if count > 1]:
        raise ImportFault(f"its table has {twice[0]} several times, so it is of several runs: give each a file of its own")
    values = tuple(_value(row, table) for row in rows)
    left_out = tuple(f"{value.name}: {wrong[0].strip()[:150]}" for value in values if wrong and value.name.lower() == "dot")
    values = tuple(value for value in values if not (wrong and value.name.lower() == "dot"))
    device = first_line(text, r"Using (?:\w+ )?device:? (.+)") or first_line(text, r'CUDA Device \d+: "(.+)".*')
    backend = first_line(text, r"Using (\w+) device.*") or first_line(text, r"(CUDA) Device \d+: .*")
    driver = first_line(text, "(?:CUDA )?Driver: (.+)")
    version = first_line(text, "Version: (.+)")
    return [ImportedRun(SCHEMA, "BabelStream", version, device, backend, driver, "", values, left_out)]


def _table(text: str) -> Table:
    """The one table that has lines: older versions print a second header above that of --triad-only. A table of the phases
    Init and Read, which version 5 has, is passed over."""
    tables: list[Table] = []
    open_table: Table | None = None
    separator = ","
    for line in text.splitlines():
        heads = {mark: _cells(line, mark) for mark in SEPARATORS}
        head = next((mark for mark, cells in heads.items() if len(cells) > 1 and cells[0].lower() in ("function", "phase")), "")
        if head:
            separator = head
            open_table = _headed([name.lower() for name in heads[head]], line) if heads[head][0].lower() == "function" else None
            tables += [open_table] if open_table is not None else []
        elif open_table is not None and separator in line and re.match(r"\w+$", heads[separator][0]):
            open_table.rows.append(_row(heads[separator], open_table, line))
    filled = [table for table in tables if table.rows]
    if not tables:
        raise ImportFault("it holds no table of BabelStream: run it with --csv")
    if len(filled) > 1:
        raise ImportFault("it holds several tables of BabelStream: give each a file of its own")
    if not filled:
        raise ImportFault("its table is empty")
    if separator != "," and any(DECIMAL_COMMA.fullmatch(cell) for row in filled[0].rows for cell in row):
        filled[0].rows[:] = [[cell.replace(",", ".") for cell in row] for row in filled[0].rows]
    return filled[0]


def _headed(names: list[str], line: str) -> Table:
    rates = [name for name in names if re.fullmatch(r"(?:max_)?[a-z]+_per_sec", name)]
    unit = UNITS.get(rates[0].removeprefix("max_").removesuffix("_per_sec")) if len(rates) == 1 else None
    needed = {*COLUMNS, *RUNTIMES} if "runtime" not in names else {*COLUMNS, "runtime"}
    if unit is None or not needed <= set(names) or len(set(names)) < len(names):
        raise ImportFault(f"its table has other columns: {line.strip()[:100]}")
    return Table(names, [], rates[0], unit)


def _cells(line: str, separator: str) -> list[str]:
    """The cells of a line, without empty ones at its end, as spreadsheets write them."""
    if len(line) > MAX_LINE_LETTERS:
        raise ImportFault(f"a line is over {MAX_LINE_LETTERS} letters, which no table of BabelStream has: {line[:60]}")
    cells = [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]
    while len(cells) > 1 and not cells[-1]:
        cells.pop()
    return cells or [""]


def _row(cells: list[str], table: Table, line: str) -> list[str]:
    if len(cells) != len(table.header):
        counts = f"{len(cells)} cells under {len(table.header)} names"
        raise ImportFault(f"a line of its table has {counts}, so its numbers are not as BabelStream writes them: {line[:100]}")
    return cells


def _value(row: Mapping[str, str], table: Table) -> ImportedValue:
    told = ",".join(row.values())[:100]
    try:
        times, elements = whole_number(row["num_times"], MAX_TIMES), whole_number(row["n_elements"], MAX_ELEMENTS)
        size, rate = whole_number(row["sizeof"], max(DTYPES)), number(row[table.rate])
        best, worst, mean = _runtimes(row, times)
    except (ValueError, OverflowError) as error:
        raise ImportFault(f"a line of its table has no numbers: {error}: {told}") from error
    name = row["function"]
    op, arrays = OPERATIONS.get(name.lower(), ("", ARRAYS_ONLY.get(name.lower(), 0)))
    if not arrays or size not in DTYPES or times < 2:
        raise ImportFault(f"a line of its table is none of BabelStream's operations: {told}")
    if not 0 < best <= mean <= worst <= MAX_SECONDS:
        raise ImportFault(f"its times are no times: {told}")
    nbytes = arrays * elements * size
    together = "runtime" in row
    step = min(map(decimal_step, _times(row).values())) / (times if together else 1)
    disagreement = abs(rate * table.unit * best / nbytes - 1)
    if MAX_ROUNDED_DISAGREEMENT < disagreement <= step / best and step > MAX_RELATIVE_STEP * best:
        raise ImportFault(f"its times are rounded to {step:g} s: take the file as BabelStream wrote it: {told}")
    if disagreement > MAX_RELATIVE_DISAGREEMENT:
        raise ImportFault(f"its rate is not that of its time: {told}")
    params: dict[str, Value] = {"op": op, "dtype": DTYPES[size], "array_bytes": elements * size} if op else {}
    which = f"{times} repetitions, the first among them, which were timed as one" if together else ""
    return ImportedValue(
        name=name,
        value=nbytes / mean / 1e9,
        unit="GB/s",
        statistic=f"mean of {which or f'{times - 1} repetitions after the first'}, by the host's clock",
        benchmark="stream" if op else "",
        metric="bandwidth" if op else "",
        params=params,
        note=f"its times have a last digit of {step:g} s" if step > MIN_NOTED_STEP * mean else "",
        least=None if together else nbytes / worst / 1e9,
        most=None if together else nbytes / best / 1e9,
    )


def _runtimes(row: Mapping[str, str], times: int) -> tuple[float, float, float]:
    """The best, worst and mean time; of --triad-only, which times all repetitions as one, the mean alone. Raises
    ValueError."""
    if "runtime" in row:
        mean = number(row["runtime"]) / times
        return mean, mean, mean
    best, worst, mean = (number(row[name]) for name in RUNTIMES)
    return best, worst, mean


def _times(row: Mapping[str, str]) -> dict[str, str]:
    return {name: row[name] for name in (*RUNTIMES, "runtime") if name in row}
