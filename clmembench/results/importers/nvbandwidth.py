"""nvbandwidth's text and its `--json` (of 0.2 to 0.8): a matrix of rates for each test case, with a column per GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clmembench.results.imported import SCHEMA, ImportedRun, ImportedValue, ImportFault, with_distinct_devices
from clmembench.results.importers.foreign_text import first_line, number, parse, part, refuse_wrong, text_of

# copies by the copy engine between pinned memory of the host and a GPU, one way, are ours
DIRECTIONS = {"host_to_device_memcpy_ce": "to_device", "device_to_host_memcpy_ce": "from_device"}
STATISTIC = "median of 3 repetitions, unless it was told otherwise, which it does not say"
UNITS = {"(GB/s)": "GB/s", "(ns)": "ns"}
PASSED = "Passed"
WRONG = re.compile(r".*Invalid value when checking the pattern.*")  # printed by the GPU, whatever form the rest has
FAILED = re.compile(r"\s*(?:\[?(?:CUDA|NVML)_ERROR|ERROR|Error|ASSERT|Waived|Not Found)\b.*")
NO_NUMBERS = ("N/A", "nan", "-nan", "inf", "-inf")


class TestCase(NamedTuple):
    """A test case: `status` is Passed, or why it has no values; the cells of its matrix are texts."""

    name: str
    status: str
    description: str
    matrix: Sequence[Sequence[str]]


def read(text: str) -> list[ImportedRun]:
    """A run for each GPU, with its index and PCI address: what it has with the host or by itself. Rates between GPUs are left
    out, and so is what nvbandwidth says has failed."""
    if re.search(r"^\s*\{", text, re.MULTILINE):
        refuse_wrong(WRONG.findall(text), "nvbandwidth")
        listed, cases, version, driver, error = _from_json(text)
    else:
        listed, cases, version, driver, error = _from_text(text)
    if not listed:
        raise ImportFault("it names no GPU")
    values: list[list[ImportedValue]] = [[] for _ in listed]
    left_out = [error] if error else []
    failed = {case.name: case.status for case in cases if case.status not in (PASSED, "Running")}
    for case in cases:
        if case.name in failed or case.status != PASSED:
            left_out.append(f"{case.name}: {failed.get(case.name) or case.status or 'no status'}")
        elif len(case.matrix) != 1 or len(case.matrix[0]) != len(listed):
            left_out.append(f"{case.name}: it is of pairs of GPUs")
        else:
            for column, cell in zip(values, case.matrix[0], strict=True):
                value = _value(case.name, case.description, cell)
                if value is not None:
                    column.append(value)
            if any(cell.lower() in NO_NUMBERS[1:] for cell in case.matrix[0]):
                left_out.append(f"{case.name}: {', '.join(case.matrix[0])[:100]}: not every one is a number")
    named = tuple(dict.fromkeys(left_out))
    return with_distinct_devices(
        [
            ImportedRun(SCHEMA, "nvbandwidth", version, name, "CUDA", driver, "", tuple(of), named, address=address)
            for (name, address), of in zip(map(_name, listed), values, strict=True)
        ]
    )


Parsed = tuple[
    Sequence[str], list[TestCase], str, str, str
]  # GPUs, cases, version, driver, and an error that ended the program


def _from_json(text: str) -> Parsed:
    found = part(parse(text, "nvbandwidth"), "nvbandwidth", dict, "it")
    listed = found.get("GPU Device list") or found.get("GPU Device info")
    error = text_of(found, "error").strip()[:200]
    # an error of CUDA ends the program within a test, which has no values; any other may be of every test
    if error and "CUDA_ERROR" not in error and "NVML_ERROR" not in error:
        raise ImportFault(f"nvbandwidth itself reports an error: {error}")
    if not isinstance(listed, list):
        raise ImportFault(f"it names no GPU{f': {error}' if error else ''}")
    cases = [_case(case) for case in part(found, "testcases", list, "it")]
    return list(map(str, listed)), cases, text_of(found, "version"), text_of(found, "Driver Version"), error


def _case(case: Any) -> TestCase:
    name, status, matrix = part(case, "name", str, "a test case"), text_of(case, "status"), case.get("bandwidth_matrix")
    status = text_of(case, "error").strip()[:200] or status
    if not isinstance(matrix, list) or not all(isinstance(row, list) for row in matrix):
        return TestCase(name, status if status != PASSED else "no matrix", "", [])
    return TestCase(
        name, status, text_of(case, "bandwidth_description"), [[str(cell).strip() for cell in row] for row in matrix]
    )


def _from_text(text: str) -> Parsed:
    version = first_line(text, "nvbandwidth Version: (.+)")
    blocks = re.split(r"^Running ([\w.-]+?)\.?[ \t\r]*$", text, flags=re.MULTILINE)
    if not version or len(blocks) < 3:
        raise ImportFault("it holds no result of nvbandwidth: give its text, or what it prints with --json")
    listed = [line.strip() for line in re.findall(r"^Device (\d+: .+)$", blocks[0], re.MULTILINE)]
    cases = [_text_case(name, block) for name, block in zip(blocks[1::2], blocks[2::2], strict=True)]
    return listed, cases, version, first_line(text, "Driver Version: (.+)"), ""


def _text_case(name: str, block: str) -> TestCase:
    """A test case from the lines after its name: a description that ends with the unit, the numbers of the columns, and rows
    that begin with their own."""
    lines = [line.strip() for line in block.splitlines() if line.strip()]
    for line in lines:
        if WRONG.match(line) or FAILED.match(line):
            return TestCase(name, line[:200].rstrip(": "), "", [])
    at = next((n for n, line in enumerate(lines) if line.endswith(tuple(UNITS))), len(lines))
    if sum(line.endswith(tuple(UNITS)) for line in lines) > 1:
        return TestCase(name, "it has several matrices", "", [])
    columns = lines[at + 1].split() if at + 1 < len(lines) else []
    if columns != list(map(str, range(len(columns)))) or not columns:
        return TestCase(name, "it has no matrix with a column per GPU", "", [])
    rows = []
    for line in lines[at + 2 :]:
        cells = line.split()
        if not re.fullmatch(r"\d+", cells[0]):
            break
        if len(cells) != len(columns) + 1:
            raise ImportFault(f"{name}: a row has {len(cells) - 1} numbers under {len(columns)} columns: {line[:100]}")
        rows.append(cells[1:])
    return TestCase(name, PASSED, lines[at], rows)


def _name(device: str) -> tuple[str, str]:
    """The name, and the index with the PCI address, in "0: NVIDIA H100 PCIe (00000000:01:00): (host)"; the host's stays out."""
    match = re.fullmatch(r"(\d+): (.+?)(?: \(([0-9a-fA-F:.]+)\))?(?:: \(.*\))?", device.strip())
    if match is None:
        raise ImportFault(f"it names a GPU in another way: {device[:100]}")
    return match[2].strip(), ", ".join(filter(None, (f"GPU {match[1]}", match[3])))


def _value(name: str, described: str, cell: str) -> ImportedValue | None:
    """The value of a cell, a number as text; None of one that the GPU does not have, or that is no number."""
    if cell in NO_NUMBERS or cell.lower() in NO_NUMBERS[1:]:
        return None
    try:
        rate = number(cell)
    except (ValueError, OverflowError) as error:
        raise ImportFault(f"{name}: {error}") from error
    unit = next((unit for mark, unit in UNITS.items() if described.endswith(mark)), "")
    if not unit:
        raise ImportFault(f"{name}: {described[:100]!r} names no unit")
    if name in DIRECTIONS and unit == "GB/s":
        params: Mapping[str, str] = {"direction": DIRECTIONS[name], "memory": "pinned"}
        return ImportedValue(name, rate, unit, STATISTIC, "transfer", "link_bandwidth", params)
    return ImportedValue(name, rate, unit, STATISTIC, note=described)
