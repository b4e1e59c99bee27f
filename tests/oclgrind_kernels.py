"""The kernels of every file, by name, whether a file writes them out or a macro of its defines them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from clmembench.resources import kernel_source

FOLDER = Path(__file__).parent.parent / "cl_kernels"
ELSEWHERE = "elsewhere"  # where a source that is none of these files stands
_KERNEL = re.compile(r"\b(?:__)?kernel\b(?:\s+__attribute__\(\(.*?\)\))?\s+void\s+(\w+)\s*\((?:[^()]|\([^()]*\))*\)\s*\{")
_KEYWORD = re.compile(r"\b(?:__)?kernel\b")
_MACRO = re.compile(r"#\s*define\s+(\w+)(?:\(([^)]*)\))?(.*)")


def kernels_in(text: str) -> set[str]:
    """The kernels that a text defines in any of its builds. A macro's parameter may be a kernel's name. Raises ValueError for a
    kernel whose name is not found: it would be missed."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL).replace("\\\n", " ")
    lines = text.splitlines()
    macros = [(name, re.findall(r"\w+", given or ""), body) for name, given, body in map(_defined, lines) if name]
    code = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    naming: dict[str, int] = {}  # macros that define a kernel, and which of their arguments is its name
    found = _named(code)
    while True:
        known = dict(naming)
        for name, given, body in macros:
            for kernel in _named(body) | _of_calls(body, known):
                if kernel in given:
                    naming[name] = given.index(kernel)
                else:
                    found.add(kernel)
        if naming == known:
            return found | _of_calls(code, naming)


def _defined(line: str) -> tuple[str, str, str]:
    match = _MACRO.match(line.strip())
    return (match[1], match[2], match[3]) if match else ("", "", "")


def _named(code: str) -> set[str]:
    names = _KERNEL.findall(code)
    if len(names) != len(_KEYWORD.findall(code)):
        raise ValueError(f"a kernel without a name that can be read: {code.strip()[:200]}")
    return set(names)


def _of_calls(code: str, naming: Mapping[str, int]) -> set[str]:
    """The names that calls of such macros give to kernels."""
    calls = (found for macro in naming for found in re.finditer(rf"\b({macro})\(([^)]*)\)", code))
    return {found[2].split(",")[naming[found[1]]].strip() for found in calls}


@cache
def kernels_of_files() -> Mapping[str, frozenset[str]]:
    """The kernels that each file defines itself; those that it includes are the other file's."""
    return {path.stem: frozenset(kernels_in(path.read_text(encoding="utf-8"))) for path in FOLDER.glob("*.cl")}


def every_kernel() -> set[str]:
    """FILE.KERNEL of every kernel."""
    return {f"{file}.{kernel}" for file, kernels in kernels_of_files().items() for kernel in kernels}


@cache
def _files_in(source: str) -> tuple[str, ...]:
    return tuple(file for file in kernels_of_files() if kernel_source(file) in source)


def full_name(source: str, kernel: str) -> str:
    """FILE.KERNEL of a kernel of a source, which may include the file that defines it."""
    files = [file for file in _files_in(source) if kernel in kernels_of_files()[file]] or [ELSEWHERE]
    if len(files) > 1:
        raise ValueError(f"{kernel} is defined in {' and in '.join(files)}")
    return f"{files[0]}.{kernel}"
