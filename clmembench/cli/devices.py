"""`devices`, `suites` and `describe`: the devices of this host and the benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from clmembench.cli import completion, exit_codes, options
from clmembench.host import failures
from clmembench.sanitize import line
from clmembench.units import count, format_bytes, format_param, format_value

if TYPE_CHECKING:
    from clmembench.model import Axis, DeviceInfo
    from clmembench.report.json_outputs import DeviceObject


SYCL = "sycl:"  # before the selector of a SYCL device
OTHER_RUNTIMES = ("sycl", "fake")  # whose names stand before the selector; fake has no device that computes


def runtime_of(selector: str | None) -> str:
    """The runtime that a selector names: before a colon, or OpenCL."""
    name = (selector or "").partition(":")[0]
    return name if name in OTHER_RUNTIMES else "opencl"


def without_runtime(selector: str) -> str:
    """The selector among the devices of its runtime."""
    return selector.removeprefix(f"{runtime_of(selector)}:")


def listed(selector: str | None = None) -> Sequence[DeviceInfo]:
    """Every device of the runtime that a selector names, OpenCL's without one. Ends the command with NO_DEVICE where there is
    none, or the runtime does not load."""
    name = runtime_of(selector)
    sycl = name == "sycl"
    try:
        found, left_out = _listing(name)
    except ImportError as error:
        remedy = "pip install 'clmembench[sycl]'" if sycl else "pip install --force-reinstall pyopencl"
        remedy = failures.scarcity_in(str(error)) or remedy
        exit_codes.stop(f"{'dpctl' if sycl else 'pyopencl'} does not load ({error}): {remedy}", exit_codes.NO_DEVICE)
    if not found and left_out:
        exit_codes.stop(
            f"no {'SYCL' if sycl else 'OpenCL'} device can be used: {'; '.join(left_out)}{failures.resource_limits()}",
            exit_codes.NO_DEVICE,
        )
    if not found:
        exit_codes.stop(exit_codes.NO_SYCL if sycl else exit_codes.NO_OPENCL, exit_codes.NO_DEVICE)
    _warn(left_out)
    return found


def _listing(name: str) -> tuple[Sequence[DeviceInfo], Sequence[str]]:
    """The devices of a runtime, and why others are left out. Raises ImportError where the runtime does not load."""
    from clmembench.measure import device_list

    try:
        found = device_list.listed(name)
    except ValueError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    return found.devices, found.left_out


def _warn(left_out: Sequence[str]) -> None:
    for sentence in left_out:
        exit_codes.say(f"warning: {sentence}")


def every_device() -> list[tuple[str, DeviceInfo]]:
    """The devices of every runtime that is installed, each with the text that --device takes. Ends the command where there is
    none at all."""
    from importlib.util import find_spec

    sycl: Sequence[DeviceInfo] = ()
    if find_spec("dpctl") is not None:
        try:
            sycl, left_out = _listing("sycl")
            _warn(left_out)
        except ImportError as error:
            _warn([f"dpctl does not load ({error}): its devices are not listed"])
    if sycl:
        opencl, left_out = _listing("opencl")
        _warn(left_out)
    else:
        opencl = listed()
    return [*((str(n), info) for n, info in enumerate(opencl)), *((f"{SYCL}{n}", info) for n, info in enumerate(sycl))]


def or_first(device: str | None) -> str:
    """What --device says, or the first device where it is not given; an empty text names none."""
    return "0" if device is None else device


def select(found: Sequence[DeviceInfo], text: str) -> DeviceInfo:
    """The one device that INDEX, P:D, name~TEXT, uuid:HEX or pci:ADDRESS names, or the same after "sycl:", where the selector
    is BACKEND:TYPE or BACKEND:TYPE:NUMBER instead of P:D. Ends the command when it is none or several."""
    wanted = without_runtime(text)
    if wanted.isdecimal() and wanted.isascii():
        hits = [found[int(wanted)]] if int(wanted) < len(found) else []
    elif wanted.startswith("uuid:"):
        uuid = wanted[5:].replace("-", "").lower()
        hits = [d for d in found if uuid and d.uuid.startswith(uuid)]
    elif wanted.startswith("pci:"):
        pci = wanted[4:].lower()
        hits = [d for d in found if pci and d.pci and (d.pci == pci or d.pci.endswith(f":{pci}"))]
    elif wanted.startswith("name~") or wanted.endswith("~"):
        name = (wanted[5:] if wanted.startswith("name~") else wanted[:-1]).lower()
        hits = [d for d in found if name and name in d.name.lower()]
    else:
        hits = [d for d in found if d.selector == text or (text != wanted and d.selector.startswith(f"{text}:"))]
    if len(hits) != 1:
        _refuse(found, text, bool(hits))
    return hits[0]


def _refuse(found: Sequence[DeviceInfo], text: str, several: bool) -> NoReturn:
    sycl = text.startswith(SYCL)
    known = "; ".join(f"{SYCL if sycl else ''}{i} {d.name}" for i, d in enumerate(found))
    forms = "an index, PLATFORM:DEVICE, name~TEXT, uuid:HEX or pci:ADDRESS"
    forms = "sycl:INDEX, sycl:BACKEND:TYPE, sycl:name~TEXT" if sycl else forms
    meant = "" if sycl else completion.device_remedy(found, text)
    problem = "matches several devices" if several else "matches no device"
    exit_codes.stop(
        f"--device {text!r} {problem}: {meant}give {forms}. Devices: {known}",
        exit_codes.USAGE if several else exit_codes.NO_DEVICE,
    )


def devices(
    as_json: options.Json = False,
) -> None:
    """List the devices of this host, GPUs first.

    OpenCL devices come first, then SYCL devices if the extra `sycl` is installed. A runtime lists each device once, even if its
    driver is registered several times. Devices that are the same hardware, by PCI address, UUID, or name and compute units, are
    marked."""
    from clmembench.runtimes.hardware import same_hardware

    found = every_device()
    others = [[found[n][0] for n in numbers] for numbers in same_hardware([info for _, info in found])]
    if as_json:
        from clmembench.report.render import json_text

        print(json_text([_device_object(selector, info, same) for (selector, info), same in zip(found, others, strict=True)]))
        return
    for (selector, d), same in zip(found, others, strict=True):
        said = (
            f"{selector}  {d.name}  ({d.kind}, {d.platform} {d.driver}, {count(d.compute_units, 'compute unit')}, "
            f"{format_bytes(d.global_mem_bytes)}, uuid:{d.uuid[:8]}{', pci:' + d.pci if d.pci else ''}"
            f"{', same hardware as ' + ' and '.join(same) if same else ''})"
        )
        print(line(said))


def _device_object(selector: str, d: DeviceInfo, same: list[str]) -> DeviceObject:
    from clmembench.report.json_outputs import DeviceObject

    own: dict[str, Any] = {
        "index": int(selector.removeprefix(SYCL)),
        "type": d.kind,
        "fp64": "fp64" in d.features,
        "features": sorted(d.features),
        "same_hardware": same,
    }
    return DeviceObject(
        **own, **{field.name: getattr(d, field.name) for field in fields(DeviceObject) if field.name not in own}
    )


def suites(path: options.OwnBenchmarks = None) -> None:
    """List the suites and their benchmarks."""
    from clmembench.benchmarks import discovered
    from clmembench.plan.selection import suites as known

    options.warn_of_packages()
    for name, members in known().items():
        print(f"{name}: {', '.join(members)}")
    print()
    for benchmark in discovered().values():
        print(f"{benchmark.name}: {benchmark.summary}")


def describe(
    bench: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK", help="Name of a benchmark, as in `suites`.", autocompletion=completion.all_benchmarks
        ),
    ],
    path: options.OwnBenchmarks = None,
) -> None:
    """Describe a benchmark: purpose, metrics, axes and source."""
    import inspect

    from clmembench.benchmarks import discovered

    known = discovered()
    if bench not in known:
        from clmembench.plan import selection

        exit_codes.stop(f"no benchmark {bench!r}: {selection.or_all(bench, known)}", exit_codes.USAGE)
    found = known[bench]
    print(f"{found.name} (suite {found.suite}, version {found.version})\n")
    print(f"{inspect.getdoc(found.prepare)}\n")
    for shown in dict.fromkeys(f"{m.name}: {m.form} in {m.unit}, {m.better} is better" for m in found.metrics):
        print(f"metric  {shown}")  # once for all of several parameters
    for name, axis in found.axes.items():
        kind = "tuning, searched" if axis.tuning else "grows until the metric settles" if axis.per_octave else ""
        alike: dict[str, list[str]] = {}
        for value, features in axis.needs.items():
            alike.setdefault(", ".join(sorted(features)), []).append(str(value))
        needs = "; ".join(f"{', '.join(values)}: needs {features}" for features, values in alike.items())
        print(f"axis    {name}: {_values(name, axis)}{f' ({kind})' if kind else ''}{f' [{needs}]' if needs else ''}")
    if found.needs:
        print(f"needs   {', '.join(sorted(found.needs))}")
    print(f"source  {found.source}")
    if found.origin:
        print(line(f"origin  {found.origin}"))


def _values(name: str, axis: Axis) -> str:
    """The values on the first device, in the unit that the axis' name declares; they depend on a device."""
    try:
        infos, _ = _listing("opencl")
    except ImportError:
        infos = []
    if not infos:
        return "depends on the device"
    values = [format_value(v) if isinstance(v, float) else format_param(name, v) for v in axis.values(infos[0])]
    return " to ".join(values) if axis.per_octave else ", ".join(values)


def of_runtime(runtime: str, device: str | None) -> str:
    """The device of a run of one runtime. Ends the command where there is no such runtime, or --device names one of the
    other."""
    if runtime not in ("opencl", "sycl"):
        exit_codes.stop(f"--runtime {runtime!r}: give opencl, sycl, or opencl,sycl for both interleaved", exit_codes.USAGE)
    if device is not None and runtime_of(device) != runtime:
        exit_codes.stop(f"--runtime {runtime} and --device {device} name two runtimes: leave out --runtime", exit_codes.USAGE)
    return device if device is not None else ("0" if runtime == "opencl" else f"{SYCL}0")
