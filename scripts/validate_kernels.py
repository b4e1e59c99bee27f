"""Measures the kernels in scripts/kernels and compares the times with predictions from stored runs.

Usage: python scripts/validate_kernels.py measure DEVICE MEASURED.json [KERNEL...]
"""

from __future__ import annotations

import ast
import json
import operator
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clmembench.cli import devices
from clmembench.model import DeviceInfo
from clmembench.studies.kernel.launch import KernelLaunch
from clmembench.studies.kernel.measured import measure

FOLDER = Path(__file__).with_name("kernels")
OPERATORS: Mapping[type[ast.AST], Callable[[int, int], int]] = {ast.Mult: operator.mul, ast.Div: operator.floordiv}
TIMEOUT_S = 120.0
EDGES_SEEN, NOT_SEEN = 0.25, 1000  # share of vertices of the current level; level of those that were not visited


def launches(scale: str, folder: Path) -> dict[str, KernelLaunch]:
    """The launch of every kernel in the size of `scale`, cpu or gpu; arrays of indices are written into `folder`."""
    given = tomllib.loads((FOLDER / "launches.toml").read_text())
    return {name: _launch(name, raw, raw[scale], folder) for name, raw in given.items()}


def classes() -> dict[str, str]:
    """The class of every kernel."""
    return {name: raw["class"] for name, raw in tomllib.loads((FOLDER / "launches.toml").read_text()).items()}


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
            arguments.append(f"{kind}:{values[0] if values else parts[0]}" + ":random" * (kind == "buffer"))
    sizes = tuple(_number(text, n) for text in raw["global"])
    return KernelLaunch(FOLDER / f"{name}.cl", name, sizes, tuple(raw["local"]), tuple(arguments))


def _array(kind: str, values: list[int], seed: int) -> npt.NDArray[np.uint32] | None:
    random = np.random.default_rng(seed)
    if kind == "words":
        return random.integers(0, 1 << 32, values[0], np.uint32)
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


def measure_all(info: DeviceInfo, output: Path, names: list[str]) -> None:
    """Measure the kernels on a device and write their times."""
    scale = "cpu" if info.has_cpu_cores else "gpu"
    with tempfile.TemporaryDirectory() as folder:
        chosen = {name: launch for name, launch in launches(scale, Path(folder)).items() if not names or name in names}
        times = measure(info, list(chosen.values()), TIMEOUT_S)
    rows = []
    for name, time in zip(chosen, times, strict=True):
        ns = (time.ns.value, time.ns.low, time.ns.high) if time.ns is not None else None
        rows.append(
            {"kernel": name, "device": info.name, "driver": info.driver, "scale": scale, "ns": ns, "reason": time.reason}
        )
        print(f"{name:20} " + ("{:12,.1f} us ({:,.1f} to {:,.1f})".format(*(t / 1e3 for t in ns)) if ns else time.reason))
    output.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    _, action, device, output, *names = sys.argv
    if action == "measure":
        measure_all(devices.select(devices.listed(device), device), Path(output), names)
