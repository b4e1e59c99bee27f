"""`run --runtime opencl,sycl`: one device under both runtimes, interleaved, and the overhead of SYCL."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clmembench import units
from clmembench.cli import devices, exit_codes, options
from clmembench.cli.command import Command
from clmembench.cli.running import run_request, session
from clmembench.studies.ab import command as live
from clmembench.studies.ab.live_run import LiveRun, RequestedSide

if TYPE_CHECKING:
    from clmembench.model import Benchmark, DeviceInfo
    from clmembench.plan.selection import Selection
    from clmembench.studies.ab.ab_decision import Outcome

BOTH = frozenset({"opencl", "sycl"})
DEFAULT_BUDGET = "6m"
# launch, dispatch, small copies, and two kernels that the layer does not affect: one memory-bound, one compute-bound
DEFAULT_BENCHMARKS = ("launch", "launch_dispatch", "transfer_latency", "stream", "dgemm")
DEFAULT_AXES = ("op=triad",)
DEFAULT_ARRAY_BYTES = 64 << 20  # larger than most caches but filled quickly: several rounds are needed, so each must be short
MARGIN = 0.05


# options of `run` that apply here
MEASURE_OPTIONS = ("device", "bench", "axis", "budget", "timeout", "seed", "size", "output", "overwrite", "as_json")
USED_OPTIONS = frozenset({"runtime", *MEASURE_OPTIONS})


class RunOfRuntimes(Command):
    """`run`, which measures both runtimes interleaved if --runtime names both."""

    def invoke(self, ctx: Any) -> Any:
        """Run the requested command."""
        given = ctx.params
        names = (given["runtime"] or "").split(",")
        if given["resume"] is not None or len(names) != len(BOTH) or set(names) != BOTH:
            return super().invoke(ctx)
        others = session.on_command_line(ctx, but=USED_OPTIONS)
        if others:
            exit_codes.stop(f"--runtime opencl,sycl measures both interleaved: leave out {', '.join(others)}", exit_codes.USAGE)
        options.warn_of_packages()
        return measure(*(given[name] for name in MEASURE_OPTIONS))


def measure(
    device: str | None,
    bench: list[str] | None,
    axis: list[str] | None,
    budget: str | None,
    timeout: str | None,
    seed: int | None,
    size: str | None,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Measure both runtimes interleaved and print ratios and the cost of the layer. Ends the command with FAILED where a value
    has no ratio because a side failed."""
    began = time.monotonic()
    wanted = _sides(device)
    try:
        seconds = units.parse_seconds(budget or DEFAULT_BUDGET, "--budget")
        timeout_s = units.parse_seconds(timeout or live.DEFAULT_TIMEOUT, "--timeout")
        array_bytes = run_request.parse_array_bytes(size) if size else DEFAULT_ARRAY_BYTES
        wanted = wanted[0].with_arrays(array_bytes), wanted[1].with_arrays(array_bytes)
        selection, chosen = _selected(wanted[0].info, bench, axis, timeout_s, seed or 0)
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    files = live.side_files(wanted[1].info, output, overwrite, ("opencl", "sycl"))
    run = LiveRun(wanted, selection, chosen, MARGIN, began + seconds, seconds, files, overwrite)
    interrupted = run.measure()
    _print(run, run.outcomes(), time.monotonic() - began, as_json)
    if interrupted:
        exit_codes.stop("interrupted: the results files hold every record up to here", exit_codes.INTERRUPTED)


def _print(run: LiveRun, outcomes: list[Outcome], seconds: float, as_json: bool) -> None:
    from clmembench.report import render
    from clmembench.studies.ab import ab_outcome
    from clmembench.studies.ab.ab_outcome import layer_sentences

    sentences = layer_sentences(outcomes, "OpenCL", "SYCL")
    found = run.comparison(outcomes, seconds, sentences)
    if as_json:
        print(render.json_text(found))
    else:
        print("\n".join([ab_outcome.comparison_text(found), "", *sentences]).rstrip())
    failed = [o.reason for o in outcomes if o.verdict == "failed"]
    if failed:
        exit_codes.stop(f"{len(failed)} of {len(outcomes)} values have no ratio: {failed[0]}", exit_codes.FAILED)


def _sides(device: str | None) -> tuple[RequestedSide, RequestedSide]:
    """The device under OpenCL and under SYCL. Ends the command unless both have it."""
    from clmembench.runtimes.hardware import is_same_hardware

    sycl = devices.listed(device if devices.runtime_of(device) == "sycl" else f"{devices.SYCL}0")
    if device is None or devices.runtime_of(device) == "sycl":
        b = devices.select(sycl, device or f"{devices.SYCL}0")
        return _opencl_side(b), _side(b)
    a = devices.select(devices.listed(), device)
    same = sorted((info for info in sycl if is_same_hardware(a, info)), key=lambda info: info.driver != a.driver)
    if not same:
        exit_codes.stop(f"{a.name} is no SYCL device: see clmembench devices", exit_codes.NO_DEVICE)
    _warn(a, same[0])
    return _side(a), _side(same[0])


def _opencl_side(sycl: DeviceInfo) -> RequestedSide:
    """The same hardware under OpenCL, by the same driver if there is one. The driver of the extra `sycl` is not registered, so
    its path is passed to the loader of the worker process."""
    from clmembench.measure import device_list
    from clmembench.measure.worker_process import Start
    from clmembench.runtimes.hardware import is_same_hardware
    from clmembench.runtimes.sycl.library import packaged_driver
    from clmembench.studies.ab import ab_side

    here = [info for info in device_list.listed("opencl").devices if is_same_hardware(sycl, info)]
    alike = [info for info in here if info.driver == sycl.driver]
    driver = packaged_driver()
    if not alike and driver is not None:
        start = Start("", {"OCL_ICD_VENDORS": str(driver)})
        try:
            found = ab_side.read_installation("OpenCL", start).devices
        except ab_side.SideError as error:
            exit_codes.stop(str(error), exit_codes.FAILED)
        named = [info for info in found if is_same_hardware(sycl, info) and info.driver == sycl.driver]
        if named:
            return _side(named[0], start)
    if not here:
        exit_codes.stop(f"{sycl.name} is no OpenCL device: see clmembench devices", exit_codes.NO_DEVICE)
    a = (alike or here)[0]
    _warn(a, sycl)
    return _side(a)


def _warn(a: DeviceInfo, b: DeviceInfo) -> None:
    if a.driver != b.driver:
        exit_codes.say(
            f"warning: OpenCL is {a.platform} {a.driver} and SYCL {b.platform} {b.driver}: ratios are of two drivers, not of "
            "the layer alone"
        )


def _side(info: DeviceInfo, start: object = None) -> RequestedSide:
    from clmembench import __version__
    from clmembench.host import environment
    from clmembench.measure.worker_process import Start

    begun = start if isinstance(start, Start) else Start()
    words = ", ".join([f"{info.name} ({info.platform} {info.driver})", *(f"{n}={v}" for n, v in begun.environment.items())])
    return RequestedSide(begun, info, words, {}, __version__, dict(environment.packages()))


def _selected(
    info: DeviceInfo, bench: list[str] | None, axis: list[str] | None, timeout_s: float, seed: int
) -> tuple[Selection, list[Benchmark]]:
    """The selection and its benchmarks. Raises ValueError where there are none, or a growing axis has no values."""
    from clmembench.host import cpu_topology
    from clmembench.plan.selection import Selection, check_axes, selected_benchmarks
    from clmembench.studies.ab.ab_rounds import check_growing_axes_named

    selection = Selection(
        suite="quick",
        globs=tuple(bench or DEFAULT_BENCHMARKS),
        axes=options.parse_axes(axis or ([] if bench else list(DEFAULT_AXES)), []),
        timeout_s=timeout_s,
        seed=seed,
        topology=cpu_topology.read() if info.kind == "cpu" else (),
    )
    if bench:
        selection = replace(selection, suite="all")
    chosen = selected_benchmarks(selection)
    check_axes(chosen, info, selection)
    for benchmark in chosen:
        check_growing_axes_named(benchmark, selection)
    return session.with_stored_configurations(info, selection, chosen), chosen
