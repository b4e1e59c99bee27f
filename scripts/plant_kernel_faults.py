"""Plants one fault at a time in a copy of the kernels and prints the check that finds it, as a Markdown table.

The faults are the removal of each barrier and of each memory fence in cl_kernels/, and those in kernel_faults.toml, which also
lists the checks of each kernel file: benchmarks whose points run it under Oclgrind, and tests that run it on PoCL. Each check
must pass with the unchanged kernels. The working tree is not changed: package, kernels and tests are copied. The exit code is 1
when a fault is not found and the list gives no reason, or when a fault is found although it does.
Usage: python scripts/plant_kernel_faults.py [FILE ...] [--only TEXT] [--checks oclgrind pocl] [--table FILE]
       FILE is the name of a kernel file without .cl; --only selects the faults with TEXT in their description
python scripts/site_tables.py planted-faults < FILE stores the table of all kernels in docs/tables.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.benchmarks.test_oclgrind import Outcome, problems
from tests.faulty import ROOT, tree
from tests.oclgrind import EVERY, environment

FAULT_LIST = Path(__file__).with_name("kernel_faults.toml")
REMOVAL_PATTERNS = {"barrier": r"\bbarrier\([^)]*\);?", "fence": r"\b(?:read_|write_)?mem_fence\([^)]*\);?"}
CHECK_LIMIT_S = 900.0  # several times the slowest check without a fault
PYTEST_FAILED = 1  # pytest's exit code where some tests failed; others mean that tests could not run
NOT_FOUND = "NOT FOUND"
PR_SET_PDEATHSIG = 1  # of Linux's prctl


@dataclass(frozen=True, slots=True)
class Fault:
    """The text of a kernel file with one fault, the fault's line, and the reason why no check can find it, if there is one."""

    file: str
    line: int
    name: str
    text: str
    reason: str = ""


class BrokenCheck(Exception):
    """A check that fails without a fault, or a fault that does not compile: its result would mean nothing."""


def removals(file: str, text: str, reasons: Mapping[str, str]) -> Iterator[Fault]:
    """A fault for each barrier and each fence of a kernel file; `reasons` by kind and number, as in "barrier 1"."""
    for kind, pattern in REMOVAL_PATTERNS.items():
        found = [m for m in re.finditer(pattern, text) if "//" not in text[text.rfind("\n", 0, m.start()) + 1 : m.start()]]
        for number, match in enumerate(found, 1):
            kept = text[: match.start()] + (";" if match[0].endswith(";") else "") + text[match.end() :]
            line = text.count("\n", 0, match.start()) + 1
            yield Fault(file, line, f"{kind} {number} of {len(found)} removed", kept, reasons.get(f"{kind} {number}", ""))


def edits(file: str, text: str, listed: Sequence[Mapping[str, str]]) -> Iterator[Fault]:
    """The listed faults of a kernel file. Raises ValueError where the text that a fault replaces does not occur exactly
    once."""
    for fault in listed:
        if fault["file"] != file:
            continue
        if text.count(fault["old"]) != 1:
            raise ValueError(
                f"{file}.cl has {text.count(fault['old'])} times {fault['old']!r}, not once: mend {FAULT_LIST.name}"
            )
        line = text[: text.index(fault["old"])].count("\n") + 1
        name = f"{fault['kind']}: `{' '.join(fault['old'].split())}`"
        yield Fault(file, line, name, text.replace(fault["old"], fault["new"]), fault.get("reason", ""))


def faults(kernels: Path, listed: Mapping[str, Any]) -> list[Fault]:
    """Every fault of every kernel file, file by file."""
    made: list[Fault] = []
    for path in sorted(kernels.glob("*.cl")):
        text = path.read_text(encoding="utf-8")
        made += removals(path.stem, text, listed["unseen"].get(path.stem, {}))
        made += edits(path.stem, text, listed["fault"])
    return made


def run(command: Sequence[str], folder: Path, given: Mapping[str, str]) -> subprocess.Popen[str]:
    """A process in the copied tree, which imports the tree's modules before all others. It leads a group of its own, which
    `end` kills, and ends when this script does, however that ends: a planted fault may make a kernel endless."""
    env = {**given, "PYTHONPATH": str(folder), "PYOPENCL_NO_CACHE": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdout=pipe,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=_end_with_parent,
    )


def _end_with_parent() -> None:
    """Linux kills this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end(process: subprocess.Popen[str]) -> None:
    """Kills a process and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def check_by_oclgrind(check: str, folder: Path) -> str:
    """The first finding of Oclgrind or of a point's check; empty where all points are clean. `check` is a benchmark, or
    "benchmark: kind" for its points on one kind of device."""
    benchmark, _, kind = check.partition(": ")
    log = folder / "oclgrind.log"
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.oclgrind", benchmark, kind, EVERY]
    process, points, said = run(command, folder, environment(log)), 0, []
    assert process.stdout is not None
    alarm = threading.Timer(CHECK_LIMIT_S, os.killpg, (process.pid, signal.SIGKILL))
    alarm.start()
    try:
        for line in process.stdout:
            point = json.loads(line) if line.startswith("{") else {}
            said += [] if point else [line.strip()]
            points += "point" in point
            found = problems(Outcome((point,), "")) if "point" in point else []
            if found and "BuildError" in found[0]:
                raise BrokenCheck(found[0])
            if found:
                first = re.sub(r" address 0x\w+.*", "", found[0].partition(":\n")[2] or "wrong result").splitlines()[0]
                return f"{benchmark}: {first}"
        code = process.wait()
    finally:
        alarm.cancel()
        end(process)
    if code or not points:
        return f"{benchmark}: its process ended with {code} ({' '.join(said)[-80:]})"
    return ""


def check_by_pocl(tests: str, folder: Path) -> str:
    """The first test that fails; empty where all pass. Raises BrokenCheck where they cannot run."""
    # by one process: several that stop at the first failure call it an interruption
    command = [sys.executable, "-m", "pytest", "-n0", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *shlex.split(tests)]
    process = run(command, folder, os.environ)
    try:
        output, _ = process.communicate(timeout=CHECK_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"{tests}: no end within {CHECK_LIMIT_S:.0f} s"
    finally:
        end(process)
    if process.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) tests/(?:\w+/)*(\w+)\.py::(\w+)", output, re.MULTILINE)
    if "error: " in output and "BuildError" in output:
        raise BrokenCheck(output[-2000:])
    if process.returncode == PYTEST_FAILED and failed:
        return f"{failed[1]}: {failed[2]}"
    if process.returncode < 0:
        return f"{tests}: died of signal {-process.returncode}"
    raise BrokenCheck(f"{tests}: exit code {process.returncode}\n{output[-2000:]}")


CHECKS = {"oclgrind": check_by_oclgrind, "pocl": check_by_pocl}


def first_finding(kind: str, wanted: Sequence[str], folder: Path) -> str:
    """The first finding among the checks of one kind."""
    return next((found for check in wanted if (found := CHECKS[kind](check, folder))), "")


def table(rows: Sequence[tuple[Fault, Mapping[str, str]]], kinds: Sequence[str]) -> str:
    """A row for each fault and a column for each kind of check."""
    lines = ["| kernel | fault | " + " | ".join(kinds) + " | why none can |", "|---" * (len(kinds) + 3) + "|"]
    for fault, found in rows:
        name = fault.name.replace("|", "\\|")
        cells = [found.get(kind, "not run there") or (NOT_FOUND if not fault.reason else "–") for kind in kinds]
        lines.append(f"| `{fault.file}.cl:{fault.line}` | {name} | " + " | ".join(cells) + f" | {fault.reason} |")
    return "\n".join(lines)


def copy(folder: Path) -> Path:
    """Copies the package, its kernels and its tests into a folder, from which they then run."""
    tree(folder, fake=False)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    return folder


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", help="kernel files without .cl; all when none is named")
    parser.add_argument("--only", default="", help="faults with this text in their description")
    parser.add_argument("--checks", nargs="+", choices=[*CHECKS], default=[*CHECKS])
    parser.add_argument("--table", type=Path, help="also write the table into this file, after each fault")
    return parser.parse_args(arguments)


def main() -> int:
    """Plants the faults one by one; returns the exit code."""
    given, listed = options(), tomllib.loads(FAULT_LIST.read_text(encoding="utf-8"))
    planted = [f for f in faults(ROOT / "cl_kernels", listed) if f.file in (given.files or [f.file]) and given.only in f.name]
    rows: list[tuple[Fault, Mapping[str, str]]] = []
    clean: dict[tuple[str, ...], str] = {}
    with tempfile.TemporaryDirectory(prefix="kernel-faults-") as name:
        folder = copy(Path(name))
        for fault in planted:
            checks, started = listed["checks"][fault.file], time.monotonic()
            for kind in given.checks:
                for check in checks[kind]:
                    if (kind, check) not in clean:
                        clean[kind, check] = CHECKS[kind](check, folder)
                    if clean[kind, check]:
                        raise BrokenCheck(f"without a fault: {clean[kind, check]}")
            path = folder / "cl_kernels" / f"{fault.file}.cl"
            kept = path.read_text(encoding="utf-8")
            path.write_text(fault.text, encoding="utf-8")
            found = {kind: first_finding(kind, checks[kind], folder) for kind in given.checks if checks[kind]}
            path.write_text(kept, encoding="utf-8")
            rows.append((fault, found))
            print(f"{fault.file}.cl:{fault.line} {fault.name}: {found} ({time.monotonic() - started:.0f} s)", file=sys.stderr)
            if given.table:
                given.table.write_text(table(rows, given.checks) + "\n", encoding="utf-8")
    print(table(rows, given.checks))
    missed = [fault for fault, found in rows if not any(found.values()) and not fault.reason]
    idle = [fault for fault, found in rows if any(found.values()) and fault.reason]
    print(f"{len(rows)} faults; {len(missed)} not found and no reason given, {len(idle)} found against theirs", file=sys.stderr)
    return 1 if missed or idle else 0


if __name__ == "__main__":
    sys.exit(main())
