"""`devices`, `suites` and `describe`: the devices of this host and the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from clmembench.cli import completion, exit_codes, options
from clmembench.sanitize import line
from clmembench.units import count, format_bytes, format_param, format_value

if TYPE_CHECKING:
    from clmembench.model import Axis, DeviceInfo


def listed() -> list[DeviceInfo]:
    """Every device. Ends the command with NO_DEVICE where there is none, or pyopencl does not load."""
    from clmembench.runtimes import runtime

    try:
        found = runtime("opencl").devices()
    except ImportError as error:
        exit_codes.stop(f"pyopencl does not load ({error}): pip install --force-reinstall pyopencl", exit_codes.NO_DEVICE)
    if not found:
        exit_codes.stop(exit_codes.NO_OPENCL, exit_codes.NO_DEVICE)
    return found


def select(found: Sequence[DeviceInfo], text: str) -> DeviceInfo:
    """The one device that INDEX, P:D, name~TEXT, uuid:HEX or pci:ADDRESS names. Ends the command when it is none or several."""
    if text.isdecimal() and text.isascii():
        hits = [found[int(text)]] if int(text) < len(found) else []
    elif text.startswith("uuid:"):
        wanted = text[5:].replace("-", "").lower()
        hits = [d for d in found if wanted and d.uuid.startswith(wanted)]
    elif text.startswith("pci:"):
        wanted = text[4:].lower()
        hits = [d for d in found if wanted and d.pci and (d.pci == wanted or d.pci.endswith(f":{wanted}"))]
    elif text.startswith("name~"):
        hits = [d for d in found if text[5:].lower() in d.name.lower()]
    elif text.endswith("~"):
        hits = [d for d in found if text[:-1].lower() in d.name.lower()]
    else:
        hits = [d for d in found if d.selector == text]
    if len(hits) != 1:
        _refuse(found, text, bool(hits))
    return hits[0]


def _refuse(found: Sequence[DeviceInfo], text: str, several: bool) -> NoReturn:
    known = "; ".join(f"{i} {d.name}" for i, d in enumerate(found))
    meant = completion.device_remedy(found, text)
    problem = "matches several devices" if several else "matches no device"
    exit_codes.stop(
        f"--device {text!r} {problem}: {meant}give an index, P:D, name~TEXT, uuid:HEX or pci:ADDRESS. Devices: {known}",
        exit_codes.USAGE if several else exit_codes.NO_DEVICE,
    )


def devices(
    as_json: options.Json = False,
) -> None:
    """List the OpenCL devices of this host, GPUs first.

    A device is listed once, however often its driver is registered.
    """
    found = listed()
    if as_json:
        rows = [
            {
                "index": index,
                "id": d.id,
                "name": d.name,
                "platform": d.platform,
                "vendor": d.vendor,
                "type": d.kind,
                "driver": d.driver,
                "version": d.version,
                "compute_units": d.compute_units,
                "global_mem_bytes": d.global_mem_bytes,
                "max_alloc_bytes": d.max_alloc_bytes,
                "local_mem_bytes": d.local_mem_bytes,
                "max_work_group": d.max_work_group,
                "fp64": "fp64" in d.features,
                "features": sorted(d.features),
                "selector": d.selector,
                "uuid": d.uuid,
                "pci": d.pci,
            }
            for index, d in enumerate(found)
        ]
        print(json.dumps(rows, indent=1))
        return
    for index, d in enumerate(found):
        said = (
            f"{index}  {d.name}  ({d.kind}, {d.platform} {d.driver}, {count(d.compute_units, 'compute unit')}, "
            f"{format_bytes(d.global_mem_bytes)}, uuid:{d.uuid[:8]}{', pci:' + d.pci if d.pci else ''})"
        )
        print(line(said))


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
        str, typer.Argument(help="Name of a benchmark, as in `suites`.", autocompletion=completion.all_benchmarks)
    ],
    path: options.OwnBenchmarks = None,
) -> None:
    """Describe a benchmark: purpose, metrics, axes and source."""
    import inspect

    from clmembench.benchmarks import discovered

    known = discovered()
    if bench not in known:
        from clmembench.plan import suggestions

        exit_codes.stop(f"no benchmark {bench!r}: {suggestions.or_all(bench, known)}", exit_codes.USAGE)
    found = known[bench]
    print(f"{found.name} (suite {found.suite}, version {found.version})\n")
    print(f"{inspect.getdoc(found.prepare)}\n")
    for metric in found.metrics:
        print(f"metric  {metric.name}: {metric.form} in {metric.unit}, {metric.better} is better")
    for name, axis in found.axes.items():
        kind = "tuning, searched" if axis.tuning else "grows until the metric settles" if axis.per_octave else ""
        needs = "; ".join(f"{value} needs {', '.join(sorted(features))}" for value, features in axis.needs.items())
        print(f"axis    {name}: {_values(name, axis)}{f' ({kind})' if kind else ''}{f' [{needs}]' if needs else ''}")
    if found.needs:
        print(f"needs   {', '.join(sorted(found.needs))}")
    print(f"source  {found.source}")
    if found.origin:
        print(line(f"origin  {found.origin}"))


def _values(name: str, axis: Axis) -> str:
    """The values on the first device, in the unit that the axis' name declares; they depend on a device."""
    from clmembench.runtimes import runtime

    try:
        infos = runtime("opencl").devices()
    except ImportError:
        infos = []
    if not infos:
        return "depends on the device"
    values = [format_value(v) if isinstance(v, float) else format_param(name, v) for v in axis.values(infos[0])]
    return " to ".join(values) if axis.per_octave else ", ".join(values)
