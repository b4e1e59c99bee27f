"""Traces of accesses from a CSV file, read strictly; errors name the row and the remedy."""

from __future__ import annotations

import math
import os
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clmembench.model import Accesses
from clmembench.sanitize import input_problem, open_regular

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("trace_id", "array_bytes", "stride_bytes", "step", "offset_bytes", "latency")
SEPARATORS = (",", ";", "\t")
MORE_CELLS = "it has more cells than the first row has names: write numbers with a point, and nothing beyond the last column"
MAX_TRACE_FILE_BYTES = 1 << 30  # 5 million rows are some 200 MB
MAX_ROWS = 20_000_000
MAX_TRACES = 100_000
MAX_EXACT_INTEGER = 2**53  # maximum of a size, an offset and a step: a double represents it exactly
MAX_FLOAT_DIGITS = 300  # digits of a whole number that a float can hold
MAX_LATENCY = 1e15
MAX_TRACE_ID_LETTERS = 200  # letters of a trace's name


class TraceError(ValueError):
    """An error of a file, with its row and the remedy."""


def read(path: Path) -> list[Accesses]:
    """The traces of a file in the order in which they begin. Columns may be in any order; others are ignored. Raises
    TraceError."""
    table = _table(path)
    rows = {name: _numbers(path, table, name) for name in COLUMNS[1:]}
    for name in COLUMNS[1:5]:
        _check_whole(path, name, rows[name])
    _check_range(path, "latency", rows["latency"], MAX_LATENCY)
    ids = table["trace_id"].fillna("").astype(str)
    codes, names = ids.factorize()
    if len(names) > MAX_TRACES:
        raise TraceError(f"{path}: {len(names)} traces are over the limit of {MAX_TRACES}: split the file")
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    traces = []
    for number, end in enumerate(ends):
        own = order[(ends[number - 1] if number else 0) : end]
        traces.append(_trace(path, str(names[number])[:MAX_TRACE_ID_LETTERS], own, rows))
    return traces


def _table(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        with open_regular(path) as file:  # it is read twice, which a pipe cannot be
            size = os.fstat(file.fileno()).st_size
            if size > MAX_TRACE_FILE_BYTES:
                raise TraceError(f"{path}: {size} bytes are over the limit of {MAX_TRACE_FILE_BYTES}: split the file")
            separator, names = _header(path, file.readline(1 << 16).decode("utf-8-sig"))
            file.seek(0)
            with warnings.catch_warnings():  # pandas drops cells beyond the header with a warning, as for 5,7 instead of 5.7
                warnings.simplefilter("error", pd.errors.ParserWarning)
                table = pd.read_csv(
                    file, sep=separator, header=0, names=names, index_col=False, dtype={"trace_id": str}, encoding="utf-8-sig",
                    skip_blank_lines=False, nrows=MAX_ROWS + 1, low_memory=False, keep_default_na=False, na_values=[""],
                )[list(COLUMNS)]  # fmt: skip
    except OSError as error:
        raise TraceError(f"cannot read {path}: {input_problem(error)}") from error
    except pd.errors.ParserWarning as error:
        raise TraceError(f"{path}, row 2: {MORE_CELLS}") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, ValueError, OverflowError) as error:
        if isinstance(error, TraceError):
            raise
        more = re.search(r"Expected \d+ fields in line (\d+), saw", str(error))
        if more is not None:
            raise TraceError(f"{path}, row {more[1]}: {MORE_CELLS}") from error
        problem = str(error).strip().splitlines()[-1:] or ["it is no table"]
        raise TraceError(f"{path}: {problem[0][:200]}: write comma-separated text in UTF-8, one row an access") from error
    if len(table) and table.iloc[-1].isna().all():  # blank lines at the end
        filled = np.flatnonzero(table.notna().any(axis=1).to_numpy())
        table = table.iloc[: filled[-1] + 1 if filled.size else 0]
    if len(table) == 0:
        raise TraceError(f"{path}, row 2: there are no accesses: write one row for each")
    if len(table) > MAX_ROWS:
        raise TraceError(f"{path}: over {MAX_ROWS} rows: split the file")
    return table


def _header(path: Path, first: str) -> tuple[str, list[str]]:
    """The separator of a file, and the names of its columns, which must be unique. Raises TraceError."""
    rows = {mark: [name.strip().strip('"').lower() for name in first.rstrip("\r\n").split(mark)] for mark in SEPARATORS}
    mark = max(rows, key=lambda mark: len(set(rows[mark]) & set(COLUMNS)))
    names = rows[mark]
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise TraceError(f"{path}, row 1: no column {', '.join(missing)}: the first row has to name {', '.join(COLUMNS)}")
    twice = [name for name in COLUMNS if names.count(name) > 1]
    if twice:
        raise TraceError(f"{path}, row 1: column {twice[0]} is there twice: name each once")
    return mark, [name if name in COLUMNS else f"{number} {name}" for number, name in enumerate(names)]


def _numbers(path: Path, table: pd.DataFrame, name: str) -> Any:
    """A column as float64, or int64 where it is whole."""
    import pandas as pd

    column = table[name]
    if column.dtype == object or column.dtype == bool or str(column.dtype) in ("str", "string"):
        # pandas returns whole numbers beyond 64 bits as Python ints, and raises for those beyond a float
        values = pd.to_numeric(column.map(lambda cell: math.inf if _is_far(cell) else cell), errors="coerce")
        values = values.where(~column.astype(str).str.strip().str.lower().isin(("true", "false")))
    else:
        values = column
    bad = np.flatnonzero(values.isna().to_numpy())
    if bad.size:
        cell = column.iloc[bad[0]]
        what = "nothing" if cell is None or cell != cell else repr(str(cell)[:40])
        raise TraceError(f"{path}, row {bad[0] + 2}: {name} is {what}, no number: correct it, or leave the trace out")
    return values.to_numpy()


def _is_far(cell: object) -> bool:
    if isinstance(cell, str):  # as an older pandas leaves it
        digits = cell.strip().lstrip("+-")
        return len(digits) > MAX_FLOAT_DIGITS and digits.isdecimal()
    return isinstance(cell, int) and abs(cell) >= 10**MAX_FLOAT_DIGITS


def _check_whole(path: Path, name: str, values: Any) -> None:
    _check_range(path, name, values, MAX_EXACT_INTEGER)
    if values.dtype.kind == "f":
        bad = np.flatnonzero(values != np.floor(values))
        if bad.size:
            raise TraceError(f"{path}, row {bad[0] + 2}: {name} is {values[bad[0]]:g}, not whole: write it in bytes or steps")


def _check_range(path: Path, name: str, values: Any, most: float) -> None:
    least = 1 if name == "array_bytes" else 0
    bad = np.flatnonzero(~((values >= least) & (values <= most)))
    if bad.size:
        raise TraceError(f"{path}, row {bad[0] + 2}: {name} is {values[bad[0]]:g}: it has to be from {least} to {most:g}")


def _trace(path: Path, name: str, own: Any, rows: dict[str, Any]) -> Accesses:
    """The rows of one trace, whose numbers in the file are `own`."""
    for column in ("array_bytes", "stride_bytes"):
        values = rows[column][own]
        bad = np.flatnonzero(values != values[0])
        if bad.size:
            raise TraceError(f"{path}, row {own[bad[0]] + 2}: {column} of trace {name} changes: give each array its own trace")
    steps = rows["step"][own].astype(np.int64)
    bad = np.flatnonzero(np.diff(steps) != 1)
    if bad.size:
        at = bad[0] + 1
        raise TraceError(
            f"{path}, row {own[at] + 2}: step {steps[at]} of trace {name} follows step {steps[at - 1]}: "
            "write the rows of a trace in order, each access once"
        )
    offsets = rows["offset_bytes"][own].astype(np.int64)
    latencies = rows["latency"][own].astype(np.float64)
    array, stride = int(rows["array_bytes"][own[0]]), int(rows["stride_bytes"][own[0]])
    return Accesses(name, array, stride, int(steps[0]), offsets, latencies)
