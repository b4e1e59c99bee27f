"""Runs as pandas DataFrames, for notebooks: `clmembench.read` (points and metrics) and `clmembench.headlines` (the verdict)."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from clmembench.analysis.decision import spread_of
from clmembench.analysis.noise import calibrated
from clmembench.report.device_runs import merged_runs, parts
from clmembench.report.rows import point_fields
from clmembench.report.scorecard.device_pairs import side_of
from clmembench.report.scorecard.scorecard import verdict
from clmembench.report.scorecard_cells import Cell
from clmembench.results import jsonl

if TYPE_CHECKING:
    import pandas as pd

    from clmembench.model import Run

Paths = str | Path | Iterable[str | Path]

NUMBERS = (
    "median", "ci_low", "ci_high", "q1", "q3", "min", "peak", "fraction_of_peak", "cycles", "cycles_low", "cycles_high",
    "core_clock_ghz", "cpu_over_wall", "cpu_waited", "cpu_others", "cpu_stolen",
)  # fmt: skip


def read(paths: Paths) -> pd.DataFrame:
    """Every point and metric of stored runs, a row each: columns device, run, file, benchmark, `param.*` for each parameter,
    `tuning.*`, status, reason, metric, unit, median, ci_low, ci_high, n, processes, peak, fraction_of_peak, cycles and the
    others of `show --csv`. `paths` are results files, or patterns such as "runs/*.jsonl". Raises ResultsError for a file
    that is none, FileNotFoundError where there is none at all."""
    import pandas as pd

    return pd.concat([run_frame(jsonl.read(path)) for path in _files(paths)], ignore_index=True)


def run_frame(run: Run) -> pd.DataFrame:
    """The rows of one stored run, as `read` has them. Raises SpecError where two spec sheets match its device."""
    import pandas as pd

    (device,) = merged_runs([run])
    (part,) = parts([run], [device.label])
    section = point_fields(part.rows)
    frame = pd.DataFrame(list(section.rows), columns=[column.name for column in section.columns])
    for name in NUMBERS:  # of a run that has none of them a column would hold objects
        frame[name] = pd.to_numeric(frame[name]) if name in frame else math.nan
    frame.insert(0, "device", device.label)
    frame.insert(1, "run", run.header.run_id)
    frame.insert(2, "file", run.path.encode(errors="replace").decode())  # a name may hold bytes that are no text
    return frame


def parquet(frame: pd.DataFrame) -> bytes:
    """A frame as a Parquet file. A column of Parquet has one type: one that holds texts and numbers, or whole numbers beyond 64
    bits with a sign, has all of them as text. Raises ImportError where pyarrow is missing."""
    import pandas as pd

    kinds = {name: pd.api.types.infer_dtype(frame[name], skipna=True) for name in frame if frame[name].dtype == object}
    mixed = [name for name, kind in kinds.items() if kind.startswith("mixed") or kind == "integer"]
    whole = frame.copy()
    for name in mixed:
        whole[name] = frame[name].map(str, na_action="ignore")
    out = io.BytesIO()
    whole.to_parquet(out, engine="pyarrow", index=False)
    return out.getvalue()


def headlines(paths: Paths) -> pd.DataFrame:
    """The verdict of a report, a row for each quantity of each device: columns device, group, quantity, value, low, high,
    log_sd, log_freedom, better, status, text, point, is_best. Runs of one device are one device. Only what is `ok` has a value.
    `low` and `high` are within a run; `log_sd` is the standard deviation of the value's logarithm over processes and runs, with
    its degrees of freedom. Raises as `read`."""
    import pandas as pd

    devices = merged_runs([jsonl.read(path) for path in _files(paths)])
    measured = parts([device.run for device in devices], [device.label for device in devices])
    found = verdict(measured)
    sides = [side_of(part) for part in measured]

    def spread(place: int, cell: Cell) -> dict[str, float]:
        known = spread_of(cell.noisy, sides[place], calibrated()) if cell.noisy is not None else (math.nan, math.nan)
        return dict(zip(("log_sd", "log_freedom"), known, strict=True))

    rows = [
        {
            "device": label,
            "group": line.group,
            "quantity": line.name,
            "value": cell.value,
            "low": cell.low,
            "high": cell.high,
            **spread(place, cell),
            "better": line.better,
            "status": cell.status,
            "text": cell.text,
            "point": cell.point,
            "is_best": cell.is_best,
        }
        for line in found.lines
        for place, (label, cell) in enumerate(zip(found.labels, line.cells, strict=True))
    ]
    return pd.DataFrame(rows)


def _files(paths: Paths) -> list[Path]:
    """The files that paths and patterns name, each once, in order."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found: dict[Path, None] = {}
    for one in given:
        path = Path(one)
        try:
            matches = [path] if path.exists() else sorted(path.parent.glob(path.name))
        except OSError:  # no file can be called so
            matches = []
        if not matches:
            raise FileNotFoundError(f"{one}: no results file of this name or pattern")
        found.update(dict.fromkeys(matches))
    if not found:
        raise FileNotFoundError("no results files: an empty list of paths names none")
    return list(found)
