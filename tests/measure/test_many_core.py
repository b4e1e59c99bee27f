"""A simulated Xeon Phi, as Intel's OpenCL 1.2 runtime reported it: benchmarks choose for it as for a CPU with as many cores."""

from __future__ import annotations

import csv
import itertools
from dataclasses import replace
from pathlib import Path

from clmembench.analysis import plateaus
from clmembench.benchmarks import discovered, headline_bytes
from clmembench.measure.timed_work import TimedWork
from clmembench.model import Benchmark, DeviceInfo, Launch, Placement, Skip, Slope, Work
from clmembench.model.work import Value
from clmembench.plan import sweep
from clmembench.plan.selection import Selection
from clmembench.report.imported.imported_values import imported_cells
from clmembench.results.imported import published_run
from clmembench.runtimes.fake import FakeDevice
from clmembench.specs.sheets import published_sheets
from clmembench.studies.hierarchy import plan as hierarchy
from tests.builders import device, walked

MIB = 1 << 20
PHI = device(
    "Intel(R) Many Integrated Core Acceleration Card", platform="Intel(R) OpenCL", vendor="Intel(R) Corporation",
    kind="accelerator", driver="1.2", version="OpenCL 1.2 (Build 8)", compute_units=236, global_mem_bytes=5954 * MIB,
    max_alloc_bytes=1984 * MIB, max_work_group=8192, cache_bytes=256 << 10, max_clock_mhz=1052,
    local_mem_type="global", features=frozenset({"fp64", "images", "int64_atomics"}),
)  # fmt: skip
SMALL = replace(PHI, compute_units=12, array_bytes=4 * MIB)  # both kinds choose other sizes, which are not asked here
CPU = replace(SMALL, kind="cpu")
HOST_ONLY = {"l2_map": "threads of the host are pinned to cores"}  # benchmarks that are about the host's own processor


def choices(benchmark: Benchmark, info: DeviceInfo) -> list[tuple[dict[str, Value], bool]]:
    """The points of a benchmark, and whether each is in the default subset."""
    values = [axis.values(info) for axis in benchmark.axes.values()]
    every = (dict(zip(benchmark.axes, one, strict=True)) for one in itertools.product(*values))
    kept = [p for p in every if benchmark.where is None or benchmark.where(info, **p)]
    return [(p, benchmark.default_subset is None or bool(benchmark.default_subset(info, **p))) for p in kept]


def quick_values(benchmark: Benchmark, info: DeviceInfo) -> dict[str, tuple[Value, ...]]:
    return {name: tuple(axis.values(info)) for name, axis in (benchmark.quick or {}).items()}


def shapes(benchmark: Benchmark, info: DeviceInfo, params: dict[str, Value]) -> object:
    """Global and local sizes of every launch at a point, and the defines of its kernels; or why there is none."""
    fake = FakeDevice(info)
    try:
        prepared = benchmark.prepare(fake, **params)
        works = [prepared.work(prepared.start)] if isinstance(prepared, Slope) else prepared
        works = [works] if isinstance(works, Work) else works
        sizes = [(c.global_size, c.local_size) for w in works for c in w.commands if isinstance(c, Launch)]
        return sizes, fake.built
    except Skip as reason:
        return str(reason)


def test_an_accelerator_that_keeps_local_memory_in_its_cache_has_cpu_cores_and_others_do_not():
    cases = {
        "a Xeon Phi": (PHI, True),
        "any CPU, whatever its driver says": (replace(PHI, kind="cpu", local_mem_type=""), True),
        "an FPGA with block RAM": (replace(PHI, local_mem_type="local"), False),
        "an accelerator without a cache": (replace(PHI, cache_bytes=0), False),
        "an accelerator in a run of an older version": (replace(PHI, local_mem_type=""), False),
        "a GPU whose local memory is in its cache, as Mali's": (replace(PHI, kind="gpu"), False),
        "the Xeon Phi under another name": (replace(PHI, name="x", vendor="y", platform="z"), True),
    }
    wrong = {what: info.has_cpu_cores for what, (info, has) in cases.items() if info.has_cpu_cores is not has}
    assert not wrong


def test_every_benchmark_has_the_points_of_a_cpu_on_it():
    wrong, gpu = [], replace(SMALL, kind="gpu")
    as_on_gpus = 0
    for name, benchmark in discovered().items():
        if benchmark.peer_of or benchmark.adaptive or name in HOST_ONLY:
            continue
        chosen = [(choices(benchmark, info), quick_values(benchmark, info)) for info in (SMALL, CPU, gpu)]
        wrong += [name] * (chosen[0] != chosen[1])
        as_on_gpus += chosen[0] == chosen[2]
    assert not wrong
    assert as_on_gpus < len(discovered()) / 2  # the comparison tells devices apart


def test_kernels_have_the_shapes_and_orders_of_a_cpu_on_it():
    """At the first points of each benchmark, as far as they are in its default subset."""
    wrong, compared, unlike_gpus = [], 0, 0
    for name, benchmark in discovered().items():
        if benchmark.peer_of or benchmark.adaptive or name in HOST_ONLY or name.startswith(("mnf", "numa", "transfer")):
            continue
        if name == "kernel_build":  # its build differs each time, so that no cache has it
            continue
        for params, usual in choices(benchmark, SMALL)[:4]:
            if usual:
                phi, cpu = (shapes(benchmark, info, params) for info in (SMALL, CPU))
                compared += 1
                unlike_gpus += phi != shapes(benchmark, replace(SMALL, kind="gpu"), params)
                if phi != cpu:
                    wrong.append(f"{name} {params}: {phi} on a Xeon Phi, {cpu} on a CPU")
    assert compared > 30 and unlike_gpus > 15 and not wrong, "\n".join(wrong)
    stream = discovered()["stream"]
    asked = {
        p.params["order"] for p in walked(sweep.explore(stream, SMALL, Selection(isolated=False))) if p.params["op"] == "read"
    }
    assert asked == {"blocked"}


def test_what_is_of_the_hosts_processor_is_not_taken_for_the_cards():
    # its compute units are no threads of this host that could be pinned: a place is a number of work-groups
    assert Placement(8).seen(PHI) == replace(PHI, work_groups=8)
    assert list(hierarchy.l2_map_plan(PHI, (0, 1))) == []
    # its CPU time is not this process's, so no number of busy threads is expected of it
    work = discovered()["stream"].prepare(
        FakeDevice(SMALL),
        op="copy",
        dtype="double",
        array_bytes=4 * MIB,
        order="blocked",
        nontemporal=0,
        width=8,
        work_group=64,
    )
    assert isinstance(work, Work) and TimedWork(work).series(SMALL).busy == 0
    # what it claims of its caches does not come from this host's operating system, and its memory is not the host's
    assert plateaus.memory_floor_bytes(PHI) == 512 * MIB
    assert headline_bytes(replace(PHI, host_mem_bytes=1 << 30)) == headline_bytes(PHI) == 512 * MIB
    limits = hierarchy.probe_limits(replace(PHI, host_mem_bytes=1 << 30))
    assert "constant_array" not in limits.spaces and limits == hierarchy.probe_limits(PHI)


def test_the_table_on_xeon_phi_states_what_its_sheet_does():
    path = Path(__file__).parents[2] / "docs" / "tables" / "xeon-phi.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    (sheet,) = published_sheets(["intel-xeon-phi-knc"])
    cells = imported_cells(published_run(sheet))
    assert len(cells) >= 4
    assert [one.text for one in cells.values() if not any(row["value"].startswith(one.text) for row in rows)] == []
    formulas = [r.formula for r in sheet.published if r.metric in ("fp64_peak", "usable_threads")]
    assert [formula for formula in formulas if not any(formula in row["from"] for row in rows)] == []
