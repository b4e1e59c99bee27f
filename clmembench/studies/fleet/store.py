"""The store of a fleet: Parquet tables of runs, points and samples, appended by many processes, read by any engine.

STORE/incoming holds results files that are still being written. STORE/parts/date=DAY/model=NAME/PART holds a Parquet file for
each of TABLES. A part is written under another name and gets its own by one rename, so it is whole or absent. A part of one run
is named RUN-RECORDS; one of several runs, which compaction makes, `pack_HASH`. Parts may overlap: of each run the part with
most records counts, so that a resumed run replaces its beginning, and compaction needs no lock against writers and readers.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clmembench.model import Header, Record, Run
from clmembench.model.device_identity import driver_uuid, model_name
from clmembench.results import jsonl, record_lines
from clmembench.results.whole_file import write_whole
from clmembench.sanitize import argument, printable, sync

if TYPE_CHECKING:
    import pyarrow as pa

    from clmembench.model import Benchmark, Headline
    from clmembench.report.frame import LabelledRun
    from clmembench.report.scorecard_cells import ScorecardCell

SCHEMA = 1
EXTRA = "fleet"
TABLES = ("runs", "points", "samples")
ARRAYS = ("warmups_ns", "host_ns", "device_ns", "queue_ns", "submit_ns", "cpu_ns")  # of a series, a column each
AMOUNTS = ("clock", "passes", "nbytes", "flops", "ops")  # of a series, columns beside its JSON
ROW_GROUP_ROWS, SMALL_ROW_GROUP_ROWS = 100_000, 4096  # points, and runs or samples, that are skipped or read together
ORDER = ("benchmark", "point", "metric")  # of the points of a part
VISIBLE = "[!.]*"  # names of parts; what begins with a dot is being written
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_NAME = re.compile(r"[0-9A-Za-z]{1,64}")
_SINGLE = re.compile(r"([0-9A-Za-z]{1,64})-(\d+)")


class StoreError(Exception):
    """A store cannot be read or written; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Part:
    """A folder of tables, and the runs in it that count; `left_out` are those of which another part has more."""

    path: Path
    runs: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def schema(table: str) -> pa.Schema:
    """The columns of a table."""
    import pyarrow as pa

    text, number, real = pa.string(), pa.int64(), pa.float64()
    name = pa.dictionary(pa.int32(), pa.string())
    numbers = pa.list_(number)
    identity = {"run_id": name, "device": name, "model": name, "date": name}
    columns: dict[str, dict[str, pa.DataType]] = {
        "runs": {
            "started": text, "name": text, "host": name, "driver": name, "platform": name, "runtime": name, "label": text,
            "suite": name, "tool_version": name, "source_revision": name, "tags": pa.map_(text, text),
            "sensors": pa.map_(text, real), "core_clock_ghz": real, "records": number, "header": text,
        },
        "points": {
            "benchmark": name, "version": pa.int32(), "point": name, "params": name, "tuning": name, "metric": name,
            "headline": name, "unit": name, "better": name, "status": name, "gate": name, "cause": name, "reason": name,
            "median": real, "ci_low": real, "ci_high": real, "q1": real, "q3": real, "min": real, "n": pa.int32(),
            "processes": pa.int32(), "peak": real, "core_clock_ghz": real, "repeat_sd": real, "repeat_freedom": real,
            "slack": real,
        },
        "samples": {
            "record": number, "benchmark": name, "version": pa.int32(), "params": name, "process": pa.int32(), "role": name,
            "status": name, "record_json": text, "series": pa.int32(), "clock": name, "passes": number, "nbytes": number,
            "flops": number, "ops": number, **dict.fromkeys(ARRAYS, numbers), "series_json": text,
        },
    }  # fmt: skip
    return pa.schema(list((identity | columns[table]).items()))


def import_run(store: Path, file: Path) -> bool:
    """Add the run of a results file to the store, which is made where there is none; False where the store has it with as many
    records. Any number of processes may do so at once. Raises StoreError, ResultsError, SpecError, OSError."""
    run = jsonl.read(file)
    run_id, records = run.header.run_id, len(run.records)
    if not _NAME.fullmatch(run_id):
        raise StoreError(f"{file}: its run id {printable(run_id)[:40]!r} is none of clmembench, which are letters and digits")
    open_store(store, create=True)
    folder = partition(store, run.header)
    if any(_members(path).get(run_id, -1) >= records for path in folder.glob(VISIBLE)):
        return False
    return write_part(folder, f"{run_id}-{records}", partial(write_tables, tables_of(run)))


def open_store(store: Path, create: bool = False) -> None:
    """Raises StoreError where the folder is no store of a schema that this version reads."""
    about = store / "store.json"
    try:
        if create and not about.exists():
            (store / "incoming").mkdir(parents=True, exist_ok=True)
            (store / "parts").mkdir(exist_ok=True)
            with contextlib.suppress(FileExistsError):  # another writer was first
                write_whole(about, json.dumps({"schema": SCHEMA}) + "\n")
        found = json.loads(about.read_text(encoding="utf-8"))["schema"]
    except FileNotFoundError as error:
        raise StoreError(
            f"{store} is no store of a fleet: make one with clmembench fleet import {argument(store)} FILES"
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f'{about} is damaged: write {{"schema": {SCHEMA}}} to it') from error
    if found != SCHEMA:
        raise StoreError(f"{store} has schema {str(found)[:20]}, and this version reads {SCHEMA}: upgrade clmembench")


def partition(store: Path, header: Header) -> Path:
    """The folder of the parts that have runs of this day and model of device."""
    model = re.sub(r"[^a-z0-9]+", "-", device_model(header).casefold()).strip("-")[:80]
    return store / "parts" / f"date={_day(header)}" / f"model={model or 'unnamed'}"


def device_model(header: Header) -> str:
    """The devices that are expected to be alike: name, number of compute units and platform."""
    info = header.device
    return printable(f"{model_name(info.name)} ({info.compute_units} units, {info.platform})")


def device_id(header: Header) -> str:
    """A name of one device of the fleet: the driver's UUID, else its host, PCI address or place on its platform, and model."""
    info = header.device
    uuid = driver_uuid(info)
    place = info.pci or f"{info.selector or '0:0'} {info.instance or ''}".strip()
    return printable(uuid or f"{header.host.get('name') or 'unnamed host'}/{place}/{device_model(header)}")


def _day(header: Header) -> str:
    return header.started[:10] if _DAY.match(header.started) else "unknown"


def write_part(folder: Path, name: str, write: Callable[[Path], None]) -> bool:
    """Make a part of the files that `write` puts into a folder, all or none; False where there is a part of that name. Raises
    OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{name}.{secrets.token_hex(4)}"
    temporary.mkdir()
    try:
        write(temporary)
        for path in temporary.iterdir():
            sync(path)
        try:
            temporary.rename(folder / name)
        except OSError:
            if not (folder / name).is_dir():
                raise
            return False
        sync(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return True


def write_tables(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Write each table as a Parquet file."""
    import pyarrow.parquet as pq

    for name, content in tables.items():
        rows = ROW_GROUP_ROWS if name == "points" else SMALL_ROW_GROUP_ROWS
        pq.write_table(content, folder / f"{name}.parquet", compression="zstd", row_group_size=rows)


def tables_of(run: Run) -> dict[str, pa.Table]:
    """A run as rows of each table: its points are judged and derived as `show` has them, and its samples are as in the file."""
    import pyarrow as pa

    from clmembench.report import frame

    header = run.header
    identity = {"run_id": header.run_id, "device": device_id(header), "model": device_model(header), "date": _day(header)}
    sheet = frame.sheet_of(run)
    judged, rows = frame.judged_rows(run, sheet)
    points = list(_points(frame.LabelledRun("", judged, sheet, tuple(rows))))
    found = {"runs": [_run_row(run, points)], "points": points, "samples": list(_samples(run.records))}
    return {table: pa.Table.from_pylist([identity | row for row in of], schema=schema(table)) for table, of in found.items()}


def _run_row(run: Run, points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    header, info = run.header, run.header.device
    clocks = sorted(clock for point in points if (clock := point.get("core_clock_ghz")))
    host = header.host.get("name")
    numbers = {name: float(value) for name, value in header.sensors.items() if isinstance(value, int | float)}
    return {
        "started": header.started,
        "name": header.label or f"{host or 'unnamed host'} {info.selector or info.pci}".strip(),
        "host": str(host) if host else None, "driver": info.driver, "platform": info.platform, "runtime": header.runtime,
        "label": header.label, "suite": header.suite, "tool_version": header.tool_version,
        "source_revision": header.source_revision, "tags": list(header.tags.items()), "sensors": list(numbers.items()),
        "core_clock_ghz": clocks[len(clocks) // 2] if clocks else None,
        "records": len(run.records), "header": record_lines.encode(header),
    }  # fmt: skip


def _points(part: LabelledRun) -> Iterator[dict[str, Any]]:
    """A row for each point and metric, and for each headline of the device, whose point is its name since the best point is not
    the same on all devices; sorted as compaction sorts them."""
    from clmembench.analysis import decision, noise
    from clmembench.report.views import point_labels

    header, table = part.run.header, noise.calibrated()
    side = decision.side_of([row.value for row in part.rows], header.device, header.host)
    factor = noise.host_factor(table, side.kind, side.values)

    def repeated(noisy: decision.NoisyValue | None) -> dict[str, float | None]:
        sd, freedom = (None, None) if noisy is None else decision.spread_of(noisy, side, table, factor or 1.0)
        return {"repeat_sd": sd, "repeat_freedom": freedom, "slack": None if noisy is None else noisy.slack}

    found = []
    for benchmark, headline, cell in _headline_cells(part):
        metric = next(metric for metric in benchmark.metrics if metric.name == headline.metric)
        row = {
            "benchmark": benchmark.name, "version": header.benchmarks[benchmark.name].version, "point": headline.name,
            "params": "{}", "tuning": "{}", "metric": metric.name, "headline": headline.name, "unit": metric.unit,
            "better": metric.better, "status": "ok", "gate": "", "cause": "", "reason": "", "median": cell.value,
            "ci_low": cell.low, "ci_high": cell.high,
        }  # fmt: skip
        found.append(row | repeated(cell.noisy))
    for row_of, label in zip(part.rows, point_labels(part.rows), strict=True):
        value = row_of.value
        row = {
            "benchmark": value.benchmark, "version": header.benchmarks[value.benchmark].version, "point": label,
            "params": _json(value.params), "tuning": _json(value.tuning), "metric": value.metric,
            "headline": "", "unit": value.unit, "better": value.better, "status": value.status,
            "gate": value.gate, "cause": str(value.cause), "reason": value.reason, "median": value.median,
            "ci_low": value.ci_low, "ci_high": value.ci_high, "q1": value.q1, "q3": value.q3, "min": value.least,
            "n": value.n, "processes": value.processes, "peak": row_of.peak.value if row_of.peak else None,
            "core_clock_ghz": value.ghz,
        }  # fmt: skip
        found.append(row | repeated(side.noisy(value, table)))
    yield from sorted(found, key=lambda point: [str(point[name]) for name in ORDER])


def _headline_cells(part: LabelledRun) -> Iterator[tuple[Benchmark, Headline, ScorecardCell]]:
    """The headlines of the device that have a value."""
    from clmembench.benchmarks import discovered
    from clmembench.report.scorecard.headline_cells import headline_cell

    for benchmark in discovered().values():
        for headline in benchmark.headlines if benchmark.name in part.run.header.benchmarks else ():
            cell = headline_cell(part, benchmark.name, headline)
            if cell.value is not None:
                yield benchmark, headline, cell


def _json(values: Mapping[str, object]) -> str:
    return json.dumps(dict(values), separators=(",", ":"), ensure_ascii=False)


def _samples(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """A row for each series of each record, or one for a record without any: the samples as lists, and what else there is as
    JSON, so that `export_run` gives equal records."""
    for number, record in enumerate(records):
        whole = json.loads(record_lines.encode(record))
        of_record = {
            "record": number, "benchmark": record.benchmark, "version": record.version, "params": _json(record.params),
            "process": record.process, "role": record.role, "status": record.status,
        }  # fmt: skip
        several = whole.pop("series")
        text = _json(whole)
        for place, series in enumerate(several or [{}]):
            columns = {name: series.pop(name) for name in (*AMOUNTS, *ARRAYS) if name in series}
            own = {"series": place if several else None, "series_json": _json(series), "record_json": None if place else text}
            yield of_record | columns | own


def export_run(store: Path, run_id: str) -> str:
    """The content of a results file of that run, with records equal to those that were imported. Raises StoreError."""
    import pyarrow.dataset as ds

    for part in parts(store):
        if run_id not in part.runs:
            continue
        wanted = ds.field("run_id") == run_id
        tables = [ds.dataset(part.path / f"{name}.parquet", format="parquet") for name in ("runs", "samples")]
        (header,) = tables[0].to_table(columns=["header"], filter=wanted).to_pylist()
        columns = ["record", "series", "record_json", "series_json", *AMOUNTS, *ARRAYS]
        rows = tables[1].to_table(columns=columns, filter=wanted).sort_by([("record", "ascending"), ("series", "ascending")])
        lines: list[dict[str, Any]] = []
        for row in rows.to_pylist():
            if row["record_json"] is not None:
                lines.append(json.loads(row["record_json"]) | {"series": []})
            if row["series"] is not None:
                lines[-1]["series"].append(json.loads(row["series_json"]) | {name: row[name] for name in (*AMOUNTS, *ARRAYS)})
        return "".join(f"{line}\n" for line in (header["header"], *map(record_lines.encode, lines)))
    raise StoreError(
        f"{store} has no run {printable(run_id)[:40]}: list them with clmembench fleet show {argument(store)} --sql 'from runs'"
    )


def parts(store: Path) -> list[Part]:
    """The parts whose runs count, each run in one of them. Raises StoreError."""
    open_store(store)
    return effective_parts((store / "parts").glob(f"date=*/model=*/{VISIBLE}"))


def effective_parts(paths: Iterable[Path]) -> list[Part]:
    """The parts of those paths that have a run of which no other one has more records."""
    found = sorted(((path, _members(path)) for path in paths), key=lambda one: (-len(one[1]), str(one[0])))
    owner: dict[str, tuple[Path, int]] = {}
    for path, members in found:
        for run_id, records in members.items():
            if run_id not in owner or owner[run_id][1] < records:
                owner[run_id] = path, records
    kept = []
    for path, members in found:
        own = tuple(run_id for run_id in members if owner[run_id][0] == path)
        if own:
            kept.append(Part(path, own, tuple(members.keys() - set(own))))
    return kept


def _members(path: Path) -> dict[str, int]:
    """The runs of a part with their numbers of records; none of a part that was merged into another one meanwhile."""
    import pyarrow.parquet as pq

    single = _SINGLE.fullmatch(path.name)
    if single is not None:
        return {single[1]: int(single[2])}
    try:
        rows = pq.read_table(path / "runs.parquet", columns=["run_id", "records"], partitioning=None).to_pylist()
    except FileNotFoundError:
        return {}
    return {row["run_id"]: row["records"] for row in rows}
