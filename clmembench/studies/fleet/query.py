"""Queries of a store by DuckDB: views of its tables, which reads nothing outside of the store and writes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clmembench.studies.fleet.store import TABLES, Part

if TYPE_CHECKING:
    import duckdb


class QueryError(ValueError):
    """A query cannot be answered; the message is DuckDB's, or says what is not allowed."""


MEMORY_LIMIT = "800MiB"
DEVICES = """
CREATE VIEW devices AS SELECT device, any_value(model) AS model, arg_max(name, started) AS name, arg_max(host, started) AS host,
arg_max(driver, started) AS driver, arg_max(platform, started) AS platform, arg_max(tags, started) AS tags,
arg_max(sensors, started) AS sensors, arg_max(core_clock_ghz, started) AS core_clock_ghz, count(*) AS runs,
min(started) AS first_run, max(started) AS last_run, arg_max(run_id, started) AS last_run_id FROM runs GROUP BY device
"""


@contextmanager
def opened(folder: Path, of: Sequence[Part]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with a view for each table of these parts, which lie in that folder."""
    import duckdb

    with duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}) as database:
        database.execute(f"SET memory_limit='{MEMORY_LIMIT}'; SET preserve_insertion_order=false")
        database.execute("SET allowed_directories=[$1]", [f"{folder.resolve()}/"])
        database.execute("SET enable_external_access=false")
        for table in TABLES:
            database.execute(f"CREATE VIEW {table} AS {_rows(table, of)}")
        database.execute(DEVICES)
        database.execute("SET lock_configuration=true")
        yield database


def _rows(table: str, of: Sequence[Part]) -> str:
    """The rows of a table in parts that count, as SQL."""
    whole = [part for part in of if not part.left_out]
    selects = [f"SELECT * FROM {_files(table, whole)}"] if whole else []  # noqa: S608 - our own names, quoted
    for part in of:
        if part.left_out:
            ids = ", ".join(map(quoted, part.runs))
            selects.append(f"SELECT * FROM {_files(table, [part])} WHERE run_id IN ({ids})")  # noqa: S608
    return " UNION ALL ".join(selects)


def _files(table: str, of: Sequence[Part]) -> str:
    names = ", ".join(quoted(str(part.path.resolve() / f"{table}.parquet")) for part in of)
    return f"read_parquet([{names}], hive_partitioning=false)"


def quoted(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def points_where(condition: str) -> str:
    """The query of `--where`."""
    shown = "device, host, model, date, benchmark, point, metric, status, median, ci_low, ci_high, unit, reason"
    every = "SELECT p.*, host, driver, tags, sensors FROM points p JOIN runs USING (run_id)"
    return f"SELECT {shown} FROM ({every}) WHERE {condition}"  # noqa: S608 - `answer` takes no more than a SELECT


def answer(database: duckdb.DuckDBPyConnection, query: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """The columns and rows of one SELECT. Raises QueryError for anything else."""
    import duckdb

    try:
        statements = database.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QueryError("a query is one SELECT: a store is read, and changed by import alone")
        found = database.execute(statements[0])
        return [column[0] for column in found.description or ()], found.fetchall()
    except duckdb.Error as error:
        raise QueryError(f"DuckDB: {str(error).splitlines()[0]}") from error


def plain(cell: object) -> object:
    """A value as JSON has it."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    if isinstance(cell, list | tuple):
        return [plain(one) for one in cell]
    if isinstance(cell, dict):
        return {str(key): plain(value) for key, value in cell.items()}
    return cell if isinstance(cell, str | int | float | bool | None) else str(cell)
