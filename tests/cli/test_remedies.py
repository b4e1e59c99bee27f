"""Remedies that messages name: they exist, they work, and those of one run do not oppose each other."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import cache

import pytest
from typer.main import get_command

from clmembench.benchmarks import discovered
from clmembench.cli.commands.run import _next_step
from clmembench.cli.program import app
from clmembench.cli.running.run_request import MIN_ARRAY_BYTES, _with_array_size, parse_array_bytes
from clmembench.gates import point
from clmembench.model import Cause
from clmembench.model.record import Status
from clmembench.plan.selection import suites
from clmembench.report import frame, run_warnings
from clmembench.units import parse_bytes
from tests.builders import device, header, record, run, series
from tests.commands import ROOT

MIB = 1 << 20
REMEDY = re.compile(r"[:;,] (?:or )?(?:use|raise|lower|run|see|add|leave out|name|give|say|choose)\b.*")
FOREIGN = {"--force-reinstall", "--csv", "--json", "--json-file"}  # of pip, BabelStream and clpeak, and of ours too


@cache
def remedies() -> dict[str, str]:
    """Every text of the package that ends with what to do, by its place; fields that are filled in are {}."""
    found = {}
    for path in sorted((ROOT / "clmembench").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ""
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            elif isinstance(node, ast.JoinedStr):
                text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            if "\n" not in text and (hit := REMEDY.search(text)):
                found[f"{path.relative_to(ROOT)}:{node.lineno}"] = hit.group()
    return found


def options_and_commands() -> tuple[set[str], set[str]]:
    options, commands, left = set(FOREIGN), set(), [get_command(app)]
    while left:
        command = left.pop()
        options |= {name for parameter in command.params for name in parameter.opts} | {"--help"}
        commands |= set(getattr(command, "commands", {}))
        left += getattr(command, "commands", {}).values()
    live = (ROOT / "clmembench" / "studies" / "ab" / "command.py").read_text(encoding="utf-8")
    return options | set(re.findall(r'"(--[ab]-[a-z]+)"', live)), commands


def test_every_option_command_and_benchmark_that_a_remedy_names_exists():
    options, commands = options_and_commands()
    known = set(discovered()) | set(suites())
    assert len(remedies()) > 80
    for place, text in remedies().items():
        for name in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text):
            assert name in options, f"{place}: {text}"
        for name in re.findall(r"(?:use|see|with|:) clmembench ([a-z]+)", text):
            assert name in commands, f"{place}: {text}"
        for name in re.findall(r"(?:run (?:-b|benchmark|suite) |-b )([a-z_0-9]+)", text):
            assert name in known, f"{place}: {text}"


def opposing() -> set[str]:
    """Options that one text says to raise and another to lower."""
    said = {
        verb: {o for t in remedies().values() for o in re.findall(rf"{verb} (--[a-z-]+)", t)} for verb in ("raise", "lower")
    }
    return said["raise"] & said["lower"]


def test_only_the_size_of_arrays_is_raised_by_one_message_and_lowered_by_another():
    assert opposing() == {"--size"}


@pytest.mark.parametrize("text", ["1", "1KiB", "1536MiB", "3GiB", "100TiB"])
def test_the_size_that_a_refusal_of_size_names_is_taken(text):
    small = device(global_mem_bytes=4 << 30, max_alloc_bytes=2 << 30)
    with pytest.raises(ValueError, match=r"(?:raise|lower) it to \d+[KM]iB") as refusal:
        _with_array_size(small, parse_array_bytes(text))
    size = parse_array_bytes(str(refusal.value).rpartition(" it to ")[2].split()[0])
    assert _with_array_size(small, size).array_bytes == size >= MIN_ARRAY_BYTES


def small_arrays(memory_gib: int, *, cause: Cause = Cause.NONE, gate: str = "", status: Status = "ok") -> str:
    info = device(cache_bytes=200 * MIB, max_alloc_bytes=memory_gib << 30, global_mem_bytes=memory_gib << 30)
    records = [record("stream", {"op": "copy", "array_bytes": 256 * MIB}, series([1000] * 40, nbytes=512 * MIB), status=status)]
    records.append(record("stream", {"op": "dot", "array_bytes": 256 * MIB}, cause=cause, gate=gate, status="failed"))
    measured = run(records, header(info))
    return " ".join(map(str, run_warnings._small_arrays(measured, frame.judged_rows(measured, None)[1])))


def test_larger_arrays_are_advised_where_this_device_can_measure_them():
    assert small_arrays(8).endswith("raise --size to 800MiB")
    info = device(cache_bytes=200 * MIB, max_alloc_bytes=8 << 30, global_mem_bytes=8 << 30)
    assert _with_array_size(info, parse_bytes("800MiB")).array_bytes >= 4 * info.cache_bytes
    for other in (small_arrays(2), small_arrays(8, cause=Cause.OUT_OF_MEMORY), small_arrays(8, gate="samples")):
        assert "under four times as large" in other and "raise" not in other
    assert small_arrays(8, status="skipped") == ""  # no bandwidth was measured


@pytest.mark.parametrize(
    ("params", "remedy"),
    [
        ({"array_bytes": MIB}, "smaller array_bytes with -a"),
        ({"n": 4096}, "smaller n with -a"),
        ({"groups": 1}, "a sample takes 1.00 s: choose less work with -a or --size"),
    ],
)
def test_few_samples_are_remedied_by_the_points_own_size(params, remedy):
    few = record("stream", params, series([10**9] * 3, nbytes=1), stopped="budget of 1 s spent")
    assert remedy in point.judged(few, ()).reason


def test_a_quiet_host_is_advised_where_others_used_it_and_never_for_times_by_a_gpus_clock():
    few = record("launch", {"groups": 1}, series([10**9] * 3, nbytes=1), stopped="budget of 1 s spent")
    for used in ({"cpu_waited": 0.3}, {"cpu_others": 0.3}, {"cpu_stolen": 0.3}):
        assert point.judged(replace(few, **used), ()).reason.endswith("quieten the host")
    times = [1000, 2000] * 20
    for kind, clock, advised in (("gpu", "device", False), ("gpu", "host", True), ("cpu", "device", True)):
        wide = run([record("stream", {"op": "copy"}, series(times, nbytes=1000, clock=clock))], header(device(kind=kind)))
        (told,) = run_warnings._wide_intervals(frame.judged_rows(wide, None)[1], kind == "cpu")
        assert ("quieten the host" in told.remedy, "more processes" in told.remedy) == (advised, not advised)


def test_a_run_in_one_process_is_not_told_to_use_several_alone():
    one = record("stream", {"op": "copy"}, series([1000] * 40, nbytes=1 << 30))
    isolated, own = (run([one], replace(header(), isolated=isolated)) for isolated in (True, False))
    texts = [
        "".join(map(str, run_warnings._few_processes(frame.judged_rows(r, None)[1], r.header.isolated)))
        for r in (isolated, own)
    ]
    assert "--no-isolate" not in texts[0] and "leave out --no-isolate" in texts[1]


@pytest.mark.parametrize(
    ("change", "is_whole", "says"),
    [
        ({"status": "skipped", "cause": Cause.BUDGET}, False, "run --resume r.jsonl,"),
        ({"status": "failed", "reason": "x"}, False, "show r.jsonl --status failed,"),
        ({"status": "failed", "reason": "x"}, True, "report r.jsonl -o report.html,"),
        ({}, False, "run -d 0:0 --suite all,"),
    ],
)
def test_a_run_ends_with_the_command_that_helps_most(change, is_whole, says):
    odd = record("stream", {"op": "dot"}, series(list(range(10_000, 10_040)), nbytes=1 << 20), **change)
    found = run([odd], replace(header(replace(device(), selector="0:0")), suite="quick"))
    assert _next_step(found, "r.jsonl", frame.judged_rows(found, None)[1], is_whole).startswith(f"clmembench {says}")
