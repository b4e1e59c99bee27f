"""Peers that are programs: BabelStream for stream; clpeak for arithmetic, local memory and launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeVar

from clmembench.benchmarks import BANDWIDTH, axis, axis_of, benchmark, headline_bytes
from clmembench.model import Benchmark, Device, DeviceError, DeviceInfo, Metric, Reported, Skip, Value
from clmembench.studies.peers.benchmarks import programs
from clmembench.studies.peers.benchmarks.programs import ClpeakResult, OutputError, StreamResult

STREAM_FUNCTIONS = {"copy": "Copy", "scale": "Mul", "add": "Add", "triad": "Triad", "dot": "Dot"}
ITEM_BYTES = {"double": 8, "float": 4}
REPETITIONS = 11  # runs of each operation by BabelStream, which drops the first
MIN_ARRAY_BYTES = 16 << 20  # of an array: below, BabelStream's host clock times the launch
NS_PER_S = 10**9
CLPEAK_TESTS = {
    "double": "double_precision_compute",
    "float": "single_precision_compute",
    "half": "half_precision_compute",
    "int": "integer_compute",
    "short": "integer_compute_short",
    "char": "integer_compute_char",
    "char_dot": "int8_dot_product_compute",
}
MAX_RATE_PER_S = 1e18  # operations or bytes: a thousand times any device's
UNIT_SCALES = {"gflops": 1e9, "tflops": 1e12, "gops": 1e9, "tops": 1e12, "gbps": 1e9}


def _is_on_path(name: str, *kinds: str) -> Callable[[DeviceInfo], bool]:
    return lambda info: (not kinds or info.kind in kinds) and programs.find_program(name) is not None


Result = TypeVar("Result")
Failure = Skip | DeviceError | AssertionError


def _run_once(result: Result | Failure) -> Result:
    """The result of a program, cached; a failure is raised, and cached too, so that no program runs twice for one answer."""
    if isinstance(result, Failure):
        raise result
    return result


def _run_program(name: str, run: Callable[[str], Result]) -> Result | Failure:
    """The result of `run` with the path of that program, or its failure."""
    path = programs.find_program(name)
    if path is None:
        return Skip(f"no {name} is on PATH")
    try:
        return run(path)
    except OutputError as error:
        return DeviceError(f"{name}: {error}")
    except (Skip, AssertionError) as error:
        return error


@lru_cache(maxsize=8)
def _run_stream(name: str, info: DeviceInfo, elements: int, single: bool) -> StreamResult | Failure:
    """One run of BabelStream for all operations of a process."""
    return _run_program(name, lambda path: programs.run_babelstream(path, info, elements, single, REPETITIONS))


def _stream_benchmark(name: str, of: str, *kinds: str) -> Benchmark:
    """The peer benchmark of one build of BabelStream; `of` names what it is built for."""

    def prepare(device: Device, op: str, dtype: str, array_bytes: int) -> Reported:
        item = ITEM_BYTES[dtype]
        elements = array_bytes // item
        result = _run_once(_run_stream(name, device.info, elements, dtype == "float"))
        line, nbytes = result.lines[STREAM_FUNCTIONS[op]], programs.COUNTED_ARRAYS[STREAM_FUNCTIONS[op]] * elements * item
        facts: Mapping[str, Value] = {
            "library": f"BabelStream {result.implementation}",
            "version": result.version,
            "timed": f"the program's own host clock, mean of {line.count} after the first",
            "best_gb_s": round(nbytes / line.least_s / 1e9, 3),  # the value that it prints
        }
        return Reported((max(1, round(1e9 * line.mean_s)),), line.count, nbytes=nbytes, checked=True, facts=facts)

    prepare.__name__ = name.replace("-", "_")
    prepare.__doc__ = f"""Bandwidth by BabelStream{of}, the program {name} on PATH: its five operations.

    Arrays are as large as stream's, and bytes are counted as in stream. The program runs once in each process, and repeats
    each operation {REPETITIONS} times. The value is that of the mean time of all repetitions but the first, as the program
    reports it, and `best_gb_s` that of the minimum, which it prints as its result. It times a launch with its completion by the
    host's clock, and checks its results within rounding errors. Raises Skip where the program is for other devices or does not
    find this one, DeviceError where it fails.
    """
    return benchmark(
        BANDWIDTH,
        suite="memory",
        source="BabelStream (Deakin et al. 2018)",
        peer_of="stream",
        is_available=_is_on_path(name, *kinds),
        where=lambda info, op, dtype, array_bytes: array_bytes >= MIN_ARRAY_BYTES,
        figure_axis="array_bytes",
        op=axis(*STREAM_FUNCTIONS),
        dtype=axis("double", "float"),
        array_bytes=axis_of(lambda info: (headline_bytes(info),)),
    )(prepare)


babelstream = _stream_benchmark("babelstream", "")
omp_stream = _stream_benchmark("omp-stream", " with OpenMP", "cpu")
ocl_stream = _stream_benchmark("ocl-stream", " with OpenCL")
cuda_stream = _stream_benchmark("cuda-stream", " with CUDA", "gpu")


@lru_cache(maxsize=8)
def _run_clpeak(info: DeviceInfo, test: str) -> ClpeakResult | Failure:
    return _run_program("clpeak", lambda path: programs.run_clpeak(path, info, test))


def _facts(result: ClpeakResult, metric: str) -> Mapping[str, Value]:
    timed = f"by clpeak itself, its mean ({metric} of its kernels)"
    return {"library": "clpeak OpenCL", "version": result.version, "timed": timed}


def _best_rate(device: Device, test: str) -> tuple[int, Mapping[str, Value]]:
    """The rate of clpeak's best kernel of a test, in units per second, and facts of the record. Raises DeviceError for a result
    in an unknown unit."""
    result = _run_once(_run_clpeak(device.info, test))
    if result.unit not in UNIT_SCALES:
        raise DeviceError(f"clpeak: {test} is in {result.unit!r}, which is no rate")
    best = max(result.figures, key=lambda name: result.figures[name])
    rate = result.figures[best] * UNIT_SCALES[result.unit]
    if rate > MAX_RATE_PER_S:
        raise DeviceError(f"clpeak: {test} is {rate:.3g} a second, which no device does")
    return round(rate), _facts(result, best)


@benchmark(
    Metric("flop_rate", "GFLOP/s", "flops", "rate", "higher", only={"dtype": ("double", "float", "half")}),
    Metric("operation_rate", "Gop/s", "flops", "rate", "higher", only={"dtype": ("int", "short", "char", "char_dot")}),
    suite="compute",
    source="clpeak (Bhat)",
    peer_of="arithmetic",
    is_available=_is_on_path("clpeak"),
    figure_axis="dtype",
    dtype=axis(*CLPEAK_TESTS),
)
def clpeak_arithmetic(device: Device, dtype: str) -> Reported:
    """Rate of multiply-adds in registers by clpeak's OpenCL kernels, for the best of its vector widths.

    clpeak does not check its results. Raises Skip where it does not find this device, DeviceError where it fails.
    """
    flops, facts = _best_rate(device, CLPEAK_TESTS[dtype])
    return Reported((NS_PER_S,), 0, flops=flops, facts=facts)


@benchmark(
    Metric("bandwidth", "GB/s", "nbytes", "rate", "higher"),
    suite="access",
    source="clpeak (Bhat)",
    peer_of="local_read",
    is_available=_is_on_path("clpeak"),
)
def clpeak_local(device: Device) -> Reported:
    """Bandwidth of local memory by clpeak's OpenCL kernels, for the best of its vector widths.

    clpeak writes and reads, and does not check its results. Raises Skip where it does not find this device, DeviceError where
    it fails.
    """
    nbytes, facts = _best_rate(device, "local_memory_bandwidth")
    return Reported((NS_PER_S,), 0, nbytes=nbytes, facts=facts)


def _clpeak_latency(device: Device, metric: str) -> Reported:
    result = _run_once(_run_clpeak(device.info, "kernel_launch_latency"))
    if result.unit != "us" or metric not in result.figures:
        raise Skip(f"clpeak has no {metric} for this device")
    if result.figures[metric] > programs.RUN_LIMIT_S * 1e6:
        raise DeviceError(f"clpeak: {metric} is {result.figures[metric]:.3g} us, which is longer than it ran")
    note = "clpeak's kernel differs: one work-group of the largest size per compute unit, with one load per work-item"
    ns = max(1, round(1000 * result.figures[metric]))
    return Reported((ns,), 0, ops=1, notes=(note,), facts=_facts(result, metric))


def _has_clpeak_launch_size(info: DeviceInfo, groups: int) -> bool:
    """Whether a point is the nearest of ours to clpeak's launch of a largest work-group on each compute unit."""
    return groups == 1024


@benchmark(
    Metric("round_trip", "ns", "ops", "cost", "lower"),
    suite="sync",
    source="clpeak (Bhat)",
    peer_of="launch",
    is_available=_is_on_path("clpeak"),
    where=_has_clpeak_launch_size,
    groups=axis(1024),
)
def clpeak_launch(device: Device, groups: int) -> Reported:
    """Round trip of a small kernel, from its launch until the host knows that it ended, by clpeak.

    Raises Skip where clpeak does not find this device, DeviceError where it fails.
    """
    return _clpeak_latency(device, "roundtrip")


@benchmark(
    Metric("queued_to_start", "ns", "ops", "cost", "lower"),
    suite="sync",
    source="clpeak (Bhat)",
    peer_of="launch_wait",
    is_available=_is_on_path("clpeak"),
    where=_has_clpeak_launch_size,
    groups=axis(1024),
)
def clpeak_wait(device: Device, groups: int) -> Reported:
    """Queue-to-start delay of a kernel from event profiling, as clpeak reads it (its `dispatch`).

    Raises Skip where clpeak does not find this device, DeviceError where it fails.
    """
    return _clpeak_latency(device, "dispatch")
