"""Measures the kernels in scripts/kernels and those of the project's benchmarks, and compares the times with predictions.

Usage: python scripts/validate_kernels.py measure DEVICE cpu|gpu MEASURED.json [KERNEL|CLASS...]
       python scripts/validate_kernels.py stored RUN cpu|gpu MEASURED.json [KERNEL|CLASS...]
       python scripts/validate_kernels.py predict RUN[,RUN...] cpu|gpu MEASURED.json TABLE.csv [KERNEL|CLASS...]
"""

from __future__ import annotations

import ast
import csv
import json
import math
import operator
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from clmembench.cli import devices
from clmembench.model import DeviceInfo, Point
from clmembench.results import jsonl
from clmembench.studies.kernel.facts_of_trace import facts_of
from clmembench.studies.kernel.launch import KernelLaunch, buffer_sizes
from clmembench.studies.kernel.measured import MeasuredTime, measure, point_of, time_of
from clmembench.studies.kernel.prediction import measured_devices, predict
from clmembench.studies.kernel.requests import Sample
from clmembench.studies.kernel.trace import Trace, trace, trace_script

FOLDER = Path(__file__).with_name("kernels")
OPERATORS: Mapping[type[ast.AST], Callable[[int, int], int]] = {ast.Mult: operator.mul, ast.Div: operator.floordiv}
TIMEOUT_S = 120.0
TRACE_BENCHMARK = Path(__file__).with_name("trace_benchmark.py")
ACCESSES, TRACE_S = 400_000, 10.0  # of a trace
EDGES_SEEN, NOT_SEEN = 0.25, 1000  # share of vertices of the current level; level of those that were not visited


def launches(scale: str, folder: Path, names: list[str]) -> dict[str, KernelLaunch | Point]:
    """The launch of each of the kernels, or classes, of these names (none: all) in the size of `scale`, cpu or gpu; of a
    benchmark its point. Arrays of indices are written into `folder`."""
    given = tomllib.loads((FOLDER / "launches.toml").read_text())
    chosen = {name: raw for name, raw in given.items() if scale in raw and (not names or {name, raw["class"]} & set(names))}
    return {
        name: Point(raw["benchmark"], {**raw["point"], **raw[scale]})
        if "benchmark" in raw
        else _launch(name, raw, raw[scale], folder)
        for name, raw in chosen.items()
    }


def classes() -> dict[str, str]:
    """The class of every kernel."""
    return {name: raw["class"] for name, raw in tomllib.loads((FOLDER / "launches.toml").read_text()).items()}


def traced(launch: KernelLaunch | Point, run: Path, ops: int, folder: Path) -> tuple[Trace, dict[int, int]]:
    """The trace of a launch, and the bytes of its buffers by their numbers; of a benchmark as on the device of a run."""
    if isinstance(launch, KernelLaunch):
        return trace(launch, ACCESSES, TRACE_S), buffer_sizes(launch)
    sizes = folder / "sizes.json"
    script = [str(TRACE_BENCHMARK), str(run), str(ops), str(sizes), launch.benchmark, json.dumps(dict(launch.params))]
    return trace_script(script, "", ACCESSES, TRACE_S), dict(enumerate(json.loads(sizes.read_text()), 1))


def _launch(name: str, raw: Mapping[str, Any], n: int, folder: Path) -> KernelLaunch:
    arguments = []
    for number, text in enumerate(raw["args"]):
        kind, *parts = text.split(":")
        values = [] if kind == "float" else [_number(part, n) for part in parts]
        array = _array(kind, values, number)
        if array is not None:
            path = folder / f"{kind}-{'-'.join(map(str, values))}-{number}.npy"
            if not path.exists():
                np.save(path, array)
            arguments.append(f"file:{path}")
        else:
            text = f"{kind}:{values[0] if values else parts[0]}" + ":random" * (kind == "buffer")
            arguments.append(text.replace("zeros", "buffer"))
    sizes = tuple(_number(text, n) for text in raw["global"])
    return KernelLaunch(FOLDER / f"{name}.cl", name, sizes, tuple(raw["local"]), tuple(arguments))


def _array(kind: str, values: list[int], seed: int) -> npt.NDArray[np.uint32] | None:
    random = np.random.default_rng(seed)
    if kind == "words":
        return random.integers(0, 1 << 32, values[0], np.uint32)
    if kind == "sorted":
        return np.sort(random.integers(0, 1 << 32, values[0], np.uint32))
    if kind == "places":
        return random.integers(0, values[1], values[0], np.uint32)
    if kind == "rows":
        return values[1] * np.arange(values[0] + 1, dtype=np.uint32)
    if kind == "levels":
        return np.where(random.random(values[0]) < EDGES_SEEN, 1, NOT_SEEN).astype(np.uint32)
    return None


def _number(formula: str, n: int) -> int:
    """The value of a formula of N, whole numbers, products and quotients."""

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name) and node.id == "N":
            return n
        raise ValueError(f"{formula!r} is no product of numbers and N")

    return value(ast.parse(formula, mode="eval").body)


def measure_all(info: DeviceInfo, scale: str, output: Path, names: list[str]) -> None:
    """Measure the kernels on a device, and write the times of all so far after each."""
    rows: list[Mapping[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, launch in launches(scale, Path(folder), names).items():
            point = launch if isinstance(launch, Point) else point_of(launch)
            (time,) = measure(info, [point], TIMEOUT_S)
            rows.append(_row(name, info, time))
            output.write_text(json.dumps(rows, indent=1))


def _row(name: str, info: DeviceInfo, time: MeasuredTime) -> Mapping[str, Any]:
    ns = (time.ns.value, time.ns.low, time.ns.high) if time.ns is not None else None
    print(f"{name:20} " + ("{:12,.1f} us ({:,.1f} to {:,.1f})".format(*(t / 1e3 for t in ns)) if ns else time.reason))
    return {"kernel": name, "device": info.name, "driver": info.driver, "ns": ns, "ops": time.ops, "reason": time.reason}


def write_stored(run: Path, scale: str, output: Path, names: list[str]) -> None:
    """Write the times of those points of benchmarks that a stored run has, the first of each."""
    done = jsonl.read(run)
    rows: list[Mapping[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, launch in launches(scale, Path(folder), names).items():
            found = [one for one in done.records if isinstance(launch, Point) and one.benchmark == launch.benchmark
                     and one.params == launch.params and one.status == "ok"]  # fmt: skip
            if found:
                rows.append(_row(name, done.header.device, time_of(found[0], done.header.device)))
    output.write_text(json.dumps(rows, indent=1))


def predict_all(runs: list[Path], scale: str, measured: Path, table: Path, names: list[str]) -> None:
    """Write the predictions beside the times that were measured."""
    (device,) = measured_devices([jsonl.read(path) for path in runs])
    times = {row["kernel"]: row for row in json.loads(measured.read_text())}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, launch in launches(scale, Path(folder), names).items():
            if name not in times:
                continue
            done, sizes = traced(launch, runs[0], times[name].get("ops", 1), Path(folder))
            facts = facts_of(done, launch if isinstance(launch, KernelLaunch) else None, sum(sizes.values()))
            (found,) = predict(Sample.of(done, sizes), facts, [device])
            ns = times[name]["ns"]
            row = {"kernel": name, "class": classes()[name], "device": times[name]["device"], "sizes": scale,
                   "bound": found.bound, "measured_us": ns and ns[0], "predicted_us": found.ns,
                   "low_us": found.low_ns, "high_us": found.high_ns, "mdm_us": found.mdm_ns,
                   "roofline_us": found.roofline_ns, "bytes_us": found.bytes_ns}  # fmt: skip
            rows.append({key: round(value / 1e3, 2) if isinstance(value, float) else value for key, value in row.items()})
            print("  ".join(f"{value}" for value in rows[-1].values()), flush=True)
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        if not table.stat().st_size:
            writer.writeheader()
        writer.writerows(rows)
    for one in (*dict.fromkeys(row["class"] for row in rows), "all"):
        _print_errors(one, [row for row in rows if one in (row["class"], "all")])


def _print_errors(name: str, rows: list[dict[str, Any]]) -> None:
    """The mean factor between predicted and measured, of the prediction, MDM and both baselines; of a geometric mean."""
    columns = ("predicted_us", "mdm_us", "roofline_us", "bytes_us")
    known = [row for row in rows if row["predicted_us"] and row["measured_us"]]
    if known:
        factors = [
            math.exp(fmean(abs(math.log((row[one] or math.nan) / row["measured_us"])) for row in known)) for one in columns
        ]
        inside = sum(row["low_us"] <= row["measured_us"] <= row["high_us"] for row in known)
        print(f"{name:16} {len(known):3} kernels, off by factors of " + ", ".join(f"{one:.2f}" for one in factors), end="")
        print(f" (prediction, MDM, roofline, bytes); {inside} measured times within the interval")


if __name__ == "__main__":
    _, action, device, scale, *rest = sys.argv
    if action == "measure":
        measure_all(devices.select(devices.listed(device), device), scale, Path(rest[0]), rest[1:])
    elif action == "stored":
        write_stored(Path(device), scale, Path(rest[0]), rest[1:])
    else:
        predict_all([Path(one) for one in device.split(",")], scale, Path(rest[0]), Path(rest[1]), rest[2:])
