"""The options that `run` alone has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clmembench.cli import options

Device = Annotated[str | None, options.device_option("Device to measure, default 0; all, gpu and cpu name several")]
Suite = Annotated[
    str | None,
    options.suite_option("quick, memory, access, sync, link, compute, all or everything; default: quick, or all with --bench."),
]
Runtime = Annotated[
    str | None,
    typer.Option("--runtime", metavar="NAMES", help="Runtime, opencl or sycl; opencl,sycl measures both interleaved."),
]
Matrix = Annotated[
    list[Path] | None,
    typer.Option("--matrix", metavar="FILE", help="Matrix Market file for spmv, in addition to -a matrix=...; repeatable."),
]
BenchmarkTimeout = Annotated[
    str | None,
    typer.Option("--benchmark-timeout", metavar="TIME", help="Time limit of a benchmark, as --budget; default: no limit."),
]
Processes = Annotated[int | None, options.processes_option("6 for points that depend on caches, else 1")]
Reference = Annotated[
    bool, typer.Option("--reference", help="Also measure this host's libraries on the same problems, interleaved.")
]
ArraySize = Annotated[
    str | None,
    typer.Option("--size", metavar="BYTES", help="Size of the largest array, such as 512MiB; default: fitted to the device."),
]
Resume = Annotated[
    Path | None, typer.Option("--resume", metavar="FILE", help="Resume an interrupted run; its settings come from FILE.")
]
Tuning = Annotated[
    Path | None,
    typer.Option("--tuning", metavar="FILE", help="Stored configurations to use; default: those that `tune` stored."),
]
NoTuning = Annotated[bool, typer.Option("--no-tuning", help="Search every configuration anew, without stored ones.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 6 where a value is suspect.")]
NoIsolate = Annotated[
    bool, typer.Option("--no-isolate", help="Measure in this process, for debugging; a crash or a hang ends the run.")
]
Label = Annotated[
    str | None, typer.Option("--label", metavar="NAME", help="Name of the device in reports; default: the driver's.")
]
Tag = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="KEY=VALUE", help="Fact to keep in the file, such as cooling=water; repeatable."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="List the points that would be measured, with time, memory and disk; measure nothing."),
]
