"""nvbandwidth's `--json` (of 0.8): a matrix of rates for each test case, with a column a GPU."""

from __future__ import annotations

import re
from typing import Any

from clmembench.results.imported import SCHEMA, ImportedRun, ImportedValue, ImportFault
from clmembench.results.importers.json_text import parse, part, text_of

# copies by the copy engine between pinned memory of the host and a GPU, one way, are ours
DIRECTIONS = {"host_to_device_memcpy_ce": "to_device", "device_to_host_memcpy_ce": "from_device"}
STATISTIC = "median of 3 repetitions, unless it was told otherwise, which it does not say"
UNITS = {"(GB/s)": "GB/s", "(ns)": "ns"}


def read(text: str) -> list[ImportedRun]:
    """A run for each GPU: what it has with the host or by itself. Rates between GPUs are left out."""
    found = part(parse(text, "nvbandwidth"), "nvbandwidth", dict, "it")
    listed = found.get("GPU Device list") or found.get("GPU Device info")
    if not isinstance(listed, list) or not listed:
        raise ImportFault("it names no GPU")
    cases, left_out = part(found, "testcases", list, "it"), list[str]()
    values: list[list[ImportedValue]] = [[] for _ in listed]
    for case in cases:
        name = part(case, "name", str, "a test case")
        matrix, status = case.get("bandwidth_matrix"), text_of(case, "status")
        if status != "Passed" or not isinstance(matrix, list):
            left_out.append(f"{name}: {status or 'no status'}")
        elif len(matrix) != 1 or not isinstance(matrix[0], list) or len(matrix[0]) != len(listed):
            left_out.append(f"{name}: it is of pairs of GPUs")
        else:
            for column, cell in zip(values, matrix[0], strict=True):
                value = _value(name, text_of(case, "bandwidth_description"), cell)
                if value is not None:
                    column.append(value)
    version, driver = text_of(found, "version"), text_of(found, "Driver Version")
    return [
        ImportedRun(SCHEMA, "nvbandwidth", version, _name(device), "CUDA", driver, "", tuple(of), tuple(left_out))
        for device, of in zip(listed, values, strict=True)
    ]


def _name(device: Any) -> str:
    """The name in "0: NVIDIA H100 PCIe (00000000:01:00): (host)"; the host's stays out."""
    match = re.fullmatch(r"\d+: (.+?)(?: \([0-9a-fA-F:.]+\))?(?:: \(.*\))?", str(device).strip())
    if match is None:
        raise ImportFault(f"it names a GPU in another way: {str(device)[:100]}")
    return match[1].strip()


def _value(name: str, described: str, cell: object) -> ImportedValue | None:
    """The value of a cell, a number as text; None of one that the GPU does not have."""
    if cell == "N/A":
        return None
    try:
        number = float(str(cell))
    except ValueError as error:
        raise ImportFault(f"{name}: {str(cell)[:40]!r} is no number") from error
    unit = next((unit for mark, unit in UNITS.items() if described.endswith(mark)), "")
    if not unit:
        raise ImportFault(f"{name}: {described[:100]!r} names no unit")
    if name in DIRECTIONS and unit == "GB/s":
        params = {"direction": DIRECTIONS[name], "memory": "pinned"}
        return ImportedValue(name, number, unit, STATISTIC, "transfer", "link_bandwidth", params)
    return ImportedValue(name, number, unit, STATISTIC, note=described)
