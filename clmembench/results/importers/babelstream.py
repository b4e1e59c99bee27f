"""BabelStream's `--csv` table (of 5.0): one operation a line, with the best, worst and mean time of its repetitions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from clmembench.model import Value
from clmembench.results.imported import SCHEMA, ImportedRun, ImportedValue, ImportFault

COLUMNS = ("function", "num_times", "n_elements", "sizeof", "max_rate", "min_runtime", "max_runtime", "avg_runtime")
OPERATIONS = {"Copy": ("copy", 2), "Mul": ("scale", 2), "Add": ("add", 3), "Triad": ("triad", 3), "Dot": ("dot", 2)}
ARRAYS_ONLY = {"Nstream": 4}  # arrays that an operation moves which ours do not have
DTYPES = {4: "float", 8: "double"}
UNITS = {"mbytes": 1e6, "MB": 1e6, "GB": 1e9, "TB": 1e12, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
MAX_RELATIVE_DISAGREEMENT = 0.01  # between a line's rate and its time
MAX_SECONDS = 1e6


def read(text: str) -> list[ImportedRun]:
    """The one device of a table, whose name stands above it in some implementations. The value is the rate of the mean time;
    `most` and `least` are those of the best time, which BabelStream prints as its rate, and of the worst."""
    lines = [line.strip() for line in text.splitlines()]
    heads = [number for number, line in enumerate(lines) if line.startswith("function,")]
    if len(heads) != 1:
        raise ImportFault("it holds no table of BabelStream, or several: run it with --csv")
    unit = re.search(r",max_([A-Za-z]+)_per_sec,", lines[heads[0]])
    names = re.sub(r"max_[A-Za-z]+_per_sec", "max_rate", lines[heads[0]]).split(",")
    if tuple(names) != COLUMNS or unit is None or unit[1] not in UNITS:
        raise ImportFault(f"its table has other columns: {lines[heads[0]][:100]}")
    above = "\n".join(lines[: heads[0]])
    values = tuple(_value(line.split(","), UNITS[unit[1]]) for line in lines[heads[0] + 1 :] if line)
    if not values:
        raise ImportFault("its table is empty")
    device = _said(above, r"Using (?:\w+ )?device:? (.+)") or _said(above, r'CUDA Device \d+: "(.+)" .*')
    backend = _said(above, r"Using (\w+) device.*") or _said(above, r"(CUDA) Device \d+: .*")
    driver = _said(above, "(?:CUDA )?Driver: (.+)")
    return [ImportedRun(SCHEMA, "BabelStream", _said(above, "Version: (.+)"), device, backend, driver, "", values)]


def _said(text: str, pattern: str) -> str:
    """What a whole line says; "" where there is none."""
    found = re.search(f"^{pattern}$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def _value(cells: Sequence[str], unit: float) -> ImportedValue:
    told = ",".join(cells)[:100]
    try:
        times, elements, size = (int(cell) for cell in cells[1:4])
        rate, best, worst, mean = (float(cell) for cell in cells[4:])
    except ValueError as error:
        raise ImportFault(f"a line of its table has no numbers: {told}") from error
    op, arrays = OPERATIONS.get(cells[0], ("", ARRAYS_ONLY.get(cells[0], 0)))
    if not arrays or size not in DTYPES or times < 2 or elements < 1:
        raise ImportFault(f"a line of its table is none of BabelStream's operations: {told}")
    if not all(map(math.isfinite, (rate, best, worst, mean))) or not 0 < best <= mean <= worst <= MAX_SECONDS:
        raise ImportFault(f"its times are no times: {told}")
    nbytes = arrays * elements * size
    if abs(rate * unit * best - nbytes) > MAX_RELATIVE_DISAGREEMENT * nbytes:
        raise ImportFault(f"its rate is not that of its time: {told}")
    params: dict[str, Value] = {"op": op, "dtype": DTYPES[size], "array_bytes": elements * size} if op else {}
    return ImportedValue(
        name=cells[0],
        value=nbytes / mean / 1e9,
        unit="GB/s",
        statistic=f"mean of {times - 1} repetitions after the first, by the host's clock",
        benchmark="stream" if op else "",
        metric="bandwidth" if op else "",
        params=params,
        least=nbytes / worst / 1e9,
        most=nbytes / best / 1e9,
    )
