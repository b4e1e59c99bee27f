"""Compaction of a store: the parts of many runs become one, so that a query opens few files."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from clmembench.studies.fleet import query
from clmembench.studies.fleet.store import (
    ORDER,
    ROW_GROUP_ROWS,
    SMALL_ROW_GROUP_ROWS,
    TABLES,
    VISIBLE,
    Part,
    effective_parts,
    open_store,
    write_part,
)  # fmt: skip

MAX_PACK_ROWS = 2_000_000  # points of a pack, which is sorted in memory
MIN_PACK_PARTS = 16  # of a partition, from which on they are merged
MAX_TEMPORARY_AGE_S = 86_400.0  # a writer's temporary folder that is older was abandoned


def compact(store: Path) -> int:
    """Merge the parts of each day and model that has many, at most MAX_PACK_ROWS points to a part, sorted so that a query reads
    the points of one benchmark alone; how many parts fewer there are. Readers, writers and others that compact may go on."""
    import duckdb

    open_store(store)
    fewer = 0
    for folder in sorted((store / "parts").glob("date=*/model=*")):
        with contextlib.suppress(FileNotFoundError, duckdb.IOException):  # another process merged the same parts
            fewer += _compact_partition(folder)
    return fewer


def _compact_partition(folder: Path) -> int:
    for path in folder.glob(".*"):
        if time.time() - path.stat().st_mtime > MAX_TEMPORARY_AGE_S:
            shutil.rmtree(path, ignore_errors=True)
    every = list(folder.glob(VISIBLE))
    used = effective_parts(every)
    unused = set(every) - {part.path for part in used}
    small = [part for part in used if _point_rows(part.path) < MAX_PACK_ROWS / 2]
    for group in _groups(small) if len(every) >= MIN_PACK_PARTS else ():
        _merge(folder, group)
        unused |= {part.path for part in group}
    for path in unused:
        shutil.rmtree(path, ignore_errors=True)
    return len(every) - len(list(folder.glob(VISIBLE)))


def _point_rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path / "points.parquet").num_rows)


def _groups(small: Sequence[Part]) -> Iterator[list[Part]]:
    """Parts that are merged into one each."""
    group: list[Part] = []
    rows = 0
    for part in small:
        here = _point_rows(part.path)
        if len(group) > 1 and rows + here > MAX_PACK_ROWS:
            yield group
            group, rows = [], 0
        group.append(part)
        rows += here
    if len(group) > 1:
        yield group


def _merge(folder: Path, group: Sequence[Part]) -> None:
    """Write one part that has the runs of these."""
    names = sorted(f"{run_id} {part.path.name}" for part in group for run_id in part.runs)
    name = f"pack_{hashlib.sha256(' '.join(names).encode()).hexdigest()[:32]}"
    with query.opened(folder, group) as database:

        def write(temporary: Path) -> None:
            for table in TABLES:
                order, rows = (ORDER, ROW_GROUP_ROWS) if table == "points" else (("run_id",), SMALL_ROW_GROUP_ROWS)
                target = query.quoted(str(temporary.resolve() / f"{table}.parquet"))
                options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {rows}"
                database.execute(f"COPY (FROM {table} ORDER BY {', '.join(order)}) TO {target} ({options})")

        write_part(folder, name, write)
