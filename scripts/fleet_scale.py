"""Generate the store of a large fleet, and measure what it costs: python scripts/fleet_scale.py DEVICES STORE [--values N].

Four models, eight devices to a host and 16 hosts to a rack. The devices of one host in a thousand are slow by 10% in all values
of stream. Parts are written by the writer of `fleet import`, for PART_DEVICES devices at once. Each command runs in a process
of its own, whose seconds and largest memory are a cell of the row that is printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from clmembench.results import record_lines
from clmembench.studies.fleet import store
from tests.builders import header, record

PART_DEVICES, SAMPLES = 2000, 4
MODELS = ("Synthetic A", "Synthetic B", "Synthetic C", "Synthetic D")
SIZES = tuple(2**power for power in range(14, 31))
OPS = ("copy", "scale", "add", "triad", "dot", "read")
SQL = (
    "SELECT * FROM (SELECT model, device, median, row_number() OVER (PARTITION BY model ORDER BY median) AS place FROM points "
    "WHERE benchmark = 'stream' AND headline = 'triad') WHERE place <= 20 ORDER BY model, place"
)


def quantities(count: int) -> list[tuple[str, str, str, str]]:
    """Benchmark, point, headline and direction of that many values, in the order of a part."""
    points = [("stream", f"op={op} array_bytes={size}") for op in OPS for size in SIZES]
    points += [("pchase", f"spacing_bytes=line array_bytes={size}") for size in SIZES]
    points += [("arithmetic", f"type=float chains={n}") for n in range(count)]
    chosen = sorted(points[:count])
    names = {f"op={op} array_bytes={SIZES[-1]}": op for op in OPS} | {
        f"spacing_bytes=line array_bytes={SIZES[-1]}": "memory latency"
    }
    return [(name, point, names.get(point, ""), "lower" if name == "pchase" else "higher") for name, point in chosen]


def write_part(at: Path, model: int, first: int, devices: int, values: int, rng: np.random.Generator) -> None:
    """The runs of so many devices of a model, the first of which has that number in the fleet."""
    every = quantities(values)
    numbers = first + np.arange(devices)
    head = header(host={"name": "n0", "virtual": False}, started="2026-11-27T10:00:00+00:00")
    head = replace(head, device=replace(head.device, name=MODELS[model]))
    spread = 0.003 * (1 + np.arange(values) % 10)
    speed = np.exp(rng.normal(0, 1, (values, devices)) * spread[:, None])
    is_slow = (numbers // 8) % 1000 == 100
    speed[np.array([name == "stream" for name, *_ in every])[:, None] & is_slow] *= 0.9
    is_latency = np.array([better == "lower" for *_, better in every])
    median = np.where(is_latency[:, None], 100 / speed, 100 * (1 + np.arange(values))[:, None] * speed).ravel()

    def repeated(texts: list[str]) -> pa.Array:
        return pa.array(texts).dictionary_encode().take(pa.array(np.repeat(np.arange(values), devices)))

    def constant(value: object, kind: pa.DataType, rows: int) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), rows).cast(kind)

    ids = [f"{number:026d}" for number in numbers]
    identity = {
        "run_id": ids,
        "device": [f"{number:032x}" for number in numbers],
        "model": [store.device_model(head)] * devices,
        "date": [head.started[:10]] * devices,
    }
    whole = {
        name: pa.DictionaryArray.from_arrays(pa.array(np.tile(np.arange(devices), values), pa.int32()), texts)
        for name, texts in identity.items()
    }
    rows = devices * values
    own = {
        "benchmark": repeated([name for name, *_ in every]), "point": repeated([point for _, point, *_ in every]),
        "headline": repeated([headline for _, _, headline, _ in every]), "better": repeated([better for *_, better in every]),
        "median": median, "ci_low": median * 0.998, "ci_high": median * 1.002, "repeat_sd": np.full(rows, 0.003),
        "repeat_freedom": np.full(rows, 4.0), "slack": np.zeros(rows), "q1": median * 0.999, "q3": median * 1.001,
        "min": median * 0.997,
    }  # fmt: skip
    fixed: dict[str, Any] = dict.fromkeys(("gate", "cause", "reason"), "")
    fixed |= {"params": "{}", "tuning": "{}", "metric": "bandwidth"}
    fixed |= {"unit": "GB/s", "status": "ok", "version": 1, "n": 32, "processes": 1, "peak": None, "core_clock_ghz": 1.5}
    offsets, ns = np.arange(rows + 1) * SAMPLES, np.repeat((1e6 / median).astype(np.int64), SAMPLES)
    times = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(ns))
    sampled = {"host_ns": times, "device_ns": times, "record": np.repeat(np.arange(values), devices)}
    rest: dict[str, Any] = {"version": 1, "params": "{}", "process": 0, "role": "measure", "status": "ok"}
    rest |= {"series": 0, "clock": "device"}
    rest |= {"passes": 1, "nbytes": 1, "flops": 0, "ops": 0, "series_json": "{}"}
    rest["record_json"] = record_lines.encode(record("stream", {}))

    def table(name: str, columns: Mapping[str, Any], constants: Mapping[str, Any]) -> pa.Table:
        fields = store.schema(name)
        of = [columns[one.name] if one.name in columns else constant(constants.get(one.name), one.type, rows) for one in fields]
        return pa.Table.from_arrays([one if isinstance(one, pa.Array) else pa.array(one) for one in of], schema=fields)

    runs = [
        {
            **{name: texts[place] for name, texts in identity.items()},
            "started": head.started, "name": f"n{number // 8} 0:{number % 8}", "host": f"n{number // 8}", "driver": "1.0",
            "platform": "Test Platform", "runtime": "fake", "label": "", "suite": "all", "tool_version": "0.0",
            "source_revision": "", "tags": [("rack", f"r{number // 128}")], "sensors": [("temperature_c", 60.0 + number % 7)],
            "core_clock_ghz": 1.5, "records": values, "header": record_lines.encode(head),
        }
        for place, number in enumerate(numbers.tolist())
    ]  # fmt: skip
    tables = {
        "runs": pa.Table.from_pylist(runs, schema=store.schema("runs")),
        "points": table("points", whole | own, fixed),
        "samples": table("samples", whole | sampled | {"benchmark": own["benchmark"]}, rest),
    }
    store.write_part(store.partition(at, head), f"pack_{first:08d}", partial(store.write_tables, tables))


def generate(at: Path, devices: int, values: int, seed: int) -> None:
    """The whole store."""
    store.open_store(at, create=True)
    rng = np.random.default_rng(seed)
    share = -(-devices // len(MODELS))
    for model in range(len(MODELS)):
        for first in range(model * share, min(devices, (model + 1) * share), PART_DEVICES):
            write_part(at, model, first, min(PART_DEVICES, (model + 1) * share - first, devices - first), values, rng)


def measured(*words: str) -> str:
    """Seconds, those of CPU time, and largest memory of a process."""
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)} failed")
    seconds, cpu = time.monotonic() - began, usage.ru_utime + usage.ru_stime
    return f"{seconds:.1f} s ({cpu:.1f} s CPU), {usage.ru_maxrss / 1024:,.0f} MiB"


def main() -> None:
    """Generate the store in a process of its own, where there is none, then measure the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", type=int)
    parser.add_argument("store", type=Path)
    parser.add_argument("--values", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--generate", action="store_true", help="write the store only")
    given = parser.parse_args()
    if given.generate:
        generate(given.store, given.devices, given.values, given.seed)
        return
    at, own = str(given.store), [str(given.devices), str(given.store), "--values", str(given.values), "--seed", str(given.seed)]
    costs = ["–" if given.store.exists() else measured(__file__, *own, "--generate")]
    for words in (["show", at, "--sql", SQL, "--json"], ["report", at, "-o", f"{at}.html", "--overwrite"]):
        costs.append(measured("-P", "-m", "clmembench", "fleet", *words))
    size = sum(path.stat().st_size for path in given.store.rglob("*.parquet")) / 1e9
    print(f"| {given.devices:,} | {given.devices * given.values:,} | {size:.2f} GB | {' | '.join(costs)} |")


if __name__ == "__main__":
    main()
