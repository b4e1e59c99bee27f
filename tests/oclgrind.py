"""Runs one benchmark's points on Oclgrind, in a process of its own, and prints what it found: a JSON line a point."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import math
import os
import resource
import sys
import traceback
import typing
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import pyopencl as cl

from clmembench.benchmarks import axis, benchmark, discovered, spaces
from clmembench.benchmarks.dgemm.dgemm import MAX_ELEMENT, element
from clmembench.measure import probe
from clmembench.measure.sampling import POISON_BYTE, check_outputs
from clmembench.model import (
    Array,
    Benchmark,
    BuildError,
    Call,
    Clock,
    Command,
    Copy,
    Device,
    DeviceError,
    DeviceInfo,
    Fill,
    ImageForm,
    Launch,
    Local,
    Metric,
    Overlap,
    Prepared,
    Skip,
    Slope,
    Space,
    Timing,
    Value,
    Work,
    alternatives,
    lacking,
)
from clmembench.plan.configurations import missing_features
from clmembench.plan.selection import is_placeable
from clmembench.runtimes.fake import FakeDevice, FakeKernel
from clmembench.runtimes.opencl.device import OpenCLDevice
from clmembench.runtimes.opencl.info import simulator_devices
from clmembench.studies.hierarchy.benchmarks import evict
from clmembench.studies.hierarchy.benchmarks.cache_sharing import PATH_CODES
from clmembench.studies.mnf.benchmarks import mnf_kernels
from tests.oclgrind_kernels import FOLDER, full_name
from tests.oclgrind_requests import request

# modules whose benchmarks have the same names
chase, cache_sharing, atomic, arithmetic, local_memory, subgroup, gemm, mnf_host = (
    import_module(f"clmembench.{name}")
    for name in (
        *(f"studies.hierarchy.benchmarks.{name}" for name in ("chase", "cache_sharing")),
        *(f"benchmarks.{name}" for name in ("atomic", "arithmetic", "local_memory", "subgroup", "gemm.gemm")),
        "studies.mnf.benchmarks.mnf_host",
    )
)
ARRAY_BYTES = (8 << 10) + 24  # --size: some work-groups of most shapes, and a rest
OWN_BYTES = {
    # a kernel writes and one counts each element besides: two work-groups of the sizes that most points have
    "datatypes": (2 << 10) + 24,
    # cubes: of some 60 pixels, in which a covariance multiplies each by the square of bands
    **dict.fromkeys(("mnf", "mnf_filter", "mnf_covariance", "mnf_transform"), (1 << 10) + 24),
}
# sizes in elements that are tried besides an axis' own values, as a user may: the least, one that leaves a work-group partly
# idle, and one that may be the first with several work-groups
ONE_ELEMENT, PARTIAL_GROUP, SEVERAL_GROUPS = 1, 17, 33
MAX_FLOPS = 1 << 20  # of a pass: some seconds
STAGED_BANDS = 8  # bands that mnf_transform stages at once: fewer than a cube has here, so that it has several rounds
NEAR_END_OPERATIONS = 1  # operations of a slope's near end
UNITS = 2  # compute units that it claims
MAX_ADDRESS_SPACE_BYTES = 8 << 30
EVERY = "every"  # point, as the third argument
# definitions that ask for what only some processors have: not tried, since Oclgrind ends the process that does
PROCESSORS = {"TICKS": "in-kernel counters are read by PTX or by a builtin of CPUs"}
# points of benchmarks that are planned, by what each has besides the first value of every axis
SMALL_CUBE = "13x9x18"  # two tiles of bands, three rounds of staged ones, and no group of pixels that is full
TWO_TILES_CUBE = "7x6x18"  # two tiles of bands; a slice has three rounds of staged pixels, the last one of few pixels
TILED, ONE_A_PAIR = ("V3", "V4"), "7x6x3"  # of other covariances a work-group is for one pair of bands
STAGED_PIXELS = 8  # pixels that mnf_covariance stages at once
THREE_BANDS_CUBE = "5x5x3"
FULL_GROUP = "17x17x2"  # four work-groups of a filter a band, one of them full
FILLED = {"order": "segments", "segments": "8:32:4:2;0:64:3:1"}
ADAPTIVE_POINTS: dict[str, list[dict[str, Value]]] = {
    # every value of every axis; 16 and 32 lines a load need the larger footprint
    "memory_divergence": [
        {"lines": lines, "fmas": fmas, "loads": loads, "sub_groups": sub_groups, "footprint_bytes": footprint, "stores": stores}
        for lines, fmas, loads, sub_groups, footprint, stores in (
            (1, 0, 1, 1, 2 << 10, 0),
            (2, 16, 2, 2, 2 << 10, 1),
            (4, 64, 4, 4, 2 << 10, 0),
            (8, 256, 1, 8, 2 << 10, 1),
            (16, 0, 2, 16, 8 << 10, 0),
            (32, 16, 4, 32, 8 << 10, 1),
            (32, 0, 1, 64, 8 << 10, 0),
        )
    ],
    "mlp": [
        *({"lines": lines, "sectors": 4} for lines in (1, 7, 256)),
        *({"lines": lines, "sectors": 1, "footprint_bytes": 8 << 10} for lines in (1, 33, 4096)),
    ],
    "chase": [
        *({"order": order} for order in ("random", "sequential", "blocks", "walk")),
        {"order": "pairs", "block_bytes": 24},
        *({"order": order, "stride_bytes": 256, "block_bytes": 64, "visits": 2} for order in ("by_page", "by_round")),
        *({"order": "zigzag", "block_bytes": block} for block in (0, 256)),
        FILLED,
        *({"space": space, **trace} for space in typing.get_args(Space) for trace in ({}, {"mode": "trace", "record": 70})),
        {"mode": "trace", "record": 40, "skip": 100, "cold": True},
        {
            "order": "segments",
            "segments": "16384:1:1:1;18432:1:1:1;64:64:3:1",
            "mode": "evict",
            "skip": 2,
            "record": 5,
            "until": 90,
            "crowd": 128,
            "crowd_bytes": 64,
            "also_from": 100,
            "also_until": 110,
            "rounds": 2,
        },
        {
            "mode": "residence",
            "skip": 9,
            "record": 20,
            "until": 200,
            "crowd": 64,
            "crowd_bytes": 64,
            "also_from": 10,
            "also_until": 80,
            "rounds": 4,
            "turns": 2,
        },
    ],
    "cache_sharing": [
        *({"owner": owner} for owner in PATH_CODES),
        {"local_bytes": 1 << 10},
        *(
            {"question": "paths", "owner": owner, "other": other, "array_bytes": 2 << 10, "other_bytes": 3 << 10}
            for owner, other in itertools.permutations(PATH_CODES, 2)
        ),
    ],
    "mnf_filter": [{"variant": "V3"}] + [{"variant": variant, "size": FULL_GROUP} for variant in mnf_kernels.FILTERS],
    "mnf_covariance": [{"variant": "V4"}]
    + [
        {"variant": v, "of": of, "size": TWO_TILES_CUBE if v in TILED else ONE_A_PAIR}
        for v in mnf_kernels.COVARIANCES
        for of in ("noise", "data")
    ],
    "mnf_transform": [{"variant": "V2"}] + [{"variant": variant, "size": SMALL_CUBE} for variant in mnf_kernels.TRANSFORMS],
    "mnf": [{"filter": "V3", "covariance": "V4"}]
    + [
        {"filter": f, "covariance": c, "transform": t, "memory": memory, "size": THREE_BANDS_CUBE}
        for f, c, t, memory in (
            ("V0n", "V1", "V0", "device"),
            ("V0", "V0", "V0", "device"),
            ("V1", "V1", "V1p", "host"),
            ("V2", "V2", "V2p", "host"),
            ("V2", "V3", "V0", "device"),
        )
    ],
    "user_kernel": [
        {
            "file": str(FOLDER / "launch.cl"),
            "kernel": "mark",
            "global_size": "8",
            "local_size": "4",
            "arguments": "buffer:64 uint:7",
        }
    ],
    "mnf_host": [
        {"library": of, "step": step} for of in mnf_host.LIBRARY_FILTERS for step in ("whole", *mnf_host.steps_of(of))
    ],
}
# points besides those, on a GPU that is held to one work-group: there are more tiles, slabs or blocks than work-groups. What a
# round still reads in local memory while the next one writes there is seen at no point of one round only
ONE_GROUP = "gpu, 1 work-group"
# nonzeros of each row of their matrix: with tiles of 32 entries the row of 40 is summed by a whole work-group and those of 300
# and 600 by several; with tiles of 384 a block has six rounds of rows and the row of 600 is summed by a whole work-group; in
# slabs long rows have several sums, and 192 entries at a time leave a rest
ROWS = (*[1] * 100, 300, *[1] * 84, *[0] * 5, 40, 600, *[3] * 20)
COLUMNS = 700
MATRIX = "rows.mtx"
STRIDED = {"matrix": MATRIX, "hints": "none", "order": "strided", "team": 2, "sigma": 1}
ROUNDS: dict[str, list[dict[str, Value]]] = {
    # an even number of slabs: the last one's operands are in the half that the next tile begins with
    "dgemm": [{"dtype": "double", "variant": "portable", "n": 9, "work_group": 4, "tile": "4x4", "depth": 8, "split": 0}],
    "spmv": [
        {**STRIDED, "format": format, "work_group": work_group, "per": per}
        for format, work_group, per in (("csr_adaptive", 16, 2), ("csr_adaptive", 64, 6), ("slab", 96, 2))
    ],
}
# points besides those, on each kind of GPU: small tiles of dgemm for several work-groups, and more than one for each; sums of
# several work-groups, which the axes' own values would have at larger sizes only
ON_GPUS: dict[str, list[dict[str, Value]]] = {
    "dgemm": [
        {"dtype": dtype, "variant": "portable", "n": 17, "work_group": 16, "tile": "4x4", "depth": 8, "split": 0}
        for dtype in ("double", "float")
    ],
    "reduction": [
        {"method": method, "groups_a_unit": 4, "width": 2, "work_group": 64, "n": 1025} for method in ("tree", "atomic")
    ],
}
# benchmarks with more points than those in which each two values meet, or than those that are cheap
LARGE = ("stream", "subgroup", "atomic", "spmv", "dgemm", "instruction")
# results that a work-group of dgemm keeps: a tile of more takes seconds, however small the matrices are
MAX_RESULTS, MAX_RESULTS_OF_TWO_SLABS = 1024, 4096
# benchmarks that it claims one compute unit for: work-groups that wait for each other, which it runs one after the other, would
# never meet; and each of local_read's many reads concerns its own work-group alone
ALONE = ("device_barrier", "local_read")
# seconds that a point takes to build, and that one work-item of most kernels takes, roughly: which points are tried first
BUILD_S, ITEM_S = 0.1, 1e-4


def environment(log: Path) -> dict[str, str]:
    """The environment of a process whose findings Oclgrind is to append to a file."""
    # built without optimisation: nothing is optimised away, and Oclgrind 21.10 crashes on shuffles that optimisation makes
    settings = {"DATA_RACES": "1", "UNINITIALIZED": "1", "MAX_ERRORS": "1000000", "BUILD_OPTIONS": "-cl-opt-disable"}
    settings["NUM_THREADS"] = "1"  # as many children run at a time as there are CPUs
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OCLGRIND_", "OCL_ICD_", "PYTHONOPTIMIZE"))}
    given = {f"OCLGRIND_{k}": v for k, v in settings.items()} | {"OCLGRIND_LOG": str(log)}
    return {**clean, **given, "PYOPENCL_NO_CACHE": "1"}


class Checked(OpenCLDevice):
    """Oclgrind's device. Kernels are named FILE.KERNEL, and those launched are kept.

    What Oclgrind 21.10 knows of a buffer is as long as the host's last store into it, and all beyond stays uninitialised: after
    enqueue_fill_buffer, all but one pattern. So whole buffers are filled by an upload, and parts by a kernel, which it follows
    byte by byte. Poison is written into a mapping for reading and writing, which it does not see: what was uninitialised still
    is. It also takes a new buffer for the one that had its address before; so none is given up, and each point has a device of
    its own.
    """

    def __init__(self, info: DeviceInfo, handle: Any) -> None:
        super().__init__(info, handle)
        self.launched: set[str] = set()
        self._buffers: list[Any] = []
        self._move = super().build(MOVE, MOVED_BYTES=MOVED_BYTES)["move"]

    def alloc(self, nbytes: int, kind: Literal["device", "mapped"] = "device") -> Any:
        self._buffers.append(super().alloc(nbytes, kind))
        return self._buffers[-1]

    def upload(self, buffer: Any, array: Array) -> None:
        if array.nbytes == buffer.size:
            super().upload(buffer, array)
        else:
            super().run([self._moved(buffer, array)])

    def image(self, texels: Array, form: ImageForm) -> Any:
        self._buffers.append(super().image(texels, form))
        return self._buffers[-1]

    def build(self, source: str, **defines: Value) -> Mapping[str, Any]:
        if "AHEAD" in defines:
            defines["AHEAD"] = 0  # prefetches change no result, and Oclgrind ends the process at one
        for name in PROCESSORS:
            if defines.get(name) and name == "TICKS" and "tsc" in self.info.features:
                defines[name] = 0  # claimed so that what uses a counter is run: by one that stands still
            elif defines.get(name):
                raise BuildError(f"{name}: {PROCESSORS[name]}", "")
        return {k: replace(kernel, name=full_name(source, k)) for k, kernel in super().build(source, **defines).items()}

    def time(self, commands: Sequence[Command], passes: int, clock: Clock) -> Timing:
        self.launched |= {c.kernel.name for c in commands if isinstance(c, Launch)}
        if len(commands) == 1 and isinstance(commands[0], Fill) and commands[0].byte == POISON_BYTE:
            return self._poisoned(commands[0])
        return super().time([self._filled(c) if isinstance(c, Fill) else c for c in commands], passes, clock)

    def _poisoned(self, fill: Fill) -> Timing:
        both = cl.map_flags.READ | cl.map_flags.WRITE
        array, _ = cl.enqueue_map_buffer(self._plain[0], fill.buffer, both, 0, (fill.nbytes,), np.uint8)
        array[:] = fill.byte
        array.base.release(self._plain[0]).wait()
        return Timing(0, None, None, 0)

    def _filled(self, fill: Fill) -> Command:
        array = np.full(fill.nbytes, fill.byte, np.uint8)
        if fill.nbytes == fill.buffer.size:
            return Copy(fill.buffer, array, fill.nbytes, fill.queue, blocking=True)
        return self._moved(fill.buffer, array, fill.queue)

    def _moved(self, buffer: Any, array: Array, queue: int = 0) -> Launch:
        staging = self.alloc(array.nbytes)
        super().upload(staging, array)
        items = -(-array.nbytes // MOVED_BYTES)
        return Launch(self._move, (staging, buffer, np.uint32(array.nbytes)), (items,), None, queue)


MOVED_BYTES = 64  # by each work-item: the fewer items, the sooner an arena of 2 MiB is filled
MOVE = """
kernel void move(const global uchar* from, global uchar* to, const uint nbytes) {
    const uint first = MOVED_BYTES * (uint)get_global_id(0);
    if (first + MOVED_BYTES <= nbytes)
        vstore16(vload16(0, (const global uint*)(from + first)), 0, (global uint*)(to + first));
    else
        for (uint i = first; i < nbytes; i++) to[i] = from[i];
}
"""

PLANTED = """
kernel void planted(global uint* in, global uint* out, local uint* slot) {
    const size_t i = get_global_id(0), id = get_local_id(0);
    slot[id] = (uint)i;
    if (FAULT != DIVERGENCE || id > 0) barrier(CLK_LOCAL_MEM_FENCE);
    if (FAULT == RACE) out[i / 2] = 2 * (uint)i;
    else if (FAULT == LOCAL_RACE && id > 0) slot[id - 1] = slot[id];
    out[i + (FAULT == OUT_OF_BOUNDS)] = FAULT == UNINITIALISED ? in[i] : FAULT == POISON ? out[i] : slot[id];
}
"""
FAULTS = {"none": 0, "race": 1, "local_race": 2, "out_of_bounds": 3, "divergence": 4, "uninitialised": 5, "poison": 6}
COST = Metric("cost", "ns", "ops", "cost", "lower")


@benchmark(COST, suite="planted", source="these tests", fault=axis(*FAULTS, "wrong", "death"))
def planted(device: Device, fault: str) -> Work:
    """A kernel with one fault, to see that it is found."""
    if fault == "death" and isinstance(device, Checked):
        os.abort()
    numbers = {name.upper(): number for name, number in FAULTS.items()}
    kernel = device.build(PLANTED, FAULT=FAULTS.get(fault, 0), **numbers)["planted"]
    source, target = device.alloc(64), device.alloc(64)

    def check() -> None:
        assert fault != "wrong", "a wrong result"

    return Work((Launch(kernel, (source, target, Local(16)), (16,), (4,)),), ops=1, outputs=((target, 64),), check=check)


@benchmark(COST, suite="planted", source="these tests", dtype=axis(*gemm.RATES), transposed=axis(0, 1))
def gemm_matrices(device: Device, dtype: str, transposed: int) -> Work:
    """Contents of the matrices that `gemm` multiplies: their kernel needs no PTX, unlike all points of that benchmark."""
    bits, n, rows, row_bytes, seed = gemm.element_bits(dtype), 17, 19, 80, 7
    matrix = device.alloc(rows * row_bytes)

    def fill() -> None:
        gemm._fill_matrix(device, n, matrix, rows * row_bytes, row_bytes, bits, seed, bool(transposed))

    def check() -> None:
        numbers = element(np.arange(n * n), seed).reshape(n, n).astype(int) + MAX_ELEMENT
        wanted = np.full((rows, row_bytes // bits.itemsize), MAX_ELEMENT)
        wanted[:n, :n] = numbers.T if transposed else numbers
        found = device.download(matrix, bits.dtype, wanted.size).reshape(wanted.shape)
        assert np.array_equal(found, bits[wanted]), "other contents"

    fill()
    return Work((Call(fill),), ops=1, outputs=((matrix, rows * row_bytes),), check=check)


def known() -> Mapping[str, Benchmark]:
    """Every benchmark of ours, the planted faults, and the kernel of `gemm` that needs no PTX. Other libraries launch no
    kernels of ours, suite `several` needs several devices or the host's own pages."""
    ours = {name: b for name, b in discovered().items() if b.peer_of is None and b.suite != "several"}
    return {**ours, planted.name: planted, gemm_matrices.name: gemm_matrices}


def devices(name: str, claims: DeviceInfo) -> dict[str, DeviceInfo]:
    """What a benchmark takes Oclgrind for: every kind of device that its kernels have a shape for."""
    nbytes = OWN_BYTES.get(name, ARRAY_BYTES)
    small = replace(claims, array_bytes=nbytes, compute_units=1 if name in ALONE else UNITS)
    if name in ("chase", "cache_sharing"):
        small = replace(small, features=claims.features | {"tsc"})
    gpu, cpu = replace(small, kind="gpu"), replace(small, kind="cpu", shares_host_memory=True)
    held = {"gpu, 3 work-groups": replace(gpu, work_groups=3)} if is_placeable(known()[name], gpu) else {}
    # the whole rotation is a chain of kernels that are run for both kinds on their own
    return {"gpu": gpu} if name == "mnf" else {"cpu": cpu, "gpu": gpu, **held}


def rounds(name: str, claims: DeviceInfo, folder: Path) -> tuple[DeviceInfo, list[dict[str, Value]]]:
    """The device that the points of ROUNDS are for, and those of a benchmark; a matrix of theirs is written into the folder."""
    own = [{k: str(folder / MATRIX) if v == MATRIX else v for k, v in params.items()} for params in ROUNDS.get(name, ())]
    if any("matrix" in params for params in own):
        lines = [f"{r} {(r + k) % COLUMNS + 1} {1 + (r + 2 * k) % 9}" for r, n in enumerate(ROWS, 1) for k in range(n)]
        head = f"%%MatrixMarket matrix coordinate integer general\n{len(ROWS)} {COLUMNS} {len(lines)}\n"
        (folder / MATRIX).write_text(head + "\n".join(lines) + "\n")
    return replace(devices(name, claims)["gpu"], work_groups=1), own


def points(benchmark: Benchmark, info: DeviceInfo, every: bool, max_flops: float = MAX_FLOPS) -> Iterator[dict[str, Value]]:
    """The points that are tried: combinations of values in which each two values of two axes meet that can, unless both are
    tuned, or one is and `every` will run the pair; `every`: of axes that are not tuned every combination, with each value of
    those that are. Of the axis for the size those that `sizes` chooses. The cover is a greedy choice of what costs little."""
    if benchmark.adaptive:
        first = {n: a.values(info)[0] for n, a in benchmark.axes.items()}
        yield from ({**first, **own} for own in ADAPTIVE_POINTS.get(benchmark.name, [{}]))
        return
    size = sized(benchmark, info)
    axes = {n: a.values(info) for n, a in benchmark.axes.items() if n != size}
    combinations = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    tried = [(base, chosen) for base in combinations if (chosen := sizes(benchmark, info, base, size, every, max_flops))]
    tuned = {n for n, a in benchmark.axes.items() if a.tuning}
    alone = tuned if benchmark.name in LARGE else set()
    left = [(_thorough(base, tuned) if every else _pairs(base, tuned, alone), *chosen) for base, chosen in tried]
    seen: set[Any] = set()
    while left:
        best = max(left, key=lambda candidate: len(candidate[0] - seen) / candidate[2])
        yield from best[1]
        seen |= best[0]
        left = [candidate for candidate in left if candidate[0] - seen]


def _pairs(base: Mapping[str, Value], tuned: Set[str], alone: Set[str]) -> frozenset[Any]:
    """Each two values of a point, not both tuned nor any of an axis in `alone`; one value is a pair with itself."""
    pairs = itertools.combinations_with_replacement(sorted(base.items()), 2)
    return frozenset((a, b) for a, b in pairs if a == b or not ({a[0], b[0]} <= tuned or {a[0], b[0]} & alone))


def _thorough(base: Mapping[str, Value], tuned: Set[str]) -> frozenset[Any]:
    """Each tuned value of a point beside all values that are not tuned."""
    plain = frozenset((n, v) for n, v in base.items() if n not in tuned)
    return frozenset({(plain, one) for one in base.items() if one[0] in tuned} | {(plain, None)})


class Launches(FakeDevice):
    """A device that runs nothing and whose kernels are named FILE.KERNEL."""

    def build(self, source: str, **defines: Value) -> Mapping[str, Any]:
        class Kernels(dict[str, FakeKernel]):
            def __missing__(self, kernel: str) -> FakeKernel:
                return FakeKernel(full_name(source, kernel))

        return Kernels()


def beyond(name: str, info: DeviceInfo) -> set[str]:
    """The kernels that only points launch which have values that need features, as axes declare, that this device lacks. The
    needs of a whole benchmark excuse no kernel: some of its kernels may need less, as those of `gemm_matrices` do."""
    benchmark = known()[name]
    needs = {need for a in benchmark.axes.values() for every in a.needs.values() for need in every}
    able = replace(info, features=info.features | {feature for need in needs for feature in alternatives(need)})
    launched: dict[bool, set[str]] = {False: set(), True: set()}
    for claims in devices(name, able).values() if lacking(needs, info.features) else ():
        for params in points(benchmark, claims, False, math.inf):  # nothing is run
            device = Launches(claims)
            with contextlib.suppress(Skip, DeviceError):
                device.log += [c for w in ends(benchmark.prepare(device, **params)) for c in (*w.before, *w.commands)]
            named = {c.kernel.name for c in device.log if isinstance(c, Launch)}
            launched[bool(missing_features(benchmark, params, info.features))] |= named
    return launched[True] - launched[False]


def sized(benchmark: Benchmark, info: DeviceInfo) -> str:
    """The axis that says how large a point is: the one that figures are drawn against, where it has numbers."""
    values = benchmark.axes[benchmark.figure_axis].values(info) if benchmark.figure_axis else ("",)
    return "" if any(isinstance(value, str) for value in values) else benchmark.figure_axis


def results_per_item(benchmark: Benchmark, params: Mapping[str, Value]) -> int:
    """The results that a work-item of dgemm keeps, and computes whatever the matrices' size; 1 of other benchmarks."""
    rows, columns = map(int, str(params["tile"]).split("x")) if benchmark.name == "dgemm" else (1, 1)
    return rows * columns


def bulky_size(benchmark: Benchmark, params: Mapping[str, Value], every: bool) -> int | None:
    """The one size at which a tile of dgemm is run that takes long whatever it multiplies; None for all others. Where `every`
    point is run it has two slabs, the second one with a rest."""
    results = results_per_item(benchmark, params)
    held = int(params["work_group"]) * results if results > 1 else 0
    if held <= MAX_RESULTS:
        return None
    return int(params["depth"]) + 1 if every or held <= MAX_RESULTS_OF_TWO_SLABS else ONE_ELEMENT


def sizes(
    benchmark: Benchmark, info: DeviceInfo, base: Mapping[str, Value], size: str, every: bool, max_flops: float
) -> tuple[list[dict[str, Value]], float] | None:
    """The point at the least size, at an odd one, and at the first one that has several work-groups and is not too large; as a
    device that runs nothing sees it. Of bytes, which begin large, every size up to there; of bulky ones one size: how
    work-groups share tiles is seen of ON_GPUS. And what these cost, in seconds, roughly. None: at no size."""
    own = (
        [{size: n} for n in sorted({*benchmark.axes[size].values(info), ONE_ELEMENT, PARTIAL_GROUP, SEVERAL_GROUPS})]
        if size
        else [{}]
    )
    bulky = bulky_size(benchmark, base, every)
    if bulky is not None:
        own = [] if info.work_groups else [{size: bulky}]
    chosen: list[dict[str, Value]] = []
    cost_s = 0.0
    for params in [{**base, **extra} for extra in own]:
        if (benchmark.where and not benchmark.where(info, **params)) or missing_features(benchmark, params, info.features):
            continue
        try:
            works = ends(benchmark.prepare(FakeDevice(info), **params))
        except (Skip, DeviceError):
            continue
        if works[0].flops > max_flops:
            break
        launches = [c for c in works[0].commands if isinstance(c, Launch)]
        several = max((c.global_size[0] // (c.local_size or (1,))[0] for c in launches), default=1) > 1
        if not chosen or several or params.get(size) == PARTIAL_GROUP or size.endswith("_bytes"):
            chosen.append(params)
            items = sum(math.prod(c.global_size) for c in launches) * len(works)
            cost_s += BUILD_S + ITEM_S * items * results_per_item(benchmark, params)
        if several:
            break
    return (chosen, cost_s) if chosen else None


def ends(prepared: Prepared) -> list[Work]:
    """The Work, both ends of a Slope at small amounts, or what of an Overlap runs at once: more would only do the same more
    often."""
    if isinstance(prepared, Overlap):
        return [prepared.works(1)[-1]]
    return (
        [prepared.work(n * min(NEAR_END_OPERATIONS, prepared.start)) for n in (1, 3)]
        if isinstance(prepared, Slope)
        else [prepared]
    )


def ran(device: Device, benchmark: Benchmark, params: Mapping[str, Value]) -> tuple[str, str]:
    """Prepare a point and verify its Works: the status, and why it is not ok."""
    try:
        for work in ends(benchmark.prepare(device, **params)):
            wrong = check_outputs(device, work)
            if wrong:
                return "wrong", wrong
    except Skip as skip:
        return "skipped", str(skip)
    except Exception:
        return "failed", traceback.format_exc()
    return "ok", ""


def reduced(module: ModuleType, **values: Any) -> None:
    """Give names of a module other values. One that it has not, as after a move, would leave points large."""
    for name, value in values.items():
        assert hasattr(module, name), f"{module.__name__} has no {name}"
        setattr(module, name, value)


def main(name: str, kind: str = "", every: str = "") -> None:
    """Run the points of a benchmark, or those of one kind of device (as `devices` and ONE_GROUP name them); with EVERY all."""
    # a kernel that races for ever makes Oclgrind grow until the host has no memory left; its points take under 2 GiB
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_SPACE_BYTES, MAX_ADDRESS_SPACE_BYTES))
    reduced(chase, flush_bytes=lambda info: 4 << 10)
    reduced(spaces, MIN_ARENA_BYTES=4 << 10, BASE_ALIGNMENT_BYTES=4 << 10)
    reduced(evict, BASE_ALIGNMENT_BYTES=4 << 10)
    reduced(cache_sharing, **dict.fromkeys(("GPU_FIT_BYTES", "CPU_FIT_BYTES", "CONSTANT_FIT_BYTES"), (1 << 10, 2 << 10)))
    groups = {"GROUPS_PER_UNIT": 2, "GROUPS_PER_CPU_UNIT": 2}
    reduced(mnf_kernels, STAGED_BANDS=STAGED_BANDS, STAGED_PIXELS=STAGED_PIXELS, **groups)
    reduced(atomic, SPREAD_CELLS=1 << 10, LOCAL_SPREAD_CELLS=1 << 6)
    reduced(arithmetic, GPU_GROUPS_PER_UNIT=1)
    reduced(local_memory, LOADS_PER_ROUND=8)
    reduced(subgroup, PRIVATE_TABLE_WORDS=64)  # which each work-item copies
    log = Path(os.environ["OCLGRIND_LOG"])
    info, handle = simulator_devices()[0]

    def say(what: Mapping[str, Any]) -> None:
        print(json.dumps(what), flush=True)

    def report(device: Checked, what: Mapping[str, Any]) -> None:
        found = log.read_text(errors="replace").strip() if log.exists() else ""
        say({**what, "findings": found, "launched": sorted(device.launched)})

    say({"trying": "probe"})
    device = Checked(info, handle)
    features = probe.probe(device).features
    device.run(probe.build_alu_chain(device)[0](1))
    report(device, {"point": "probe", "status": "ok", "reason": "", "features": sorted(features)})
    info = replace(info, features=features)
    one, own = rounds(name, info, log.parent)
    tried = (
        (of, claims, p) for of, claims in devices(name, info).items() for p in points(known()[name], claims, every == EVERY)
    )
    on_gpus = ((of, c, p) for of, c in devices(name, info).items() if c.kind == "gpu" for p in ON_GPUS.get(name, ()))
    requests: set[tuple[Any, str]] = set()
    gc.freeze()  # modules need not be looked through at each point
    for of, claims, params in itertools.chain(tried, on_gpus, ((ONE_GROUP, one, params) for params in own)):
        if kind and kind != of:
            continue
        asked = None if of == ONE_GROUP else request(known()[name], claims, params, ends)
        if asked is not None and (same := (tuple(sorted(params.items())), asked)) in requests:
            continue  # at this point another kind of device was asked the very same
        if asked is not None:
            requests.add(same)
        say({"trying": f"{of}: {params}"})
        device = Checked(claims, handle)
        status, reason = ran(device, known()[name], params)
        report(device, {"point": f"{of}: {params}", "params": params, "status": status, "reason": reason})
        del device
        gc.collect()  # a device is large here: a byte or more for each byte of its buffers


if __name__ == "__main__":
    main(*sys.argv[1:])
