"""`new`: the two files of a benchmark of one's own, which runs at once and is to be changed."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Annotated

import typer

from clmembench.cli import exit_codes, options, outputs
from clmembench.sanitize import argument, line

TEMPLATES = Path(__file__).parent / "templates"
NAME = re.compile(r"[a-z][a-z0-9_]{1,39}")


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the benchmark, such as my_copy.")],
    output: Annotated[
        Path, options.output_option("Folder in which NAME.py and NAME.cl are made; it may be a new one.", "DIR")
    ] = Path(),
    overwrite: options.Overwrite = False,
) -> None:
    """Create a benchmark of your own: a module and a kernel.

    Writes a module and a kernel as templates, which already run and verify their results: run --path DIR measures them."""
    from clmembench.benchmarks import discovered

    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        exit_codes.stop(f"{name!r} is no name: write 2 to 40 of a-z, 0-9 and _, such as my_copy", exit_codes.USAGE)
    if name in discovered():
        exit_codes.stop(f"there is a benchmark {name}: choose another name", exit_codes.USAGE)
    if output.exists() and not output.is_dir():
        exit_codes.stop(f"{output} is no folder: choose another -o", exit_codes.USAGE)
    paths = [output / f"{name}.{kind}" for kind in ("py", "cl")]
    for path in paths if output.is_dir() else paths[:1]:
        outputs.check(path, overwrite, "NAME")
    for path in paths:
        text = (TEMPLATES / f"benchmark{path.suffix}.txt").read_text(encoding="utf-8")
        outputs.write(path, text.replace("@NAME@", name), overwrite, "NAME")
    print(line(f"wrote {paths[0]} and {paths[1]}"))
    print(line(f"Measure it: clmembench run --path {argument(output)} -b {name}"))
    print(line(f"Describe it: clmembench describe --path {argument(output)} {name}"))
