"""Options that several commands have, each defined once, and the parsing of their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clmembench import units
from clmembench.cli import completion, exit_codes

if TYPE_CHECKING:
    from clmembench.model import Value

DEVICE_FORMS = "INDEX, PLATFORM:DEVICE, name~TEXT, uuid:HEX, pci:ADDRESS or sycl:INDEX"
MAX_SEED = 2**31 - 1


def device_option(what: str) -> Any:
    """`--device` with a help text that begins with `what` it is for."""
    text = f"{what}: {DEVICE_FORMS}."
    return typer.Option("-d", "--device", metavar="DEVICE", help=text, autocompletion=completion.devices)


def budget_option(default: str, of: str = "the whole command") -> Any:
    """`--budget` of a command whose limit is `default`."""
    text = f"Time limit of {of}, such as 10m; default: {default}."
    return typer.Option("--budget", metavar="TIME", help=text, show_default=False)


def timeout_option(default: str) -> Any:
    """`--timeout` of a command whose limit is `default`."""
    text = f"Time limit of a point, at which its worker process is killed. Default: {default}."
    return typer.Option("--timeout", metavar="TIME", help=text, show_default=False)


def output_option(help: str, metavar: str = "FILE") -> Any:
    """`--output` of a command that writes something else than one results file."""
    return typer.Option("-o", "--output", metavar=metavar, help=help)


def processes_option(default: str, most: int | None = 100) -> Any:
    """`--processes` of a command that starts `default` fresh processes, and never more than `most`."""
    return typer.Option(
        "--processes", metavar="N", min=1, max=most, help=f"Fresh processes that measure each point; default: {default}."
    )


def suite_option(help: str) -> Any:
    """`--suite` of a command that measures or reads one."""
    return typer.Option("-s", "--suite", metavar="SUITE", help=help, autocompletion=completion.suites)


def status_option(help: str) -> Any:
    """`--status` of a command that lists values."""
    return typer.Option("--status", metavar="STATUS", help=help)


def stored_run_argument(help: str) -> Any:
    """The argument RUN of a command that measures without it."""
    return typer.Argument(metavar="RUN", help=help, show_default=False)


Device = Annotated[str | None, device_option("Device to measure, default 0")]
AnyDevice = Annotated[str | None, device_option("Only this device")]
Bench = Annotated[
    list[str] | None,
    typer.Option(
        "-b",
        "--bench",
        metavar="GLOB",
        help="Only benchmarks whose name matches; repeatable.",
        autocompletion=completion.benchmarks,
    ),
]
Axis = Annotated[
    list[str] | None,
    typer.Option(
        "-a",
        "--axis",
        metavar="NAME=VALUES",
        help="Values of an axis: op=[triad,copy], array_bytes=64MiB; repeatable.",
        autocompletion=completion.axes,
    ),
]


def _load_folders(context: typer.Context, folders: list[Path] | None) -> list[Path] | None:
    """Load the benchmarks of the folders, so that all that follows knows them. Not while a shell completes the line."""
    if folders and not context.resilient_parsing:
        from clmembench.benchmarks import add_folders
        from clmembench.benchmarks.plugins.foreign_code import ExternalError

        try:
            add_folders(folders)
        except ExternalError as error:
            exit_codes.stop(str(error), exit_codes.USAGE)
    return folders


OwnBenchmarks = Annotated[
    list[Path] | None,
    typer.Option(
        "--path",
        metavar="DIR",
        help="Folder of benchmarks of your own, whose code is run: see `clmembench new`; repeatable.",
        callback=_load_folders,
    ),
]


ShowEnergy = Annotated[
    bool, typer.Option("--energy", help="Show the energy of each point, and the range of its sensor readings.")
]
Energy = Annotated[
    bool,
    typer.Option(
        "--energy", help="Sample each point for at least 2 s where an energy counter needs it to resolve the point's energy."
    ),
]


def benchmarks_of_folders(folders: list[Path] | None) -> list[str] | None:
    """Names of the benchmarks in the folders of --path: what is measured where neither a suite nor a benchmark is named."""
    from clmembench.benchmarks import add_folders

    return add_folders(folders) if folders else None


def warn_of_packages() -> None:
    """Say what is wrong with benchmarks and studies that installed packages offer."""
    from clmembench import benchmarks, studies

    for problem in (*benchmarks.problems_of_packages(), *studies.problems_of_packages()):
        exit_codes.say(f"warning: {problem}")


Budget = Annotated[str | None, budget_option("no limit")]
Timeout = Annotated[str | None, timeout_option("120s")]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        max=MAX_SEED,
        help="Seed of the random inputs and of the measurement order; default: 0.",
    ),
]
ResultsFile = Annotated[Path | None, output_option("Results file to write, or a folder for a new one; default: ./reports.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace output files that exist.")]
Wait = Annotated[
    str | None,
    typer.Option(
        "--wait",
        metavar="[TIME]",
        help="Wait until no other run uses the device, for TIME at most, such as 10m; default: without limit.",
    ),
]
WaitQuiet = Annotated[
    str | None,
    typer.Option(
        "--wait-quiet",
        metavar="TIME",
        help="Wait until no other program uses the device or the CPUs it needs, for TIME at most; then measure.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
Markdown = Annotated[bool, typer.Option("--md", help="Print Markdown tables.")]
Latex = Annotated[bool, typer.Option("--latex", help="Print LaTeX tables (booktabs).")]
ShownSuite = Annotated[str | None, suite_option("Only benchmarks of this suite, such as memory or quick.")]
Status = Annotated[
    list[str] | None,
    status_option("Only values with this status: ok, suspect, undetermined, wrong, skipped, failed, timeout; repeatable."),
]
Verdict = Annotated[
    list[str] | None,
    status_option("List only values that are slower, faster, undecided or same; totals count all values. Repeatable."),
]
Wide = Annotated[bool, typer.Option("--wide", help="Print tables unfolded, however narrow the terminal is.")]
Margin = Annotated[
    str,
    typer.Option(
        "--margin", metavar="PERCENT", help="Equivalence margin; a smaller difference is never called faster or slower."
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Compare changed benchmarks and other devices too, with a warning for each."),
]
StrictReading = Annotated[bool, typer.Option("--strict", help="Refuse a file that has a malformed line.")]

FORMAT_FLAGS = {"json": "--json", "csv": "--csv", "md": "--md", "latex": "--latex"}


def output_format(**wanted: bool) -> str:
    """The one format that was asked for, of the names in FORMAT_FLAGS that the command has; "text" where there is none. Ends
    the command where there are several."""
    chosen = [name for name, is_wanted in wanted.items() if is_wanted]
    if len(chosen) > 1:
        *others, last = (FORMAT_FLAGS[name] for name in wanted)
        exit_codes.stop(f"choose one of {', '.join(others)} and {last}", exit_codes.USAGE)
    return chosen[0] if chosen else "text"


def chosen_format(context: typer.Context) -> str:
    """The one format that was asked for, of those that the command of this context has."""
    return output_format(**{name: context.params[f"as_{name}"] for name in FORMAT_FLAGS if f"as_{name}" in context.params})


def parse_axes(given: list[str], matrices: list[Path]) -> Mapping[str, tuple[Value, ...]]:
    """name=value or name=[value,value], all of one name together, and files as values of axis matrix. Raises ValueError for
    anything else."""
    axes: dict[str, tuple[Value, ...]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        values = values.strip().removeprefix("[").removesuffix("]")
        if not equals or not name.strip() or not values.strip():
            raise ValueError(f"-a {text!r}: write name=value or name=[value,value]")
        more = (_value(name.strip(), part.strip().strip("\"'")) for part in values.split(","))
        axes[name.strip()] = (*axes.get(name.strip(), ()), *more)
    if matrices:
        axes["matrix"] = (*axes.get("matrix", ()), *map(str, matrices))
    return {name: tuple(dict.fromkeys(values)) for name, values in axes.items()}


def _value(name: str, text: str) -> Value:
    if re.fullmatch(r"-?[0-9]+", text):
        if len(text) > 19:
            raise ValueError(f"-a {' '.join(name.split())}: {text[:30]} is beyond 64 bits")
        return int(text)
    if re.fullmatch(r"[0-9]{1,18}\.[0-9]{1,18}", text):
        return float(text)
    if name.endswith("_bytes") and text[:1].isdigit():
        return units.parse_bytes(text)
    return text
